"""Maps made by hand, and a model that gives them; texts with keyphrases."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from align.analysis.maps import SPECIAL, Encoded, Inspected, Maps, States, Tokens
from align.core.types import Pair, Part
from tests import toy


def tokens(pieces: str) -> Tokens:
    """Pieces with spaces between; those that begin with ## go on the word before, </s> and [CLS] are special."""
    words, text = list[int](), list[str]()
    for piece in pieces.split():
        if piece.startswith(("[", "<")):
            words.append(SPECIAL)
        elif piece.startswith("##"):
            text[-1] += piece[2:]
            words.append(len(text) - 1)
        else:
            text.append(piece)
            words.append(len(text) - 1)
    return Tokens(tuple(pieces.split()), tuple(words), tuple(text))


def random_maps(rows: Tokens, columns: Tokens, shape: tuple[int, int] = (2, 3), seed: int = 1) -> Maps:
    """Attention at random, whose rows add up to 1."""
    numbers = np.random.default_rng(seed)
    weights = numbers.random((*shape, len(rows), len(columns)))
    weights /= weights.sum(-1, keepdims=True)
    vectors = numbers.random((*shape, len(columns))) + 0.5
    return Maps(rows, columns, weights.astype(np.float32), vectors.astype(np.float32))


class MadeModel(Inspected):
    """A model that gives maps made beforehand, one after the other, again and again; none where they are empty."""

    def __init__(self, maps: Sequence[Mapping[Part, Maps]], shape: tuple[int, int] = (2, 3)) -> None:
        self.name = "made:de-en@0000000"
        self.shape: Mapping[Part, tuple[int, int]] = dict.fromkeys(maps[-1], shape)
        self._maps, self._count = maps, 0

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        maps = self._maps[self._count % len(self._maps)]
        self._count += 1
        return Encoded(pair, maps, (1, 0)) if maps else None

    def read_batch(self, batch: Sequence[Encoded], parts: Collection[Part]) -> Iterable[Mapping[Part, Maps]]:
        return [{part: one.input[part] for part in parts} for one in batch]

    def batch_states(self, batch: Sequence[Encoded]) -> Iterable[States]:
        raise AssertionError("is not asked for")


KEYS = ("haus", "alt", "sehen")
"""The words that are key words wherever they stand."""


def made_documents(each: int = 4, sentences: int = 3, seed: int = 1) -> list[dict[str, Any]]:
    """So many documents of each part of the data, whose keyphrases are the KEYS in them and one that is not."""
    numbers = np.random.default_rng(seed)
    documents = []
    for split in ("train", "dev", "test"):
        for _ in range(each):
            text = [list(map(str, numbers.permutation(toy.SOURCE_WORDS))) for _ in range(sentences)]
            documents.append({"split": split, "sentences": text, "keyphrases": [*KEYS, "kein haus"]})
    return documents


def write_documents(path: Path, documents: list[dict[str, Any]]) -> Path:
    """Write them as JSON lines."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return path
