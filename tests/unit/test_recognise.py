"""Models of other toolkits, and parts of a fairseq model, are named as what they are."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from align.core.errors import ModelError
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from tests.hostile.code import repacked

READ = (
    "extract-align reads checkpoints of fairseq (.pt), Marian (.npz, .bin), CTranslate2 (model.bin) and Hugging Face's "
    "transformers (model.safetensors or pytorch_model.bin, whole or with its .index.json)"
)

LFS = "a pointer of Git LFS: git lfs pull fetches its file"
GGUF = "a GGUF file: use the Hugging Face model that it was made from, or convert it (docs/causal.md#gguf-files)"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("model.onnx", b"", "an ONNX file"),
        ("model", b"GGUF\3\0\0\0", GGUF),
        ("model.gguf", b"", GGUF),
        ("weights.bin", b"GGUF\3\0\0\0", GGUF),
        ("ggml-model", b"lmggaaaa", "a GGML file: use the Hugging Face model that it was made from"),
        ("model-00001-of-00002.safetensors", b"", "a safetensors file"),
        ("model.tflite", b"", "a TensorFlow Lite file"),
        ("tf_model.h5", b"", "weights of TensorFlow"),
        ("source.spm", b"", "a SentencePiece model"),
        ("model.zip", b"PK\3\4", "an archive"),
        ("checkpoint.pt", b"version https://git-lfs.github.com/spec/v1\n", LFS),
    ],
)
def test_files(tmp_path: Path, name: str, content: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError) as error:
        find_model(str(tmp_path / name), ModelOptions())
    assert str(error.value) == f"{tmp_path / name}: {kind}" + ("" if ": " in kind else f"; {READ}")


def test_names_on_the_hugging_face_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("Helsinki-NLP/opus-mt-de-en", "models/de-en", "bert-base-cased"):
        with pytest.raises(ModelError, match=rf"^{name}: no such file or folder, not in the Hugging Face cache"):
            find_model(name, ModelOptions())
    (tmp_path / "Helsinki-NLP").mkdir()
    for name in ("Helsinki-NLP/opus-mt-de-en", "../model", "a/b/c", "/a", "a/b.pt", "de-fr"):
        hint = "" if "/" in name else ": on the hub names are OWNER/NAME"
        with pytest.raises(ModelError, match=rf"nor a bundled model \(these are: [a-z, -]*\){hint}$"):
            find_model(name, ModelOptions())


def test_checkpoints_of_other_toolkits(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"

    def error() -> str:
        with pytest.raises(ModelError) as caught:
            load_checkpoint(path)
        return str(caught.value)

    weights = {"encoder.weight": torch.ones(2)}
    torch.save({"model": weights, "generator": {}, "vocab": {"src": ["a"]}, "opt": Namespace(layers=6)}, path)
    assert error() == f"{path}: an OpenNMT-py model; {READ}"
    repacked(path, b"\x80\x02}X\x05\0\0\0vocabctorchtext.vocab\nVocab\n)Rs.")
    assert error() == f"{path}: an OpenNMT-py model; {READ}"
    torch.save(weights, path)
    assert error() == f"{path}: weights alone, as Hugging Face models have them; {READ}"
