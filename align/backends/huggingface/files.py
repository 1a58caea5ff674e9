"""The weights of a model folder: safetensors, or what torch saved, whole or in parts."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from align.backends.huggingface.config import lacks, read_json
from align.backends.saved.unpickle import load_weights
from align.errors import ModelError, one_line, shorten

INDICES = {"model.safetensors.index.json": ".safetensors", "pytorch_model.bin.index.json": ".bin"}
"""What says which files hold the weights, and how the names of these end."""

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""What holds the weights, or says which files do, in the order in which they are looked for."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights by name.

    Args:
        path: one of FILES.

    Raises:
        ModelError: a file is missing, damaged, or names files outside of its folder.
        ValueError: what torch saved is damaged, or wants to run code.
    """
    weights: dict[str, Tensor] = {}
    for part in weight_files(path):
        weights |= load_weights(part) if part.suffix == ".bin" else _read(part)
    return weights


def weight_files(path: Path) -> list[Path]:
    """The files that hold the weights: one of FILES itself, or those that an index names, each in the same folder.

    Raises:
        ModelError: the index names no files, or others.
    """
    return _parts(path) if path.name in INDICES else [path]


def _parts(index: Path) -> list[Path]:
    places = read_json(index).get("weight_map")
    names = list(places.values()) if isinstance(places, dict) else []
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(INDICES[index.name]):
            raise ModelError(f"it names {shorten(repr(name))}, which is no file of weights beside it", file=str(index))
    if not names:
        raise ModelError("it names no files", file=str(index))
    return [index.parent / name for name in sorted(set(names))]


def _read(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise lacks(error) from None
    if not path.is_file():
        raise ModelError("no such file", file=str(path))
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        what = f"not safetensors; it may be cut short or damaged ({one_line(error)})"
        raise ModelError(what, file=str(path)) from None
    return weights
