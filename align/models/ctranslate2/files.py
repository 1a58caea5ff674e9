"""Read the variables of a CTranslate2 model, and its vocabularies and settings. None of them is trusted."""

from __future__ import annotations

import json
import math
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from align.core.errors import ModelError, one_line, shorten
from align.models.huggingface.config import read_file

VERSIONS = (2, 3, 4, 5, 6)
"""Versions of the file that are read; aliases came with 3, types of numbers with 4."""

_TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
_OLD_TYPES = {1: torch.int8, 2: torch.int16, 4: torch.float32}
"""Types by their bytes, before version 4."""


class _Reader:
    """Reads numbers and texts one after another."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at = data, 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f"<{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return int(value)

    def text(self) -> str:
        return self.bytes(self.number("H")).rstrip(b"\0").decode()

    def bytes(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise ValueError("it ends within its variables")
        self._at += count
        return self._data[self._at - count : self._at]


def read_variables(path: Path) -> tuple[str, dict[str, Tensor]]:
    """Return the name of a model's specification, such as "TransformerSpec", and its variables, none quantised."""
    if not path.is_file():
        raise ModelError("not a file", file=str(path))
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            kind, stored, aliases = _read(_Reader(data))
    except (OSError, ValueError, KeyError, IndexError, struct.error, RuntimeError) as error:
        raise ModelError(f"not a CTranslate2 model, or damaged ({one_line(error)})", file=str(path)) from None
    try:
        tensors = {name: _dequantised(name, stored) for name in stored if not name.endswith("_scale")}
    except ValueError as error:
        raise ModelError(str(error), file=str(path)) from None
    for alias, name in aliases:
        if name not in tensors:
            raise ModelError(f"{shorten(alias)} stands for {shorten(name)}, which is not in it", file=str(path))
        tensors[alias] = tensors[name]
    return kind, tensors


def _read(reader: _Reader) -> tuple[str, dict[str, Tensor], list[tuple[str, str]]]:
    version = reader.number("I")
    if version not in VERSIONS:
        raise ValueError(f"version {version:,}, not one of {', '.join(map(str, VERSIONS))}")
    kind, _, count = reader.text(), reader.number("I"), reader.number("I")  # the second is its revision
    stored: dict[str, Tensor] = {}
    for _ in range(count):
        name, axes = reader.text(), reader.number("B")
        shape = [reader.number("I") for _ in range(axes)]
        if version >= 4:
            dtype, length = _TYPES[reader.number("B")], reader.number("I")
        else:
            dtype = _OLD_TYPES[reader.number("B")]
            length = reader.number("I") * dtype.itemsize
        if math.prod(shape) * dtype.itemsize != length or 0 in shape:
            raise ValueError(f"{shorten(name)} is not as large as its shape")
        numbers = np.frombuffer(reader.bytes(length), dtype=np.uint8).copy()
        stored[name] = torch.from_numpy(numbers).view(dtype).view(shape)
    aliases = []
    if version >= 3:
        aliases = [(reader.text(), reader.text()) for _ in range(reader.number("I"))]
    return kind, stored, aliases


def _dequantised(name: str, stored: dict[str, Tensor]) -> Tensor:
    """Return a variable as it was before it was quantised: whole numbers are divided by the scale of their row."""
    tensor = stored[name]
    if tensor.dtype not in (torch.int8, torch.int16) or not name.endswith("/weight"):
        return tensor
    scale = stored.get(f"{name}_scale")
    if scale is None or f"{name.removesuffix('weight')}weight_zero" in stored:
        raise ValueError(f"{shorten(name)} is quantised in a way that is not read")
    scale = scale.float().flatten()
    if scale.numel() not in (1, *tensor.shape[:1]) or not bool((scale.isfinite() & (scale != 0)).all()):
        raise ValueError(f"{shorten(name)} has no scale for each of its rows")
    return tensor.float() / scale.view(-1, *[1] * (tensor.dim() - 1))


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the id of each piece of a vocabulary, the first of several: a list in JSON, or a piece on each line."""
    content = read_file(path)
    try:
        text = content.decode()
        pieces = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
        json.dumps(pieces, ensure_ascii=False).encode()  # an escape may stand for half of a surrogate pair
    except (ValueError, RecursionError):
        raise ModelError("not a vocabulary of CTranslate2", file=str(path)) from None
    if not isinstance(pieces, list) or not pieces or not all(isinstance(piece, str) for piece in pieces):
        raise ModelError("not a list of pieces", file=str(path))
    return {piece: n for n, piece in reversed([*enumerate(pieces)])}


def take_settings(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Return what versions before 3.0, which write no config.json, store in variables; these get their later names."""
    settings: dict[str, Any] = {}
    for name in ("unk_token", "bos_token", "eos_token"):
        if (piece := tensors.pop(name, None)) is not None:
            if piece.dtype != torch.int8:
                raise ValueError(f"{name} is not a piece")
            settings[name] = piece.numpy().tobytes().decode()
    start = _switch(tensors, "with_target_bos"), _switch(tensors, "user_decoder_start_tokens")
    if start != (None, None):  # the piece before the target: the user's, `<s>` or `</s>`
        first = settings.get("eos_token", "</s>") if start[0] is False else settings.get("bos_token", "<s>")
        settings["decoder_start_token"] = None if start[1] else first
    for side in ("bos", "eos"):
        if (switch := _switch(tensors, f"with_source_{side}")) is not None:
            settings[f"add_source_{side}"] = switch
    of_both = ("num_heads", "pre_norm", "activation", "alignment_heads", "alignment_layer")
    for name in (*of_both, "embeddings_merge", "layernorm_embedding", "with_relative_position"):
        if (value := tensors.pop(name, None)) is not None:
            for side in ("encoder", "decoder"):
                tensors.setdefault(f"{side}/{name}", value)
    for side, embeddings in (("encoder", "embeddings"), ("encoder", "embeddings_0"), ("decoder", "embeddings")):
        if (value := tensors.pop(f"{side}/{embeddings}/multiply_by_sqrt_depth", None)) is not None:
            tensors.setdefault(f"{side}/scale_embeddings", value)
    return settings


def _switch(tensors: dict[str, Tensor], name: str) -> bool | None:
    value = tensors.pop(name, None)
    if value is not None and value.numel() != 1:
        raise ValueError(f"{name} is not a number")
    return None if value is None else bool(value)
