"""What fairseq prints and writes with the plugin is what `Aligner` gives, and its criterion is fairseq's own."""

from __future__ import annotations

import importlib
import io
import logging
import re
import shutil
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Aligner, Direction, Pair, Settings
from align.core.types import Pieces, TextWarning
from align.training.plugin import FOLDER
from tests import toy
from tests.conftest import ROOT, example_pairs, plain

pytestmark = pytest.mark.usefixtures("one_thread")

BUNDLED = ROOT / "align" / "models" / "bundled" / "de-en"
CHECKPOINT = BUNDLED / "checkpoint.pt"
PLUGIN = ("--user-dir", FOLDER, "--task", "translation_align", "--cpu", "--num-workers", "0")
LAYER, HEAD = 2, 3
CELL = ("--align-layer", str(LAYER), "--align-head", str(HEAD))
SENTENCEPIECE = ("--remove-bpe", "sentencepiece")


def fairseq(program: str, *arguments: object) -> str:
    """What one of fairseq's programs prints, run in this process; its logging is left as it was."""
    handlers, level, argv, printed = logging.root.handlers[:], logging.root.level, sys.argv, io.StringIO()
    logging.root.handlers = [logging.NullHandler()]
    sys.argv = [f"fairseq-{program}", *map(str, arguments)]
    try:
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", TextWarning)
            importlib.import_module(f"fairseq_cli.{program}").cli_main()
    finally:
        logging.root.handlers, sys.argv = handlers, argv
        logging.root.setLevel(level)
    return printed.getvalue()


def lines(printed: str, letter: str) -> dict[int, list[str]]:
    """Sentences by number, each with its lines of this letter, without their scores."""
    found: dict[int, list[str]] = {}
    for number, line in re.findall(rf"^{letter}-(\d+)\t(?:-\d[^\t]*\t)?(.*)$", printed, re.MULTILINE):
        found.setdefault(int(number), []).append(line)
    return found


class InPieces:
    """A recorder that is told the pieces of pairs, whatever words they make."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._pieces: dict[int, Pieces] = {}
        self.max_positions, self.unk = (1024, 1024), 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def encode(self, pair: Pair) -> Pieces:
        return self._pieces[pair.id]

    def tell(self, source: Sequence[tuple[int, int]], target: Sequence[tuple[int, int]]) -> Pair:
        """A pair of these ids, each with the word it is a part of; what it returns has names for words."""
        counts = (max(word for _, word in source) + 1, max(word for _, word in target) + 1)
        pair = Pair(("w",) * counts[0], ("w",) * counts[1], len(self._pieces) + 1)
        self._pieces[pair.id] = Pieces(
            [*(number for number, _ in source), 2], [*(word for _, word in source), -1],
            [number for number, _ in target], [word for _, word in target], counts,
        )  # fmt: skip
        return pair


def sentencepiece_words(pieces: str, dictionary: Any) -> list[tuple[int, int]]:
    """Id and word of each piece."""
    found = []
    for piece in pieces.split():
        begins = not found or piece.startswith("\u2581")
        found.append((dictionary.index(piece), (found[-1][1] if found else -1) + begins))
    return found


@pytest.fixture(scope="module")
def dictionaries() -> tuple[Any, Any]:
    from fairseq.data import Dictionary

    return Dictionary.load(str(BUNDLED / "dict.de.txt")), Dictionary.load(str(BUNDLED / "dict.en.txt"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, recorder: Any, dictionaries: tuple[Any, Any]) -> Path:
    """Examples in pieces, as fairseq reads raw text, one with a blank target."""
    folder = tmp_path_factory.mktemp("data")
    pairs = [pair for pair in example_pairs() if not pair.blank][:6]
    sides: tuple[list[str], list[str]] = ([], [])
    for pair in pairs:
        pieces = recorder.encode(pair)
        for side, dictionary, ids in zip(sides, dictionaries, (pieces.source[:-1], pieces.target), strict=True):
            assert recorder.unk not in ids
            side.append(" ".join(dictionary[number] for number in ids))
    sides[0].append(sides[0][0])
    sides[1].append("")
    for subset, (language, side) in product(("test", "valid"), zip(("de", "en"), sides, strict=True)):
        (folder / f"{subset}.de-en.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")
        shutil.copy(BUNDLED / f"dict.{language}.txt", folder)
    return folder


@pytest.fixture(scope="module")
def generate(data: Path) -> Callable[..., str]:
    common = (data, *PLUGIN, "--path", CHECKPOINT, "--dataset-impl", "raw", "--beam", "5", "--print-alignment", *CELL)
    return lambda *options: fairseq("generate", *common, *options)


@pytest.fixture(scope="module")
def in_words(generate: Callable[..., str]) -> str:
    return generate("--nbest", "2", *SENTENCEPIECE)


def test_generate_prints_the_links_of_the_words_of_what_it_prints(
    generate: Callable[..., str], in_words: str, recorder: Any, dictionaries: tuple[Any, Any]
) -> None:
    with pytest.warns(TextWarning, match="each piece counts as a word; --remove-bpe sentencepiece joins them"):
        in_pieces = generate("--nbest", "2")
    told = InPieces(recorder)
    settings = plain("norm", "input", LAYER, HEAD)
    of_text, of_words, of_pieces = (
        Aligner(Direction(recorder, settings)),
        Aligner(Direction(told, settings)),
        Aligner(Direction(told, settings)),
    )
    found, as_pieces = lines(in_words, "A"), lines(in_pieces, "A")
    assert sorted(found) == list(range(7))
    usual = 0
    for number, (source,) in lines(in_pieces, "S").items():
        for n, target in enumerate(lines(in_pieces, "H")[number]):
            sides = [sentencepiece_words(side, d) for side, d in zip((source, target), dictionaries, strict=True)]
            (words,), written = lines(in_words, "S")[number], lines(in_words, "H")[number][n]
            pair = told.tell(*sides)
            assert (len(words.split()), len(written.split())) == (len(pair.source), len(pair.target))
            assert found[number][n] == str(next(of_words([pair])))
            apart = [[(piece, m) for m, (piece, _) in enumerate(side)] for side in sides]
            assert as_pieces[number][n] == str(next(of_pieces([told.tell(*apart)])))
            text = Pair(tuple(words.split()), tuple(written.split()), 1)
            if recorder.encode(text) == told.encode(pair):  # beam search may write a word in other pieces
                usual += 1
                assert found[number][n] == str(next(of_text([text])))
        assert len(found[number]) == 2
    assert usual >= 7


def test_validate_writes_the_links_of_the_references(
    data: Path, tmp_path: Path, recorder: Any, dictionaries: tuple[Any, Any]
) -> None:
    """The bundled checkpoint says that its task is fairseq's own translation, as most checkpoints do."""
    out = tmp_path / "links"
    options = ("--path", CHECKPOINT, "--dataset-impl", "raw", "--max-tokens", "60", "--write-alignment", out)
    fairseq("validate", data, *PLUGIN, *options, *CELL, *SENTENCEPIECE, "--align-score", "weight")
    told, pairs = InPieces(recorder), []
    texts = [(data / f"valid.de-en.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    for source, target in list(zip(*texts, strict=True))[:-1]:
        sides = zip((source, target), dictionaries, strict=True)
        pairs.append(told.tell(*(sentencepiece_words(side, dictionary) for side, dictionary in sides)))
    alignments = Aligner(Direction(told, plain("weight", "input", LAYER, HEAD)))(pairs)
    expected = [f"A-{n}\t{alignment}" for n, alignment in enumerate(alignments)]
    written = out.read_text(encoding="utf-8").splitlines()
    assert sorted(written) == [*expected, "A-6\t"]


def test_training_and_validation_with_options_that_the_checkpoint_has_other_values_of(tmp_path: Path) -> None:
    data, during, after = tmp_path / "data", tmp_path / "during", tmp_path / "after"
    data.mkdir()
    for subset, (language, words) in product(("train", "valid"), (("de", toy.SOURCE_WORDS), ("en", toy.TARGET_WORDS))):
        (data / f"{subset}.de-en.{language}").write_text("\n".join([" ".join(words)] * 3) + "\n", encoding="utf-8")
        toy.save_dictionary(data / f"dict.{language}.txt", words)
    options = "--arch align_small --criterion blockwise_label_smoothed_cross_entropy --optimizer adam --max-epoch 2"
    options += " --encoder-embed-dim 16 --decoder-embed-dim 16 --lr 0.01 --max-tokens 100 --no-epoch-checkpoints"
    ours = ("--write-alignment", during, "--align-layer", "1", "--cpu-bf16", "--save-dir", tmp_path)
    fairseq("train", data, *PLUGIN, "--dataset-impl", "raw", *options.split(), *ours)
    last = during.read_text(encoding="utf-8").splitlines()
    assert sorted(line.partition("\t")[0] for line in last) == ["A-0", "A-1", "A-2"]  # not those of both epochs
    during.unlink()
    common = (data, *PLUGIN, "--dataset-impl", "raw", "--path", tmp_path / "checkpoint_last.pt", "--max-tokens", "100")
    fairseq("validate", *common)
    assert not during.exists()
    fairseq("validate", *common, "--write-alignment", after, "--align-layer", "3", "--align-null", "none")
    assert sorted(line.partition("\t")[0] for line in after.read_text().splitlines()) == ["A-0", "A-1", "A-2"]
    assert not during.exists()
    paths = f"{tmp_path / 'checkpoint_last.pt'}:{tmp_path / 'checkpoint_best.pt'}"
    generation = ("--gen-subset", "valid", "--print-alignment", "--align-layer", "1")
    with pytest.raises(ValueError, match="--path names 2"):
        fairseq("generate", data, *PLUGIN, "--dataset-impl", "raw", "--path", paths, *generation)


# From here on: toy models, and the task without the programs around it.

SOURCES = ["das haus ist alt .", "wir sehen", "nie das , und", "gross"]
TARGETS = ["the house is old now .", "we see", "never see it", "it"]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """Makes a task with these options, and a toy model for it."""
    from align.training.plugin.task import TranslationAlignConfig, TranslationAlignTask

    def with_options(
        shape: dict[str, Any] | None = None, words: tuple[list[str], list[str]] | None = None, **options: Any
    ) -> tuple[Any, Any]:
        words = words or (toy.SOURCE_WORDS, toy.TARGET_WORDS)
        model, _ = toy.build_model(shape or {}, *words)
        for language, side in zip(("de", "en"), words, strict=True):
            toy.save_dictionary(tmp_path / f"dict.{language}.txt", side)
        given = {"align_subwords": None, "align_subsets": "valid", "source_lang": "de", "target_lang": "en"}
        config = TranslationAlignConfig(data=str(tmp_path), **{**given, **options})
        return TranslationAlignTask.setup_task(config), model

    return with_options


def sample_of(task: Any, sources: Sequence[str] = SOURCES, targets: Sequence[str] = TARGETS) -> dict[str, Any]:
    """A batch as fairseq makes it: sources padded on the left, targets on the right."""
    from fairseq.data import LanguagePairDataset

    dictionaries = task.source_dictionary, task.target_dictionary
    source, target = (
        [d.encode_line(line, add_if_not_exist=False).long() for line in side]
        for d, side in zip(dictionaries, (sources, targets), strict=True)
    )
    sizes = [torch.tensor([len(line) for line in side]) for side in (source, target)]
    pairs = LanguagePairDataset(source, sizes[0], dictionaries[0], target, sizes[1], dictionaries[1], shuffle=False)
    sample: dict[str, Any] = pairs.collater([pairs[n] for n in range(len(sources))])
    assert (sample["net_input"]["src_tokens"][:, 0] == 1).any()
    return sample


def generation(**options: Any) -> Namespace:
    return Namespace(**{"beam": 3, "nbest": 2, "max_len_b": 8, "print_alignment": "hard", **options})


def translate(task: Any, model: Any, sample: dict[str, Any], **options: Any) -> Any:
    generator = task.build_generator([model], generation(**options))
    return task.inference_step(generator, [model], sample)


def own_recorder(task: Any, model: Any) -> InPieces:
    from align.models.fairseq.architecture import attention_of

    return InPieces(attention_of(model, name="toy"))


def words_of(task: Any, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Id and word of each piece that is a word; `<s>`, which random models write, is in no word."""
    found, word = [], -1
    for number in tokens:
        word += number != task.target_dictionary.bos()
        found.append((number, -1 if number == task.target_dictionary.bos() else word))
    return found


def expected_links(task: Any, model: Any, source: Any, tokens: Any, settings: Settings) -> list[tuple[int, int]]:
    recorder = own_recorder(task, model)
    read = [(number, word) for word, number in enumerate(n for n in source.tolist() if n > 2)]
    written = words_of(task, tokens.tolist()[:-1])
    if not any(word >= 0 for _, word in written):
        return []
    return list(next(Aligner(Direction(recorder, settings))([recorder.tell(read, written)])))


@pytest.mark.parametrize("score", ["norm", "weight"])
@pytest.mark.parametrize("position", ["input", "output"])
@pytest.mark.parametrize("null", ["eos", "mask", "none"])
def test_every_option_is_heeded(make: Callable[..., Any], score: Any, position: Any, null: Any) -> None:
    for layer, head in ((1, "all"), (2, "4")):
        options = {"align_layer": layer, "align_head": head, "align_score": score}
        task, model = make(**options, align_position=position, align_null=null)
        sample = sample_of(task)
        found = translate(task, model, sample)
        settings = plain(score, position, layer, "all" if head == "all" else 4, null)
        for source, hypotheses in zip(sample["net_input"]["src_tokens"], found, strict=True):
            for hypothesis in hypotheses[:2]:
                links = expected_links(task, model, source, hypothesis["tokens"], settings)
                assert hypothesis["alignment"] == links
            assert len(hypotheses[2]["alignment"]) == 0  # never printed
    assert any(hypotheses[0]["alignment"] for hypotheses in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "need --align-layer N.*extract-align prints the layer and head"),
        ({"align_layer": 3}, "layer 3 is out of range: the de-en model has 2 layers"),
        ({"align_layer": 1, "align_head": "auto"}, "--align-head must be a number from 1, or all; got 'auto'"),
        ({"align_layer": 1, "align_position": "both"}, "--align-position is input or output"),
        ({"align_layer": 1, "align_subwords": "letter"}, "--remove-bpe 'sentencepiece', .* not with 'letter'"),
    ],
)
def test_options_that_are_refused(make: Callable[..., Any], options: dict[str, Any], message: str) -> None:
    task, model = make(**options)
    assert task.build_generator([model], generation(print_alignment=None))
    with pytest.raises(ValueError, match=message):
        task.build_generator([model], generation())


@pytest.mark.parametrize("asked", [True, False])
def test_validation_leaves_the_model_as_it_was(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: bool
) -> None:
    options: dict[str, Any] = {"write_alignment": str(tmp_path / "links"), "align_layer": 1} if asked else {}
    task, model = make({"dropout": 0.1}, **options)
    if not asked:
        monkeypatch.setattr("align.training.plugin.task.WordAligner", None)
    sample, criterion = sample_of(task), criterion_of(task, "label_smoothed_cross_entropy")
    model.train()
    criterion(model, sample)[0].backward()
    before = {name: (p.clone(), None if p.grad is None else p.grad.clone()) for name, p in model.named_parameters()}
    state = torch.get_rng_state()
    loss, size, log = task.valid_step(sample, model, criterion)
    assert torch.equal(torch.get_rng_state(), state)
    for name, parameter in model.named_parameters():
        value, gradient = before[name]
        assert parameter.requires_grad
        assert torch.equal(parameter, value)
        assert (gradient is None) == (parameter.grad is None)
        assert gradient is None or torch.equal(parameter.grad, gradient)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    plain = super(type(task), task).valid_step(sample, model, criterion)
    assert (loss, size, log["nll_loss"]) == (plain[0], plain[1], plain[2]["nll_loss"])
    assert (tmp_path / "links").exists() == asked


def criterion_of(task: Any, name: str, smoothing: float = 0.1) -> Any:
    from fairseq.criterions import CRITERION_REGISTRY

    import align.training.plugin.criterion  # noqa: F401

    return CRITERION_REGISTRY[name](task, sentence_avg=False, label_smoothing=smoothing)


@pytest.fixture(params=[512, 5])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("align.training.plugin.criterion.BLOCK", request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", ["post-norm", "shared decoder embeddings", "all embeddings shared"])
def test_the_criterion_is_fairseqs_in_loss_and_gradients(
    make: Callable[..., Any], smoothing: float, shape: str
) -> None:
    words = (toy.SOURCE_WORDS, toy.SOURCE_WORDS) if "all" in shape else None
    task, model = make(toy.SHAPES[shape], words)
    sample = sample_of(task, SOURCES, SOURCES[::-1] if words else TARGETS)
    assert (sample["target"] == 1).any()
    found = {}
    for name in ("label_smoothed_cross_entropy", "blockwise_label_smoothed_cross_entropy"):
        criterion = criterion_of(task, name, smoothing)
        model.train()
        model.zero_grad()
        loss, size, log = criterion(model, sample)
        (3 * loss).backward()  # as a loss scale or an update frequency does
        gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
        model.eval()
        with torch.no_grad():
            still, _, still_log = criterion(model, sample)
        assert not still.requires_grad
        logs = {key: float(log[key]) for key in ("loss", "nll_loss", "ntokens", "nsentences", "sample_size")}
        found[name] = (size, {"": loss.detach(), **gradients}, [still, still_log["nll_loss"]], logs)
    own, ours = found.values()
    assert own[0] == ours[0]
    assert own[1].keys() == ours[1].keys()
    torch.testing.assert_close(ours[1], own[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[2], own[2], rtol=1e-5, atol=1e-5)
    assert ours[3] == pytest.approx(own[3], rel=1e-5)
