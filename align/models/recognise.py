"""What a file or folder is that holds no checkpoint to load: another toolkit's model, or a part of a fairseq model.

A few kilobytes of a file and the names in a folder tell; nothing is loaded.
"""

from __future__ import annotations

import json
import os
import re
import struct
from itertools import islice
from pathlib import Path

from align.core.errors import Argument, ModelError, Remedy, shorten, show_value

HEAD_BYTES = 4096
"""As much of a file is read."""

CONFIG_BYTES = 1 << 20
"""The most of a config.json that is read: real ones have a few thousand bytes."""

MOST_NAMES = 10_000
"""So many names of a folder are looked at."""

OTHER_TOOLKIT = Remedy(
    "only models of fairseq and of Hugging Face's transformers are read so far. To align its translations, or other "
    "text in its languages, take another model ({} for German and English) or train one (scripts/train_model)",
    (Argument("model", "de-en"),),
)
"""What to do with a translation model that is not fairseq's."""

HUGGING_FACE = Remedy(
    "name its folder, with its weights in model.safetensors, pytorch_model.bin, or one of these with .index.json and "
    "the files that this names"
)
"""What to do with a Hugging Face model whose weights are elsewhere."""

PYTORCH_WEIGHTS = Remedy(
    "download the model's model.safetensors or pytorch_model.bin, or convert these weights to one of them where that "
    "framework is installed"
)
"""What to do with a Hugging Face model whose weights are of another framework."""

OTHER_WEIGHTS = {
    ".h5": "TensorFlow",
    ".msgpack": "Flax",
    ".ot": "rust-bert",
    ".onnx": "ONNX",
    ".gguf": "llama.cpp",
    ".tflite": "TensorFlow Lite",
}
"""Endings of files of weights that are not read, and whose they are."""

OWNERS = {
    "bart": "facebook",
    "byt5": "google",
    "m2m100": "facebook",
    "madlad400": "google",
    "mbart": "facebook",
    "mt5": "google",
    "nllb": "facebook",
    "opus": "Helsinki-NLP",
    "small100": "alirezamsh",
    "t5": "google-t5",
    "umt5": "google",
    "wmt19": "facebook",
}
"""Owners of well-known models, by the first part of their names."""

FOLDER_OF_CHECKPOINT = Remedy("name the folder or the checkpoint that it belongs to")
ARCHIVES = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
ALL_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
HUGGING_FACE_WEIGHTS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.safetensors.index.json")
DICTIONARY_LINE = r"\S+ \d+( #fairseq:overwrite)?"
CODES_LINE = r"\S+ \S+( \d+)?"


def recognise(path: Path) -> ModelError | None:
    """What a file or folder is, if it is known and not a checkpoint, and what to do about it; else None."""
    try:
        if path.is_dir():
            return _of_folder(path)
        if path.is_file():
            return _of_file(path)
    except OSError:  # whoever reads it in earnest says so
        pass
    return None


def could_be_hub_name(model: str) -> bool:
    """Whether a missing model may be one of the Hugging Face hub: `facebook/wmt19-de-en`, `bert-base-cased`."""
    owned = re.fullmatch(r"[\w.-]*\w[\w.-]*/[\w.-]+", model) and not Path(model).parent.exists()
    return bool(owned or re.fullmatch(r"\w[\w.]*(-[\w.]+){2,}", model)) and not model.endswith(".pt")


def hub_owner(model: str) -> str | None:
    """Return who publishes a model on the Hugging Face hub that was named without its owner, where that is known."""
    match = re.fullmatch(r"([a-z0-9]+)[-_][\w.-]+|small100", model)
    return OWNERS.get(match[1] or model) if match else None


def _of_folder(folder: Path) -> ModelError | None:
    with os.scandir(folder) as entries:
        names = {entry.name for entry in islice(entries, MOST_NAMES)}
    if "model.bin" in names and any(name.startswith(("shared_vocabulary.", "source_vocabulary.")) for name in names):
        return ModelError("a CTranslate2 model", file=str(folder), remedy=OTHER_TOOLKIT)
    if "config.json" in names and any(n in HUGGING_FACE_WEIGHTS or n.endswith(".safetensors") for n in names):
        kind = _model_type(folder / "config.json")
        return ModelError(f"a Hugging Face model{kind and f' ({kind})'}", file=str(folder), remedy=HUGGING_FACE)
    if any(name.endswith(".pt") for name in names):
        return None
    if other := next((name for name in sorted(names) if name.endswith(tuple(OTHER_WEIGHTS))), None):
        framework = next(framework for ending, framework in OTHER_WEIGHTS.items() if other.endswith(ending))
        what = f"its only weights are {shorten(other)}, of {framework}"
        return ModelError(what, file=str(folder), remedy=PYTORCH_WEIGHTS)
    if "adapter_model.bin" in names or "adapter_model.safetensors" in names:
        return ModelError("an adapter without adapter_config.json", file=str(folder))
    if "config.json" in names and (kind := _model_type(folder / "config.json")):
        what = f"a Hugging Face model ({kind}) without weights: none of {', '.join(ALL_WEIGHTS)} is there"
        return ModelError(what, file=str(folder), remedy=Remedy("download the model again: hf download NAME"))
    if any(name.endswith(".npz") for name in names):
        return ModelError("a Marian model", file=str(folder), remedy=OTHER_TOOLKIT)
    if any(re.fullmatch(r"dict\..+\.txt", name) for name in names) and any(name.endswith(".idx") for name in names):
        remedy = Remedy("name the checkpoint itself, and this folder with {}", (Argument("dictionaries", str(folder)),))
        return ModelError("what fairseq-preprocess wrote, without a checkpoint", file=str(folder), remedy=remedy)
    return None


def _of_file(path: Path) -> ModelError | None:
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    what, remedy = "", OTHER_TOOLKIT
    if head.startswith(b"version https://git-lfs"):
        what, remedy = "a pointer of Git LFS, not the file that it stands for", Remedy("fetch that with git lfs pull")
    elif head.startswith(tuple(ARCHIVES)) or head[257:262] == b"ustar":
        what, remedy = "a packed file or an archive", Remedy("unpack it, and name the folder or the checkpoint in it")
    elif path.suffix == ".json":
        what, remedy = "settings of a model, not its weights", Remedy("name the folder that it is in")
    elif head[:4] == b"PK\3\4" and _first_record(head).endswith(b".npy"):
        what = "a numpy archive, as Marian's models are"
    elif len(head) > 8 and head[8:9] == b"{" and 0 < struct.unpack("<Q", head[:8])[0] <= path.stat().st_size - 8:
        kind = _model_type(path.parent / "config.json")
        what, remedy = f"safetensors, as Hugging Face models are{kind and f' ({kind})'}", HUGGING_FACE
    elif re.match(rb"\n.\n.[^\0]{1,40}\x15", head, re.DOTALL):  # a message, whose first part begins with a piece
        what, remedy = "a sentencepiece model, not a translation model", FOLDER_OF_CHECKPOINT
    elif lines := _text_lines(head):
        if all(re.fullmatch(DICTIONARY_LINE, line) for line in lines):
            what, remedy = "a dictionary, not a model", FOLDER_OF_CHECKPOINT
        elif all(re.fullmatch(CODES_LINE, line) for line in lines):
            what, remedy = "a file of BPE codes, not a model", FOLDER_OF_CHECKPOINT
    elif path.name in (*HUGGING_FACE_WEIGHTS, "model.bin"):
        return _of_folder(path.parent)
    return ModelError(what, file=str(path), remedy=remedy) if what else None


def _first_record(head: bytes) -> bytes:
    """The name of a zip file's first record."""
    (length,) = struct.unpack("<H", head[26:28].ljust(2, b"\0"))
    return head[30 : 30 + length]


def _text_lines(head: bytes) -> list[str]:
    """The first lines of a text in UTF-8, at most twenty; none of what is not such a text."""
    whole, newline, _ = head.rpartition(b"\n")
    try:
        lines = whole.decode().split("\n")[:20]
    except UnicodeDecodeError:
        return []
    return lines if newline else []


def _model_type(config: Path) -> str:
    """The type of model that a config.json names, for a message; empty where it names none."""
    try:
        if not config.is_file():
            return ""
        with config.open("rb") as stream:
            content = json.loads(stream.read(CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    kind = content.get("model_type") if isinstance(content, dict) else None
    return show_value(kind) if isinstance(kind, str) else ""
