"""Read the files of a Marian model: weights in `.npz` or `.bin`, settings and vocabularies in YAML. None is trusted."""

from __future__ import annotations

import math
import mmap
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from align.core.errors import ModelError, one_line, shorten
from align.models.settings import Config, read_file

SETTINGS = "special:model.yml"  # name of the item that holds the settings

_PLAIN: dict[int, Any] = {0x0402: np.float16, 0x0404: np.float32, 0x0408: np.float64, 0x0101: np.int8}
"""Types of plain numbers in `.bin` files."""

_QUANTISED: dict[int, Any] = {0x4101: np.int8, 0x4102: np.int16, 0x10001: np.int8, 0x10002: np.int16}
"""Types of intgemm's matrices before they are arranged for a processor, in the files of Bergamot and of Marian."""


def read_items(path: Path) -> tuple[dict[str, Tensor], Config]:
    """Return the weights of a model, by Marian's names, and its settings."""
    if not path.is_file():
        raise ModelError("not a file", file=str(path))
    try:
        items = dict(_read_npz(path) if path.suffix == ".npz" else _read_bin(path))
    except Exception as error:  # numpy's reader raises errors of many kinds at damaged headers
        if isinstance(error, ModelError):
            raise error.in_file(str(path)) if not error.file else error from None
        raise ModelError(f"not a Marian model, or damaged ({one_line(error)})", file=str(path)) from None
    settings = items.pop(SETTINGS, None)
    if settings is None:
        hint = "a model that Marian saved has them in it; files of an optimizer do not"
        raise ModelError(f"no settings ({SETTINGS}) in it", file=str(path), hint=hint)
    text = settings.numpy().tobytes().rstrip(b"\0").decode(errors="replace")
    content = parse_yaml(text, str(path))
    if not isinstance(content, dict):
        raise ModelError(f"its settings ({SETTINGS}) are not names with values", file=str(path))
    return items, Config({name: _typed(value) for name, value in content.items()}, str(path))


def _typed(value: Any) -> Any:
    """Return a setting that is a number or a switch as such."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _read_npz(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the arrays of a numpy archive."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                shape, by_columns, dtype = read_header(stream)
                size = math.prod(shape) * dtype.itemsize
                if dtype.hasobject or size > member.file_size:
                    raise ValueError(f"{shorten(name)} is not an array of numbers")
                array = np.frombuffer(stream.read(size), dtype=dtype).reshape(shape, order="F" if by_columns else "C")
            if array.dtype.kind in "SUV":  # settings as text
                array = np.frombuffer(array.tobytes(), dtype=np.int8)
            yield name, torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))


def _read_bin(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the items of a binary file; see `src/common/binary.cpp` of Marian."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        version, count = struct.unpack_from("<QQ", data)
        if version != 1:
            raise ValueError(f"version {version}, not 1" + ": it is encrypted" * (version == 2))
        headers = [struct.unpack_from("<QQQQ", data, 16 + 32 * n) for n in range(count)]  # of name, type, axes, data
        at = 16 + 32 * count
        names: list[str] = []
        for name_length, _, _, _ in headers:
            names.append(data[at : at + name_length].rstrip(b"\0").decode())
            at += name_length
        shapes: list[tuple[int, ...]] = []
        for _, _, axes, _ in headers:
            shapes.append(struct.unpack_from(f"<{axes}i", data, at))
            at += 4 * axes
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        for (_, kind, _, length), name, shape in zip(headers, names, shapes, strict=True):
            if at + length > len(data):
                raise ValueError("it ends within its items")
            yield name, _tensor(name, kind, shape, data[at : at + length])
            at += length


def _tensor(name: str, kind: int, shape: tuple[int, ...], data: bytes) -> Tensor:
    """Return an item's numbers, in float32 if they are quantised."""
    if any(size < 1 for size in shape):
        raise ValueError(f"{shorten(name)} has a side of length {min(shape)}")
    count = math.prod(shape)
    if kind in _PLAIN:
        array = np.frombuffer(data, dtype=_PLAIN[kind], count=count).reshape(shape)
        return torch.from_numpy(array.copy())
    if kind not in _QUANTISED:
        message = f"{shorten(name)} is arranged for one kind of processor, or of an unknown type ({kind:#x})"
        raise ModelError(message, hint="take the model that it was converted from")
    dtype = np.dtype(_QUANTISED[kind])
    numbers = np.frombuffer(data, dtype=dtype, count=count)
    (multiplier,) = np.frombuffer(data, dtype=np.float32, count=1, offset=count * dtype.itemsize)
    if not (math.isfinite(multiplier) and multiplier):
        raise ValueError(f"{shorten(name)} has no multiplier")
    weight = torch.from_numpy(numbers.astype(np.float32)).div_(float(multiplier))
    if len(shape) == 2 and not name.endswith("Wemb"):  # intgemm's matrices are stored by columns
        return weight.view(shape[1], shape[0]).T
    return weight.view(shape)


def parse_yaml(text: str, file: str) -> Any:
    """Return YAML of which all scalars are text, nested at most a few levels deep."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > 10:  # deep lists and dicts would overflow the stack of libyaml's constructor
                raise ValueError("it is nested too deeply")
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError) as error:
        raise ModelError(f"not YAML that is read here ({one_line(error)})", file=file) from None


def read_yaml(path: Path) -> Any:
    """Read a YAML file; see `parse_yaml`."""
    content = read_file(path)
    try:
        return parse_yaml(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise ModelError("not UTF-8", file=str(path)) from None


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the ids of pieces in a vocabulary of YAML or JSON, such as `opus.spm32k-spm32k.vocab.yml`."""
    content = read_yaml(path)
    try:
        ids = {str(piece): int(n) for piece, n in content.items()} if isinstance(content, Mapping) else {}
    except (TypeError, ValueError):
        ids = {}
    if not ids or min(ids.values()) < 0 or len(set(ids.values())) < len(ids):
        raise ModelError("not pieces with an id each, as Marian's vocabularies are", file=str(path))
    return ids
