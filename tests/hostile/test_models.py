"""Hostile model folders: each is read or refused in a line, whatever is in it."""

from __future__ import annotations

import os
import shutil
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from align import ModelOptions, load
from align.core.errors import DataError
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.saved import NotWanted, plain_weights
from tests import hugging, marian, toy
from tests.hostile.code import repacked

OPTIONS = ModelOptions(source_lang="de", target_lang="en")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy.save_model(tmp_path / "folder")
    return tmp_path / "folder"


def answer(folder: Path) -> str:
    """The error that loading a folder ends in."""
    with pytest.raises(DataError) as error:
        load(folder, device="cpu", options=OPTIONS)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message.removeprefix(str(folder))


Change = Callable[[dict[str, Any]], Any]


def resave(folder: Path, change: Change) -> None:
    state = load_checkpoint(folder / "checkpoint.pt")
    change(state)
    torch.save(state, folder / "checkpoint.pt")


class ArrayOfPointers:
    """As numpy pickles an array, but of objects that lie where the bytes say."""

    def __reduce__(self) -> Any:
        class Pointers:
            def __reduce__(self) -> Any:
                return numpy.dtype, ("O", False, True)

        return numpy.ndarray, ((1,), Pointers(), b"A" * 8)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder_layers", 10**9, "its encoder_layers is 1000000000, not a whole number from 1 to 48"),
        ("decoder_layers", 10**400, "its decoder_layers is a very large int, not a whole number from 1"),
        ("decoder_attention_heads", "4" * 10**6, "its decoder_attention_heads is '4444"),
        ("decoder_attention_heads", 3, "its decoder is 16 wide, which cannot be split among 3 heads"),
        ("cross_self_attention", True, "its decoder attends to source and target at once"),
        ("tie_adaptive_weights", ArrayOfPointers(), "is of type Inert, not true or false"),
        ("activation_fn", "os.system", "its activation_fn is 'os.system', not one "),
        ("adaptive_softmax_cutoff", "[x for x in ()]", "adaptive_softmax_cutoff is '[x for x in ()]'"),
        ("adaptive_softmax_factor", float("nan"), "its adaptive_softmax_factor is nan"),
        ("_name", "wav2vec_ctc", "cannot run this model (wav2vec_ctc): no Transformer for translation"),
        ("_name", ArrayOfPointers(), "cannot run this model"),
    ],
)
def test_settings_that_do_not_fit_the_weights_are_named(folder: Path, name: str, value: Any, message: str) -> None:
    def change(state: dict[str, Any]) -> None:
        setattr(state["cfg"]["model"], name, value)
        if name == "_name":
            state["cfg"]["model"].arch = value

    resave(folder, change)
    assert message in answer(folder)


def put(name: Any, value: Any) -> Change:
    return lambda state: state["model"].update({name: value})


def weight(change: Callable[[torch.Tensor], Any]) -> Change:
    name = "decoder.layers.0.fc1.weight"
    return lambda state: state["model"].update({name: change(state["model"][name])})


def layers(state: dict[str, Any]) -> None:
    """A name for every layer, and a number each."""
    state["model"] |= {f"encoder.layers.{number}.fc1.bias": torch.zeros(1) for number in range(2, 40)}
    state["cfg"]["model"] = Namespace(**{**vars(state["cfg"]["model"]), "encoder_layers": 40})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state["cfg"].update(model=None), "cannot run this model (without a name)"),
        (lambda state: state.update(args=3, cfg=None), "not a fairseq checkpoint"),
        (put("encoder.embed_tokens.weight", torch.tensor(1.0)), "entries"),
        (put("encoder.\nall is well", torch.ones(1)), "a weight without a proper name"),
        (layers, "it has no encoder.layers.2."),
        (put("decoder.embed_length.weight", torch.zeros(256, 16)), "its settings do not account for"),
        (weight(lambda w: w.to_sparse()), "is not a dense tensor of real numbers"),
        (weight(lambda w: w.to("meta")), "is not a dense tensor of real numbers"),
        (weight(lambda w: torch.zeros(1).expand(10**6, 10**6)), "declares more numbers than it stores"),
        (put("x", torch.zeros(2**62, 0)), "declares more numbers than it stores"),
        (weight(lambda w: "a"), "is not a tensor"),
        (weight(lambda w: w / 0), "not finite"),
    ],
)
def test_states_that_are_none_are_refused(folder: Path, change: Change, message: str) -> None:
    resave(folder, change)
    assert message in answer(folder)


def test_records_and_weights_of_more_than_the_file_are_refused(folder: Path) -> None:
    checkpoint = folder / "checkpoint.pt"
    with zipfile.ZipFile(checkpoint) as old:
        records = {record.filename: old.read(record) for record in old.infolist()}
    with zipfile.ZipFile(checkpoint, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in {**records, "archive/data/999": b"\0" * 10**8}.items():
            new.writestr(name, content)
    assert "not a fairseq checkpoint: records of more than its" in answer(folder)
    plain = torch.zeros(1000)
    with pytest.raises(NotWanted, match="weights of more than its 3,999 bytes"):
        plain_weights({"x": plain, "y": plain[:10]}, 3999)
    assert plain_weights({"x": plain, "y": plain[:10]}, 4000).keys() == {"x", "y"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02cnumpy\nload\n)R.", "refused, for it asks to run numpy.load while being read"),
        (b"\x80\x02conmt.opts\nOpts\n)R.", "an OpenNMT-py model; extract-align reads"),
    ],
)
def test_what_is_asked_to_run_is_named(folder: Path, content: bytes, message: str) -> None:
    repacked(folder / "checkpoint.pt", content)
    assert message in answer(folder)
    (folder / "checkpoint.pt").write_bytes(content)
    assert message in answer(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dict.de.txt", b"a 1\nb 1\n", "dict.de.txt: 6 entries with fairseq's 4 special ones"),
        ("dict.de.txt", b"a 1\n" * 100, "dict.de.txt: not a fairseq dictionary"),
        ("checkpoint.pt", b"PK\3\4" + b"\xff" * 26, "it may be cut short or damaged"),
        ("codes", b"#version: 9999.9\na b\n", "codes: not a file of BPE codes"),
        ("model.toml", b"a = " + b"[" * 60_000, "model.toml: "),
        ("model.toml", b'source = ["de"]\ntarget = "en"', "of type list is not a language code such as 'de'"),
        ("model.toml", b"[text]\ncase = '" + b"a" * 60_000 + b"'", "[text] case: expected lower, keep; got"),
        ("model.toml", b"[calibration.input]\nnorm = 5", "norm in [calibration.input] is 5, not a table"),
        ("model.toml", b"[calibration.input]\nnorm = {layer = 0, head = 1}", "a layer or head is 0"),
        ("model.toml", b"[calibration.input]\nnorm = {layer = 3, head = 1}", "layer 3, head 1 is out of"),
    ],
)
def test_other_files_are_checked(folder: Path, name: str, content: bytes, message: str) -> None:
    (folder / name).write_bytes(content)
    assert message in answer(folder)


def test_a_file_that_never_ends_is_not_waited_for(folder: Path) -> None:
    (folder / "checkpoint.pt").rename(folder / "model.safetensors")
    os.mkfifo(folder / "config.json")
    assert answer(folder).startswith("/config.json: no such file")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make a sound folder of a format; the file to damage has its name."""
    root = tmp_path_factory.mktemp("sound")

    def make(file: str) -> Path:
        folder = root / file
        if folder.exists():
            return folder
        if file == "checkpoint.pt":
            toy.save_model(folder)
        elif file == "model.bin":
            pytest.importorskip("ctranslate2")
            from ctranslate2.converters import TransformersConverter

            hugging.save_model("marian", root / "transformers")
            TransformersConverter(str(root / "transformers")).convert(str(folder), quantization="int8")
            for path in (root / "transformers").glob("*.spm"):
                shutil.copy(path, folder)
        else:
            folder.mkdir()
            items, text = marian.make(marian.SHAPES["student"])
            write = marian.write_npz if file.endswith(".npz") else marian.write_bin
            write(folder / file, items, text)
            marian.write_vocabulary(folder / "vocab.yml")
            (folder / "model.toml").write_text('[text]\nsubwords = "none"\n')
        return folder

    return make


@pytest.mark.parametrize("file", ["checkpoint.pt", "model.npz", "model.deen.bin", "model.bin", "vocab.yml"])
def test_damaged_bytes_are_read_or_refused(
    file: str, sound: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "folder"
    shutil.copytree(sound("model.npz" if file == "vocab.yml" else file), folder)
    content = (folder / file).read_bytes()

    @settings(max_examples=40)
    @given(st.integers(0, 3000) | st.integers(0, len(content)), st.binary(max_size=8), st.integers(0, 100))
    def damaged(start: int, new: bytes, removed: int) -> None:
        (folder / file).write_bytes(content[:start] + new + content[start + removed :])
        message = str(folder)
        try:
            load(folder, device="cpu", options=OPTIONS).align("das haus", "the house")
        except DataError as error:
            message = str(error)
        assert str(folder) in message

    damaged()
