"""Tell what a file or folder is that holds no checkpoint, such as another toolkit's model, without loading it."""

from __future__ import annotations

import json
import os
import re
from itertools import islice
from pathlib import Path

from align.core.errors import Argument, ModelError, Remedy, shorten, show_value

LFS_POINTER = b"version https://git-lfs"
"""The beginning of a file that Git LFS has not replaced yet."""

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

ALL_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
HUGGING_FACE_WEIGHTS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.safetensors.index.json")


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
        head = stream.read(len(LFS_POINTER))
    what, remedy = "", OTHER_TOOLKIT
    if head == LFS_POINTER:
        what, remedy = "a pointer of Git LFS, not the file that it stands for", Remedy("fetch that with git lfs pull")
    elif path.suffix == ".npz":
        what = "a numpy archive, as Marian's models are"
    elif path.suffix == ".safetensors":
        kind = _model_type(path.parent / "config.json")
        what, remedy = f"safetensors, as Hugging Face models are{kind and f' ({kind})'}", HUGGING_FACE
    elif path.name in (*HUGGING_FACE_WEIGHTS, "model.bin"):
        return _of_folder(path.parent)
    return ModelError(what, file=str(path), remedy=remedy) if what else None


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
