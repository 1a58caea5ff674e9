"""Hugging Face models from their folder, or the hub's cache, to links: those of the same weights elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from align import Aligner, Pair, Search, load, translate
from align.core.errors import ModelError
from align.models.huggingface.files import read_weights
from align.models.huggingface.tokenizer_json import JsonTokenizer
from tests import hugging
from tests.hostile.code import pickles
from tests.hugging import change

WORDS = (("das", "haus", "ist", "alt", "."), ("the", "house", "is", "old", "now", "."))
NAME = "some/model"
PAIRS = [WORDS, (("wir", "sehen"), ("we",)), (("</s>", "deu_Latn", "das"), ("<pad>", "we", "eng_Latn", "see"))] * 3


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    """A tiny model."""
    hugging.save_model("marian", tmp_path / "marian")
    return tmp_path / "marian"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub's client, without a network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def open_model(folder: Path, **more: Any) -> Aligner:
    """An aligner of a tiny model, which has languages or does without."""
    return load(folder, options=hugging.options(json.loads((folder / "config.json").read_text())["model_type"]), **more)


def links(aligner: Aligner, pairs: Sequence[Any] = PAIRS) -> list[str]:
    """What comes out, without warnings of what random weights make of it."""
    return [str(alignment) for alignment in aligner(pairs)]


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_no_word_of_a_text_becomes_a_special_piece(tmp_path: Path, kind: str) -> None:
    hugging.save_model(kind, tmp_path)
    recorder = open_model(tmp_path).forward.recorder
    plain = recorder.encode(Pair(("das",), ("the",), 1))
    hostile = recorder.encode(Pair(("das", "</s>", "<pad>", "deu_Latn", "<s>"), ("the", "</s>", "eng_Latn"), 1))
    around = [n for n, word in zip(plain.source, plain.source_words, strict=True) if word < 0]
    assert [n for n, word in zip(hostile.source, hostile.source_words, strict=True) if word < 0] == around
    special = {*range(3), *around}
    assert not special & {n for n, word in zip(hostile.source, hostile.source_words, strict=True) if word >= 0} - {
        recorder.unk
    }
    assert not special & set(hostile.target) - {recorder.unk}


def cut(path: Path) -> None:
    """Leave half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


WRONG: list[tuple[Callable[[Path], object], str]] = [
    (lambda f: change(f, "config.json", d_model=32), "weights and settings do not fit"),
    (lambda f: change(f, "config.json", encoder_layers=10**9), "its encoder_layers is 1000000000, not .* from 1 to"),
    (lambda f: change(f, "config.json", activation_function="eval"), "its activation_function is 'eval', not one of"),
    (lambda f: change(f, "vocab.json", new=500), "pieces on the source side, but .* trained with"),
    (lambda f: cut(f / "config.json"), "config.json: not JSON"),
    (lambda f: cut(f / "source.spm"), "source.spm: not a sentencepiece model"),
    (lambda f: cut(f / "model.safetensors"), "model.safetensors: not safetensors; it may be cut short"),
]


@pytest.mark.parametrize(("spoil", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_with_a_folder_is_said(marian: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(marian)
    with pytest.raises(ValueError, match=message) as error:
        load(marian)
    assert len(str(error.value)) < 600


def test_remote_code_is_not_even_looked_at(tmp_path: Path, marian: Path) -> None:
    mark = tmp_path / "mark"
    (marian / "modeling_own.py").write_text(f"open({str(mark)!r}, 'w')\n")
    own = {"AutoConfig": "modeling_own.C", "AutoModelForSeq2SeqLM": "modeling_own.M"}
    settings = {"attn_implementation": "some/kernel", "quantization_config": {"quant_method": "awq"}, "dtype": "x"}
    change(marian, "config.json", auto_map=own, **settings)
    assert links(open_model(marian))
    assert len(list(translate(open_model(marian), ["das haus"], Search(max_len_b=3)))) == 1
    own["AutoTokenizer"] = "modeling_own.OwnTokenizer"
    (marian / "tokenizer_config.json").write_text(json.dumps({"auto_map": own, "tokenizer_class": "OwnTokenizer"}))
    with pytest.raises(ModelError, match="its tokenizer is OwnTokenizer; with a model of type marian"):
        open_model(marian)
    assert not mark.exists()


def test_languages_of_the_tokenizer(tmp_path: Path) -> None:
    hugging.save_model("fsmt", tmp_path)
    assert load(tmp_path).forward.recorder.languages == ("de", "en")
    for wrong in (["../../de", "en"], ["de", 1], ["\x1b[31m", "en"]):
        change(tmp_path, "tokenizer_config.json", langs=wrong)
        with pytest.raises(ValueError, match=r"tokenizer_config\.json: .* is not a language code"):
            load(tmp_path)


def test_mbart_50_is_known_by_its_languages(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    hugging.save_model("mbart-50", tmp_path, size=100)
    pair = Pair(*WORDS, 1)
    named = open_model(tmp_path).forward.recorder
    (tmp_path / "tokenizer_config.json").unlink()
    assert open_model(tmp_path).forward.recorder.encode(pair) != named.encode(pair)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.add_special_tokens(["gl_ES"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert open_model(tmp_path).forward.recorder.encode(pair) == named.encode(pair)


def test_a_version_among_the_weights(tmp_path: Path) -> None:
    hugging.save_model("bart", tmp_path)
    expected = links(open_model(tmp_path))
    weights = load_file(tmp_path / "model.safetensors")
    for prefix in ("", "model."):
        more = {f"{prefix}{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
        save_file({**weights, **more}, tmp_path / "model.safetensors")
        assert links(open_model(tmp_path)) == expected


@pytest.mark.parametrize("merge", [["t", "x\u00e9"], "t x\u00e9"])
def test_merges_without_their_prefix_do_not_end_the_process(tmp_path: Path, merge: Any) -> None:
    hugging.save_model("t5", tmp_path)
    model = {"type": "BPE", "vocab": {"t": 0, "x\u00e9": 1, "tx\u00e9": 2}, "merges": [merge]}
    change(tmp_path, "tokenizer.json", model={**model, "continuing_subword_prefix": "##"})
    with pytest.raises(ValueError, match="its merges do not have its continuing_subword_prefix"):
        load(tmp_path)


def test_dropout_of_training_is_off(tmp_path: Path) -> None:
    hugging.save_model("t5", tmp_path)
    letters = {letter: n for n, letter in enumerate("abcdefgh")}
    merges = [("a", "b"), ("ab", "c"), ("abc", "d")]
    model = {"type": "BPE", "vocab": letters | {"ab": 8, "abc": 9, "abcd": 10}, "merges": merges, "dropout": 0.9}
    change(tmp_path, "tokenizer.json", model=model, added_tokens=[], pre_tokenizer={"type": "Whitespace"})
    pieces = JsonTokenizer(tmp_path / "tokenizer.json").pieces
    assert {tuple(pieces("abcd")) for _ in range(50)} == {("abcd",)}


def test_translating_needs_an_output_layer(marian: Path) -> None:
    change(marian, "config.json", tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"model\.safetensors: it has no lm_head\.weight, which translating needs"):
        translate(open_model(marian), ["das haus"])


def in_cache(name: str, folder: Path, cache: Path) -> None:
    """Put a model where the hub's client keeps what it has fetched."""
    home = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(folder, home / "snapshots" / "abc")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("abc")


def test_a_name_of_the_hub(cache: Path, marian: Path) -> None:
    with pytest.raises(ValueError, match=r"hub cannot be reached \(.+\): .*: hf download some/model"):
        load(NAME)
    in_cache(NAME, marian, cache)
    assert links(load(NAME)) == links(load(marian))


def in_parts(folder: Path) -> list[Path]:
    """Save a model's weights anew, in two files that torch writes and the index that names them."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = [folder / f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
    for n, part in enumerate(parts):
        torch.save({name: weights[name] for name in names[n::2]}, part)
    places = {name: parts[n % 2].name for n, name in enumerate(names)}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return parts


def test_what_torch_saved_in_parts(marian: Path, cache: Path) -> None:
    expected, weights = links(load(marian)), load_file(marian / "model.safetensors")
    parts = in_parts(marian)
    found = read_weights(marian / "pytorch_model.bin.index.json")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    in_cache(NAME, marian, cache)
    for model in (str(marian), str(marian / "pytorch_model.bin.index.json"), NAME):
        assert links(load(model)) == expected
    parts[1].unlink()
    with pytest.raises(ValueError, match=r"pytorch_model-00002-of-00002\.bin: no such file"):
        load(marian)


def test_what_torch_saved_in_parts_runs_no_code(marian: Path, tmp_path: Path) -> None:
    *_, last = in_parts(marian)
    for _, content in pickles(tmp_path / "mark"):
        last.write_bytes(content)
        with pytest.raises(ValueError, match=last.name):
            load(marian)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "place",
    ["../pytorch_model-1.bin", "a.safetensors", r"..\pytorch_model-1.bin", "C:a.bin", r"\\host\share\a.bin"],
)
def test_parts_elsewhere_are_not_read(marian: Path, place: str) -> None:
    part, _ = in_parts(marian)
    part.rename(marian.parent / "pytorch_model-1.bin")
    (marian / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": place}}))
    with pytest.raises(ValueError, match="which is no file of weights next to it"):
        load(marian)


def test_parts_are_fetched_where_there_are_no_safetensors(
    marian: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, allow_patterns: list[str]) -> str:
        cache.mkdir(exist_ok=True)
        for file in marian.iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                (cache / file.name).write_bytes(file.read_bytes())
        return str(cache)

    expected = links(load(marian))
    parts = in_parts(marian)
    (marian / "consolidated.safetensors").touch()  # the same weights by other names, as Mistral has them
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert links(load(NAME)) == expected
    fetched = {file.name for file in cache.iterdir()}
    assert {part.name for part in parts} <= fetched
    assert "consolidated.safetensors" not in fetched


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_a_line_that_is_too_long_for_any_kind_of_positions(tmp_path: Path, kind: str) -> None:
    hugging.save_model(kind, tmp_path)
    aligner = open_model(tmp_path, layer=1, head=1, output_layer=1, output_head=1)
    most, long = (1024, 1100) if kind in ("t5", "mt5") else (40, 50)
    starts = 2 if kind in ("bart", "m2m_100", "mbart-50") else 1  # of which one is counted with the pieces
    for pair, message in (
        (("das " * long, "the"), rf"source has [\d,]+ pieces with </s>, the model takes {most:,}: shorten it"),
        (("das", "the " * long), rf"target has [\d,]+ pieces with </s>, the model takes {most + 1 - starts:,}: "),
    ):
        with pytest.raises(ValueError, match=message):
            aligner.align(*pair)
        found = list(replace(aligner, too_long="blank")([pair, ("das", "the")]))
        assert [one.skipped for one in found] == ["too long", ""]


@pytest.mark.parametrize(("named", "most"), [(None, 1024), (600, 600), (10**6, 10_000)])
@pytest.mark.parametrize("kind", ["marian", "m2m_100", "t5"])
def test_as_many_positions_as_the_settings_say_within_reason(
    tmp_path: Path, kind: str, named: int | None, most: int
) -> None:
    hugging.save_model(kind, tmp_path)
    change(tmp_path, "config.json", max_position_embeddings=named)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "embed_positions" not in name}  # computed for 40
    save_file(kept, tmp_path / "model.safetensors")
    recorder: Any = open_model(tmp_path).forward.recorder
    assert recorder.max_positions == (most, most + 1 - len(recorder.start))
    assert recorder.translator(Search(), 1000).longest == most
