"""Name files that hold models in formats that are not read."""

from __future__ import annotations

from pathlib import Path

from align.core.errors import ModelError

READ = (
    "extract-align reads checkpoints of fairseq (.pt), Marian (.npz, .bin), CTranslate2 (model.bin) and Hugging Face's "
    "transformers (model.safetensors or pytorch_model.bin, whole or with its .index.json)"
)

KINDS: dict[bytes | str, str] = {
    b"version https://git-lfs": "a pointer of Git LFS (git lfs pull fetches its file)",
    b"GGUF": "a GGUF file",
    ".gguf": "a GGUF file",
    ".h5": "weights of TensorFlow",
    ".msgpack": "weights of Flax",
    ".onnx": "an ONNX file",
    ".ot": "weights of rust-bert",
    ".safetensors": "a safetensors file",
    ".tflite": "a TensorFlow Lite file",
}
"""Kinds of files, by their first bytes or the ending of their names."""


def other_kind(kind: str, file: str = "") -> ModelError:
    """Return the error for a file of a kind that is not read."""
    return ModelError(f"{kind}; {READ}", file=file)


def recognise(path: Path) -> ModelError | None:
    """Return the error for a file of one of KINDS, or for a folder with one; else None."""
    try:
        if path.is_dir():
            path = next((file for file in sorted(path.iterdir()) if file.suffix in KINDS), path)
        head = b""
        if path.is_file():
            with path.open("rb") as stream:
                head = stream.read(100)
    except OSError:  # reading it reports the error
        return None
    for sign, kind in KINDS.items():
        if head.startswith(sign) if isinstance(sign, bytes) else path.suffix == sign:
            return other_kind(kind, str(path))
    return None
