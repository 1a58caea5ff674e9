"""Read the weights of a model folder: safetensors, or files that torch saved, whole or in parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path, PureWindowsPath
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from torch import Tensor

from align.core.errors import ModelError, one_line, shorten
from align.core.types import Dtype
from align.models.assemble import fitting
from align.models.folder import ModelFolder
from align.models.huggingface.adapter import CONFIG, merge_adapter
from align.models.huggingface.adapter import WEIGHTS as ADAPTER_WEIGHTS
from align.models.saved import load_weights
from align.models.settings import Config, importing, read_json

AnyTransformer = TypeVar("AnyTransformer")

INDICES = {"model.safetensors.index.json": ".safetensors", "pytorch_model.bin.index.json": ".bin"}
"""Names of index files, which list the files of the weights, with the ending of these files."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights by name, from a file or an index of files; numbers are read when they are used."""
    weights: dict[str, Tensor] = {}
    for part in weight_files(path):
        weights |= load_weights(part, mapped=True) if part.suffix == ".bin" else read_safetensors(part)
    return weights


def read_model_weights(folder: ModelFolder) -> dict[str, Tensor]:
    """Read the weights of a model folder, with the updates of its adapter if there is one."""
    weights = read_weights(folder.checkpoint)
    if folder.adapter is not None:
        merge_adapter(weights, read_safetensors, folder.adapter)
    return weights


def model_weight_files(folder: ModelFolder) -> list[Path]:
    """Return the files that hold a model's weights, including those of its adapter."""
    adapter = [] if folder.adapter is None else [folder.adapter / CONFIG, folder.adapter / ADAPTER_WEIGHTS]
    return [*weight_files(folder.checkpoint), *(path for path in adapter if path.is_file())]


_transformers: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
"""Models in use, by the files that they were read from, device and dtype."""


def shared_transformer(
    folder: ModelFolder,
    config: Config,
    device: str,
    dtype: Dtype,
    build: Callable[[dict[str, Tensor]], AnyTransformer],
) -> AnyTransformer:
    """Return the Transformer in a folder; the same object if its files are already in use."""
    paths = [Path(config.file), *model_weight_files(folder)]
    if missing := next((path for path in paths if not path.is_file()), None):
        raise ModelError("no such file", file=str(missing))
    files = tuple((path.resolve(), status.st_mtime_ns, status.st_size) for path in paths if (status := path.stat()))
    key = files, device, dtype
    transformer: AnyTransformer | None = _transformers.get(key)
    if transformer is None:
        hint = ""
        if quantisation := config.inner("quantization_config").content:
            method = shorten(str(quantisation.get("quant_method")))
            hint = f"its weights are quantised ({method}), which is not supported: use the model that they were made of"
        with fitting(folder.checkpoint, hint):
            transformer = build(read_model_weights(folder))
        _transformers[key] = transformer
    return transformer


def weight_files(path: Path) -> list[Path]:
    """Return the files that hold the weights: `path` itself, or those that an index names, all in the same folder."""
    if path.name not in INDICES:
        return [path]
    places = read_json(path).get("weight_map")
    names = list(places.values()) if isinstance(places, dict) else []
    for name in names:
        if not isinstance(name, str) or PureWindowsPath(name).name != name or not name.endswith(INDICES[path.name]):
            raise ModelError(f"it names {shorten(repr(name))}, which is no file of weights next to it", file=str(path))
    if not names:
        raise ModelError("it names no files", file=str(path))
    return [path.parent / name for name in sorted(set(names))]


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Map the weights of a safetensors file into memory; numbers are read when they are used."""
    with importing():
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    if not path.is_file():
        raise ModelError("no such file", file=str(path))
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (SafetensorError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        message = f"not safetensors; it may be cut short or damaged ({one_line(error)})"
        raise ModelError(message, file=str(path)) from None
    return weights
