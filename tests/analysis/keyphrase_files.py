"""Texts with keyphrases, made by rule: of each sentence's words some stand in a phrase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests import toy

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
