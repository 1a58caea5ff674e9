"""Recognise files and folders without a checkpoint, such as another toolkit's model, without loading them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from align.core.errors import ModelError, shorten, show_value

LFS_POINTER = b"version https://git-lfs"
"""First bytes of a file that Git LFS has not downloaded."""

OTHER_TOOLKIT = (
    "only models of fairseq, Marian, CTranslate2 and Hugging Face's transformers are read. To align its translations, "
    'or other text in its languages, take another model (‹model="de-en"› for German and English) or train one '
    "(extract-align train)"
)

HUGGING_FACE = (
    "name its folder, with its weights in model.safetensors, pytorch_model.bin, or one of these with .index.json and "
    "the files that this names"
)

PYTORCH_WEIGHTS = (
    "download the model's model.safetensors or pytorch_model.bin, or convert these weights to one of them where that "
    "framework is installed"
)

OTHER_WEIGHTS = {
    ".h5": "TensorFlow",
    ".msgpack": "Flax",
    ".ot": "rust-bert",
    ".onnx": "ONNX",
    ".gguf": "llama.cpp",
    ".tflite": "TensorFlow Lite",
}
"""Endings of files of weights that cannot be read, with their frameworks."""

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
    """Return the error for a file or folder that is known not to be a checkpoint, with a hint; else None."""
    try:
        if path.is_dir():
            return _of_folder(path)
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            is_pointer = stream.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:  # reading it reports the error
        return None
    if is_pointer:
        message, hint = "a pointer of Git LFS, not the file that it stands for", "fetch that with git lfs pull"
        return ModelError(message, file=str(path), hint=hint)
    if path.suffix == ".safetensors":
        kind = _model_type(path.parent / "config.json")
        message = f"safetensors, as Hugging Face models are{kind and f' ({kind})'}"
        return ModelError(message, file=str(path), hint=HUGGING_FACE)
    return recognise(path.parent) if path.name in (*HUGGING_FACE_WEIGHTS, "model.bin") else None


def could_be_hub_name(model: str) -> bool:
    """Tell whether a missing model may be on the Hugging Face hub: `facebook/wmt19-de-en`, `bert-base-cased`."""
    owned = re.fullmatch(r"[\w.-]*\w[\w.-]*/[\w.-]+", model) and not Path(model).parent.exists()
    return bool(owned or re.fullmatch(r"\w[\w.]*(-[\w.]+){2,}", model)) and not model.endswith(".pt")


def hub_owner(model: str) -> str | None:
    """Return the owner on the Hugging Face hub of a model that was named without its owner; None if unknown."""
    match = re.fullmatch(r"([a-z0-9]+)[-_][\w.-]+|small100", model)
    return OWNERS.get(match[1] or model) if match else None


def _of_folder(folder: Path) -> ModelError | None:
    with os.scandir(folder) as entries:
        names = {entry.name for entry in entries}
    if "config.json" in names and any(n in HUGGING_FACE_WEIGHTS or n.endswith(".safetensors") for n in names):
        kind = _model_type(folder / "config.json")
        return ModelError(f"a Hugging Face model{kind and f' ({kind})'}", file=str(folder), hint=HUGGING_FACE)
    if any(name.endswith(".pt") for name in names):
        return None
    if foreign := next((name for name in sorted(names) if name.endswith(tuple(OTHER_WEIGHTS))), None):
        framework = next(framework for ending, framework in OTHER_WEIGHTS.items() if foreign.endswith(ending))
        message = f"its only weights are {shorten(foreign)}, of {framework}"
        return ModelError(message, file=str(folder), hint=PYTORCH_WEIGHTS)
    if "adapter_model.bin" in names or "adapter_model.safetensors" in names:
        return ModelError("an adapter without adapter_config.json", file=str(folder))
    if "config.json" in names and (kind := _model_type(folder / "config.json")):
        message = f"a Hugging Face model ({kind}) without weights: none of {', '.join(ALL_WEIGHTS)} is there"
        return ModelError(message, file=str(folder), hint="download the model again: hf download NAME")
    if any(re.fullmatch(r"dict\..+\.txt", name) for name in names) and any(name.endswith(".idx") for name in names):
        hint = f'name the checkpoint itself, and this folder with ‹dictionaries="{folder}"›'
        return ModelError("what fairseq-preprocess wrote, without a checkpoint", file=str(folder), hint=hint)
    return None


def _model_type(config: Path) -> str:
    try:
        if not config.is_file():
            return ""
        content = json.loads(config.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    kind = content.get("model_type") if isinstance(content, dict) else None
    return show_value(kind) if isinstance(kind, str) else ""
