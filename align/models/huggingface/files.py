"""Read the weights of a model folder: safetensors, or files that torch saved, whole or in parts."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from align.core.errors import ModelError, one_line, shorten
from align.models.folder import ModelFolder
from align.models.huggingface.adapter import CONFIG, merge_adapter
from align.models.huggingface.adapter import WEIGHTS as ADAPTER_WEIGHTS
from align.models.huggingface.config import lacks, read_json
from align.models.saved import load_weights

INDICES = {"model.safetensors.index.json": ".safetensors", "pytorch_model.bin.index.json": ".bin"}
"""Names of index files, which list the files of the weights, with the ending of these files."""

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Names of files with weights, or with an index of them, in search order."""


def read_weights(path: Path, mapped: bool = False) -> dict[str, Tensor]:
    """Read weights by name.

    Args:
        path: one of FILES.
        mapped: whether weights that torch saved stay in their file until they are used; those of safetensors always do.

    Raises:
        ModelError: a file is missing or damaged, or names files outside its folder.
        ValueError: what torch saved is damaged, or would run code.
    """
    weights: dict[str, Tensor] = {}
    for part in weight_files(path):
        weights |= load_weights(part, mapped) if part.suffix == ".bin" else read_safetensors(part)
    return weights


def read_model_weights(folder: ModelFolder, mapped: bool = False) -> dict[str, Tensor]:
    """Read the weights of a model folder, with the updates of its adapter if there is one.

    Raises:
        ModelError, ValueError: as in `read_weights`; or the adapter is not supported.
    """
    weights = read_weights(folder.checkpoint, mapped)
    if folder.adapter is not None:
        merge_adapter(weights, read_safetensors, folder.adapter)
    return weights


def model_weight_files(folder: ModelFolder) -> list[Path]:
    """Return the files that hold a model's weights, including those of its adapter.

    Raises:
        ModelError: an index names no files, or files in other folders.
    """
    adapter = [] if folder.adapter is None else [folder.adapter / CONFIG, folder.adapter / ADAPTER_WEIGHTS]
    return [*weight_files(folder.checkpoint), *(path for path in adapter if path.is_file())]


def weight_files(path: Path) -> list[Path]:
    """Return the files that hold the weights: `path` itself, or those that an index names, all in the same folder.

    Raises:
        ModelError: the index names no files, or files in other folders.
    """
    return _parts(path) if path.name in INDICES else [path]


def _parts(index: Path) -> list[Path]:
    places = read_json(index).get("weight_map")
    names = list(places.values()) if isinstance(places, dict) else []
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(INDICES[index.name]):
            raise ModelError(f"it names {shorten(repr(name))}, which is no file of weights next to it", file=str(index))
    if not names:
        raise ModelError("it names no files", file=str(index))
    return [index.parent / name for name in sorted(set(names))]


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Map the weights of a safetensors file into memory; numbers are read when they are used.

    Raises:
        ModelError: it is missing or damaged.
    """
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
        message = f"not safetensors; it may be cut short or damaged ({one_line(error)})"
        raise ModelError(message, file=str(path)) from None
    return weights
