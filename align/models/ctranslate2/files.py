"""Read the variables of a CTranslate2 model, and its vocabularies and settings. None of them is trusted."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from align.core.errors import ModelError, one_line, shorten
from align.models.settings import read_file

VERSIONS = (2, 3, 4, 5, 6)  # versions of the file that are read; aliases came with 3, types of numbers with 4
_TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
_OLD_TYPES = {1: torch.int8, 2: torch.int16, 4: torch.float32}  # types by their bytes, before version 4


def read_variables(path: Path) -> tuple[str, dict[str, Tensor]]:
    """Return the name of a model's specification, such as "TransformerSpec", and its variables, none quantised."""
    if not path.is_file():
        raise ModelError("not a file", file=str(path))
    try:
        with path.open("rb") as stream:
            kind, stored, aliases = _read(stream, path.stat().st_size)
    except (ValueError, KeyError, IndexError, RuntimeError) as error:
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


def _read(stream: BinaryIO, size: int) -> tuple[str, dict[str, Tensor], list[tuple[str, str]]]:
    """Return a model's kind, its variables, and further names with the variables that they stand for."""

    def content(count: int) -> bytes:
        if stream.tell() + count > size:
            raise ValueError("it ends within its variables")
        return stream.read(count)

    def number(kind: str) -> int:
        return int(struct.unpack(f"<{kind}", content(struct.calcsize(kind)))[0])

    def text() -> str:
        return content(number("H")).rstrip(b"\0").decode()

    version = number("I")
    if version not in VERSIONS:
        raise ValueError(f"version {version:,}, not one of {', '.join(map(str, VERSIONS))}")
    kind, _, count = text(), number("I"), number("I")  # the second is its revision
    stored: dict[str, Tensor] = {}
    for _ in range(count):
        name, axes = text(), number("B")
        shape = [number("I") for _ in range(axes)]
        if version >= 4:
            dtype, length = _TYPES[number("B")], number("I")
        else:
            dtype = _OLD_TYPES[number("B")]
            length = number("I") * dtype.itemsize
        if math.prod(shape) * dtype.itemsize != length or 0 in shape:
            raise ValueError(f"{shorten(name)} is not as large as its shape")
        stored[name] = torch.frombuffer(bytearray(content(length)), dtype=dtype).view(shape)
    aliases = [(text(), text()) for _ in range(number("I"))] if version >= 3 else []
    return kind, stored, aliases


def _dequantised(name: str, stored: dict[str, Tensor]) -> Tensor:
    """Return a variable as it was before it was quantised: whole numbers are divided by the scale of their row."""
    tensor = stored[name]
    if tensor.dtype not in (torch.int8, torch.int16) or not name.endswith("/weight"):
        return tensor
    scale = stored.get(f"{name}_scale")
    if scale is None or f"{name.removesuffix('weight')}weight_zero" in stored:
        raise ValueError(f"{shorten(name)} is quantised in a way that is not supported")
    scale = scale.float().flatten()
    if scale.numel() not in (1, *tensor.shape[:1]) or not bool((scale.isfinite() & (scale != 0)).all()):
        raise ValueError(f"{shorten(name)} has no scale for each of its rows")
    return tensor.float() / scale.view(-1, *[1] * (tensor.dim() - 1))


def with_attention_of(path: Path, layer: int, heads: int) -> bytes:
    """Return a model of which CTranslate2 returns the mean attention of a layer's first heads; layers count from 1."""
    content = bytearray(path.read_bytes())
    for name, value in (("layer", layer - 1), ("heads", heads)):
        before = f"decoder/alignment_{name}".encode() + b"\0\0\2\2\0\0\0"  # no axes, an int16, two bytes
        at = content.find(before) + len(before)
        if at < len(before):
            raise ModelError(f"it does not say which {name} CTranslate2 returns; convert it again", file=str(path))
        content[at : at + 2] = struct.pack("<h", value)
    return bytes(content)


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

    def switch(name: str) -> bool | None:
        value = tensors.pop(name, None)
        if value is not None and value.numel() != 1:
            raise ValueError(f"{name} is not a number")
        return None if value is None else bool(value)

    settings: dict[str, Any] = {}
    for name in ("unk_token", "bos_token", "eos_token"):
        if (piece := tensors.pop(name, None)) is not None:
            if piece.dtype != torch.int8:
                raise ValueError(f"{name} is not a piece")
            settings[name] = piece.numpy().tobytes().decode()
    start = switch("with_target_bos"), switch("user_decoder_start_tokens")
    if start != (None, None):  # the piece before the target: the user's, `<s>` or `</s>`
        first = settings.get("eos_token", "</s>") if start[0] is False else settings.get("bos_token", "<s>")
        settings["decoder_start_token"] = None if start[1] else first
    for side in ("bos", "eos"):
        if (value := switch(f"with_source_{side}")) is not None:
            settings[f"add_source_{side}"] = value
    of_both = ("num_heads", "pre_norm", "activation", "alignment_heads", "alignment_layer")
    for name in (*of_both, "embeddings_merge", "layernorm_embedding", "with_relative_position"):
        if name in tensors:
            tensor = tensors.pop(name)
            tensors |= {f"{side}/{name}": tensor for side in ("encoder", "decoder")}
    for side, embeddings in (("encoder", "embeddings"), ("encoder", "embeddings_0"), ("decoder", "embeddings")):
        if (name := f"{side}/{embeddings}/multiply_by_sqrt_depth") in tensors:
            tensors[f"{side}/scale_embeddings"] = tensors.pop(name)
    return settings
