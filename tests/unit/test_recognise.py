"""Models of other toolkits, and parts of a fairseq model, are named as what they are."""

from __future__ import annotations

import json
import struct
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import ModelError
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.models.recognise import recognise
from tests import toy
from tests.hostile.code import repacked

OTHER = (
    "only models of fairseq, Marian, CTranslate2 and Hugging Face's transformers are read. To align its translations, "
    'or other text in its languages, take another model (model="de-en" for German and English) or train one '
    "(extract-align train)"
)
HUGGING = (
    "name its folder, with its weights in model.safetensors, pytorch_model.bin, or one of these with .index.json and "
    "the files that this names"
)


def write(folder: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"\x80\0")


def safetensors(path: Path) -> None:
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def hugging_face(folder: Path, weights: str = "pytorch_model.bin", kind: object = "marian") -> None:
    write(folder, weights, "tokenizer_config.json", "optimizer.pt")
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "layers": [1] * 9}), encoding="utf-8")


FOLDERS: list[tuple[Callable[[Path], None], str, str]] = [
    (hugging_face, "a Hugging Face model ('marian')", HUGGING),
    (lambda f: hugging_face(f, "model-00001-of-2.safetensors", "m2m_100"), "a Hugging Face model ('m2m_100')", HUGGING),
    (lambda f: hugging_face(f, kind=["x"]), "a Hugging Face model", HUGGING),
]


@pytest.mark.parametrize(("build", "what", "advice"), FOLDERS)
def test_folders(tmp_path: Path, build: Callable[[Path], None], what: str, advice: str) -> None:
    build(tmp_path / "x")
    with pytest.raises(ModelError) as error:
        find_model(str(tmp_path / "x"), ModelOptions())
    assert str(error.value) == f"{tmp_path / 'x'}: {what}: {advice}"
    toy.save_model(tmp_path / "x")  # beside which the rest means nothing
    assert find_model(str(tmp_path / "x"), ModelOptions()).checkpoint.name == "checkpoint.pt"


def test_binarised_data_without_a_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, "dict.de.txt", "dict.en.txt", "train.de-en.de.idx", "train.de-en.de.bin", "preprocess.log")
    with pytest.raises(ModelError) as error:
        find_model(str(tmp_path), ModelOptions())
    assert str(error.value) == (
        f"{tmp_path}: what fairseq-preprocess wrote, without a checkpoint: "
        f'name the checkpoint itself, and this folder with dictionaries="{tmp_path}"'
    )
    write(tmp_path, "epoch3.pt")
    assert find_model(str(tmp_path), ModelOptions()).checkpoint.name == "epoch3.pt"


FILES: list[tuple[str, Callable[[Path], object], str, str]] = [
    ("model.safetensors", safetensors, "safetensors, as Hugging Face models are", HUGGING),
    (
        "checkpoint.pt",
        lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n"),
        "a pointer of Git LFS, not the file that it stands for",
        "fetch that with git lfs pull",
    ),
]


@pytest.mark.parametrize(("name", "build", "what", "advice"), FILES, ids=[case[0] for case in FILES])
def test_files(tmp_path: Path, name: str, build: Callable[[Path], None], what: str, advice: str) -> None:
    build(tmp_path / name)
    with pytest.raises(ModelError) as error:
        find_model(str(tmp_path / name), ModelOptions())
    assert str(error.value) == f"{tmp_path / name}: {what}: {advice}"


def test_a_file_of_a_folder_that_tells(tmp_path: Path) -> None:
    hugging_face(tmp_path / "hf", kind="fsmt")
    safetensors(tmp_path / "hf" / "model.safetensors")
    for name, what in (("pytorch_model.bin", "a Hugging Face model"), ("model.safetensors", "safetensors, as Hugging")):
        with pytest.raises(ModelError, match=rf"{what}.* \('fsmt'\)"):
            find_model(str(tmp_path / "hf" / name), ModelOptions())


HEADS = (b"PK\3\4", b"version https://git-lfs", b"{", b"\x80\2", b"")


@given(st.sampled_from(HEADS), st.binary(max_size=300))
def test_no_bytes_raise_anything_else(head: bytes, rest: bytes) -> None:
    with TemporaryDirectory() as folder:
        for name in ("model.bin", "model.safetensors", "config.json"):
            (Path(folder) / name).write_bytes(head + rest)
            found = recognise(Path(folder) / name)
            assert found is None or found.file.startswith(folder)


def test_names_on_the_hugging_face_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("Helsinki-NLP/opus-mt-de-en", "models/de-en", "bert-base-cased"):
        with pytest.raises(ModelError, match=rf"^{name}: no such file or folder, not in the Hugging Face cache"):
            find_model(name, ModelOptions())
    (tmp_path / "Helsinki-NLP").mkdir()
    for name in ("Helsinki-NLP/opus-mt-de-en", "../model", "a/b/c", "/a", "a/b.pt", "de-fr"):
        with pytest.raises(ModelError, match=r"nor a bundled model \(these are: [a-z, -]*\)$"):
            find_model(name, ModelOptions())


def test_checkpoints_of_other_toolkits(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"

    def error() -> str:
        with pytest.raises(ModelError) as caught:
            load_checkpoint(path)
        return str(caught.value)

    weights = {"encoder.weight": torch.ones(2)}
    torch.save({"model": weights, "generator": {}, "vocab": {"src": ["a"]}, "opt": Namespace(layers=6)}, path)
    assert error() == f"{path}: an OpenNMT-py model: {OTHER}"
    repacked(path, b"\x80\x02}X\x05\0\0\0vocabctorchtext.vocab\nVocab\n)Rs.")
    assert error() == f"{path}: an OpenNMT-py model: {OTHER}"
    torch.save(weights, path)
    assert error() == f"{path}: weights alone, as Hugging Face models have them: {HUGGING}"
