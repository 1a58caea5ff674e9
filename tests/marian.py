"""Marian models by a naive writer, and their forward pass in plain numpy, one sentence at a time."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

Array = np.ndarray[Any, Any]
Items = dict[str, Array]
PIECES = (
    "</s>",
    "<unk>",
    *(
        "\u2581" + word
        for word in ["das", "haus", "ist", "alt", "ein", "hund", "the", "house", "is", "old", "a", "dog", "."]
    ),
    ",",
)
WIDTH, HIDDEN = 16, 24

POST: dict[str, str] = {"transformer-preprocess": "", "transformer-postprocess": "dan"}
PRE: dict[str, str] = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}
SSRU: dict[str, str] = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}
SHAPES: dict[str, dict[str, Any]] = {
    "student": POST | SSRU | {"tied": "all"},
    "teacher": POST | {"tied": "all", "transformer-ffn-activation": "swish"},
    "untied": POST | {"tied": "none"},
    "pre-norm": PRE | {"tied": "src"},
    "tied-layers": POST | {"tied": "all", "transformer-tied-layers": (1, 1, 2), "layers": (2, 3)},
    "tied-ssru": POST | SSRU | {"tied": "all", "transformer-tied-layers": (2, 1, 2), "layers": (2, 3)},
    "exact-gelu": POST | {"tied": "all", "transformer-ffn-activation": "gelu", "gelu": "exact", "version": "v1.12.3 "},
    "pre-norm-ssru": PRE | SSRU | {"tied": "all", "transformer-ffn-activation": "gelu"},
    "learned": POST | {"tied": "all", "positions": "learned"},
}


def make(shape: Mapping[str, Any], heads: int = 4, seed: int = 1) -> tuple[Items, str]:
    """Random weights of a shape, by Marian's names, and its settings as YAML."""
    layers = shape.get("layers", (2, 2))
    rng = np.random.default_rng(seed)
    items: Items = {}

    def add(name: str, *size: int, mean: float = 0.0) -> None:
        items[name] = (mean + rng.normal(0, 0.4, size)).astype(np.float32)

    before, recurrent = "n" in shape["transformer-preprocess"], "dec-cell" in shape
    rows = len(PIECES)
    for name in {"all": ["Wemb"], "src": ["Wemb"], "none": ["encoder_Wemb", "decoder_Wemb"]}[shape["tied"]]:
        add(name, rows, WIDTH)
    if shape["tied"] == "none":
        add("decoder_ff_logit_out_W", WIDTH, rows)
    add("decoder_ff_logit_out_b", 1, rows)
    if shape.get("positions") == "learned":
        add("Wpos", 50, WIDTH)

    def add_norm(prefix: str, kind: str, suffix: str = "_pre" if before else "") -> None:
        add(f"{prefix}{kind}ln_scale{suffix}", 1, WIDTH, mean=1.0)
        add(f"{prefix}{kind}ln_bias{suffix}", 1, WIDTH)

    for side, depth in zip(("encoder", "decoder"), layers, strict=True):
        if shape.get("transformer-postprocess-top"):
            add_norm(f"{side}_", "top_", "")
        numbers = (
            shape.get("transformer-tied-layers", range(1, depth + 1)) if side == "decoder" else range(1, depth + 1)
        )
        for n in sorted({*numbers}):
            parts = ["self"] if side == "encoder" else ["rnn" if recurrent else "self", "context"]
            for part in parts:
                prefix = f"{side}_l{n}_{part}_"
                if part == "rnn":
                    for name in ("W", "Wf"):
                        add(prefix + name, WIDTH, WIDTH)
                    add(prefix + "bf", 1, WIDTH)
                    add_norm(prefix, "" if before else "ffn_")
                    continue
                for letter in "qkvo":
                    add(prefix + f"W{letter}", WIDTH, WIDTH)
                    add(prefix + f"b{letter}", 1, WIDTH)
                add_norm(prefix, "Wo_")
            prefix = f"{side}_l{n}_ffn_"
            for name, size in (
                ("W1", (WIDTH, HIDDEN)),
                ("b1", (1, HIDDEN)),
                ("W2", (HIDDEN, WIDTH)),
                ("b2", (1, WIDTH)),
            ):
                add(prefix + name, *size)
            add_norm(prefix, "ffn_")
    names = {key: value for key, value in shape.items() if key not in ("tied", "positions", "layers", "gelu")}
    settings = {
        "version": "v1.12.0 1234567 2023-02-20 10:00:00 +0000",
        "type": "transformer",
        "dim-emb": WIDTH,
        "enc-depth": layers[0],
        "dec-depth": layers[1],
        "transformer-heads": heads,
        "transformer-ffn-depth": 2,
        **names,
    }
    lines = [
        f"{key}: {[*value]}" if isinstance(value, tuple) else f'{key}: "{value}"' for key, value in settings.items()
    ]
    return items, "\n".join([*lines, f"dim-vocabs:\n  - {rows}\n  - {rows}", ""])


def write_npz(path: Path, items: Items, settings: str) -> None:
    """Write an archive as Marian does."""
    np.savez(
        path,
        allow_pickle=False,
        **{**items, "special:model.yml": np.frombuffer(settings.encode() + b"\0", dtype=np.int8)},
    )


QUANTISED = {"int8": 0x4101, "int16": 0x4102, "intgemm8": 0x10001, "intgemm16": 0x10002}
"""Types of quantised matrices: of Bergamot and of Marian."""


def write_bin(path: Path, items: Items, settings: str, kind: int | None = None) -> Items:
    """Write a binary file, with matrices of a quantised type if one is given; return the numbers that are in it."""
    stored: Items = {}
    entries: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name, array in items.items():
        if kind is not None and min(array.shape) > 1 and name != "Wpos":
            multiplier = np.float32(127 / np.abs(array).max() if kind & 1 else 1024)
            numbers = np.rint(array * multiplier).astype(np.int8 if kind & 1 else np.int16)
            stored[name] = numbers.astype(np.float32) / multiplier
            rows = numbers if name.endswith("Wemb") else numbers.T
            data = rows.tobytes() + multiplier.tobytes()
            entries.append((name, kind, array.shape, data + bytes(-len(data) % 256)))
        else:
            stored[name] = array
            entries.append((name, 0x0404, array.shape, array.tobytes() + bytes(-array.nbytes % 256)))
    text = settings.encode() + b"\0"
    entries.append(("special:model.yml", 0x0101, (len(text),), text + bytes(-len(text) % 256)))
    head = struct.pack("<QQ", 1, len(entries))
    head += b"".join(struct.pack("<QQQQ", len(n.encode()) + 1, kind, len(s), len(d)) for n, kind, s, d in entries)
    head += b"".join(name.encode() + b"\0" for name, *_ in entries)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in entries)
    padding = -(len(head) + 8) % 256
    path.write_bytes(head + struct.pack("<Q", padding) + bytes(padding) + b"".join(data for *_, data in entries))
    return stored


def write_vocabulary(path: Path) -> None:
    """Write the pieces with their ids in YAML."""
    lines = (f'"{piece}": {n}' if n % 2 else f"'{piece}': {n}" for n, piece in enumerate(PIECES))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def train_sentencepiece(path: Path) -> None:
    """Train a sentencepiece model with Marian's ids of special pieces."""
    lines = ["das haus ist alt .", "ein hund , das haus", "the house is old .", "a dog , the house"] * 20
    with path.open("wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=stream, vocab_size=40, hard_vocab_limit=False,
            eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
        )  # fmt: skip


def norm(x: Array, items: Items, name: str) -> Array:
    """Layer normalisation, its scale and bias by name."""
    kind, _, suffix = name.partition("ln")
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-9)
    return np.asarray(centred / deviation * items[f"{kind}ln_scale{suffix}"] + items[f"{kind}ln_bias{suffix}"])


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "exact": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}


class Naive:
    """A model in plain numpy."""

    def __init__(
        self, items: Items, shape: Mapping[str, Any], layers: tuple[int, int] | None = None, heads: int = 4
    ) -> None:
        self.items = {name: array.astype(np.float64) for name, array in items.items()}
        self.shape, self.layers, self.heads = shape, layers or shape.get("layers", (2, 2)), heads

    def embed(self, side: str, ids: Sequence[int], first: bool = False) -> Array:
        """Vectors of pieces and positions; a vector of zeros comes first in the decoder."""
        table = self.items[f"{side}_Wemb" if f"{side}_Wemb" in self.items else "Wemb"]
        x = np.concatenate([np.zeros((int(first), table.shape[1])), table[list(ids)]])
        if "Wpos" in self.items:
            return x + self.items["Wpos"][: len(x)]
        half = table.shape[1] // 2
        angles = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(half) / (half - 1))
        return np.asarray(x * math.sqrt(table.shape[1]) + np.concatenate([np.sin(angles), np.cos(angles)], 1))

    def around(self, x: Array, prefix: str, kind: str, inner: Any) -> Array:
        """A block with its norm and residual."""
        if "n" in self.shape["transformer-preprocess"]:
            return np.asarray(x + inner(norm(x, self.items, f"{prefix}{'' if kind == 'rnn_' else kind}ln_pre")))
        return norm(x + inner(x), self.items, f"{prefix}{'ffn_' if kind == 'rnn_' else kind}ln")

    def attention(self, prefix: str, x: Array, y: Array, causal: bool = False) -> tuple[Array, ...]:
        """Attention weights `[H, T, S]`, the vectors f(y) `[H, S, D]`, and the output `[T, D]`."""
        q, k, v = (
            (z @ self.items[f"{prefix}W{letter}"] + self.items[f"{prefix}b{letter}"])
            .reshape(len(z), self.heads, -1)
            .transpose(1, 0, 2)
            for letter, z in (("q", x), ("k", y), ("v", y))
        )
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        if causal:
            scores += np.triu(np.full(scores.shape[1:], -1e30), 1)
        weights = softmax(scores)
        out = self.items[f"{prefix}Wo"].reshape(self.heads, -1, x.shape[1])
        vectors = v @ out
        return weights, vectors, (weights @ vectors).sum(0) + self.items[f"{prefix}bo"]

    def feed(self, prefix: str, x: Array) -> Array:
        """A feed-forward network."""
        inner = x @ self.items[f"{prefix}W1"] + self.items[f"{prefix}b1"]
        activation = ACTIVATIONS[self.shape.get("gelu", self.shape.get("transformer-ffn-activation", "relu"))]
        return np.asarray(activation(inner) @ self.items[f"{prefix}W2"] + self.items[f"{prefix}b2"])

    def recur(self, prefix: str, x: Array) -> Array:
        """A simple recurrent unit."""
        cell, cells = np.zeros(x.shape[1]), []
        for row in x:
            forget = 1 / (1 + np.exp(-(row @ self.items[f"{prefix}Wf"] + self.items[f"{prefix}bf"][0])))
            cell = forget * cell + (1 - forget) * (row @ self.items[f"{prefix}W"])
            cells.append(np.maximum(cell, 0))
        return np.array(cells)

    def encode(self, source: Sequence[int]) -> Array:
        """The encoder's output `[S, D]`."""
        x = self.embed("encoder", source)
        for n in range(1, self.layers[0] + 1):
            prefix = f"encoder_l{n}_self_"
            x = self.around(x, prefix, "Wo_", lambda z, prefix=prefix: self.attention(prefix, z, z)[2])
            x = self.around(x, f"encoder_l{n}_ffn_", "ffn_", lambda z, n=n: self.feed(f"encoder_l{n}_ffn_", z))
        return norm(x, self.items, "encoder_top_ln") if self.shape.get("transformer-postprocess-top") else x

    def decode(self, source: Sequence[int], target: Sequence[int]) -> tuple[list[tuple[Array, ...]], Array]:
        """Weights `[H, T+1, S]` and f(x) `[H, S, D]` of each layer, and log-probabilities of pieces `[T+1, V]`."""
        encoded, x = self.encode(source), self.embed("decoder", target, first=True)
        recorded = []
        for n in self.shape.get("transformer-tied-layers", range(1, self.layers[1] + 1)):
            prefix = f"decoder_l{n}_"
            if "dec-cell" in self.shape:
                x = self.around(x, prefix + "rnn_", "rnn_", lambda z, p=prefix: self.recur(p + "rnn_", z))
            else:
                x = self.around(
                    x, prefix + "self_", "Wo_", lambda z, p=prefix: self.attention(p + "self_", z, z, True)[2]
                )
            before = "n" in self.shape["transformer-preprocess"]
            entered = norm(x, self.items, f"{prefix}context_Wo_ln_pre") if before else x
            recorded.append(self.attention(prefix + "context_", entered, encoded)[:2])
            x = self.around(
                x, prefix + "context_", "Wo_", lambda z, p=prefix: self.attention(p + "context_", z, encoded)[2]
            )
            x = self.around(x, prefix + "ffn_", "ffn_", lambda z, p=prefix: self.feed(p + "ffn_", z))
        if self.shape.get("transformer-postprocess-top"):
            x = norm(x, self.items, "decoder_top_ln")
        table = self.items.get("decoder_ff_logit_out_W", self.items.get("Wemb", np.zeros((1, 1))).T)
        scores = x @ table + self.items["decoder_ff_logit_out_b"]
        return recorded, np.log(softmax(scores))
