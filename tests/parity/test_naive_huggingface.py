"""Links of Hugging Face models against those of a deliberately naive implementation: identical, in every cell."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Alignment, Direction, Pair, load
from tests import hugging, naive_hugging
from tests.conftest import assert_same_links, plain
from tests.parity.test_naive import Remembering

pytest.importorskip("transformers")

PAIRS = [
    Pair(("das", "haus", "ist", "alt", "und", "gross", "."), ("the", "house", "is", "old", "and", "big", "."), 1),
    Pair(("wir", "sehen"), ("we", "see", "it", "now"), 2),
    Pair(("unbekannt", ",", "das", "und"), ("we", "see", "something"), 3),
    Pair(("haus",), ("house",), 4),
]


def naive_links(kind: str, folder: Path, model: Any, pairs: list[Pair]) -> dict[Any, list[Alignment]]:
    """Alignments in every cell, score and position."""
    found: dict[Any, list[Alignment]] = {}
    for pair in pairs:
        sentence = naive_hugging.encode(kind, folder, model, pair)
        words = len(pair.source), len(pair.target)
        for number, layer in enumerate(naive_hugging.layers_of(kind, model, sentence), 1):
            heads = [None, *range(len(layer.weights))]
            for score, position, head in product(("weight", "norm"), ("input", "output"), heads):
                links = naive_hugging.links(layer, sentence, words, score, position, head)
                cell = score, position, number, "all" if head is None else head + 1
                found.setdefault(cell, []).append(Alignment(pair, dict.fromkeys(links, 1.0)))
    return found


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_same_links_in_every_cell(kind: str, tmp_path: Path) -> None:
    model = hugging.save_model(kind, tmp_path)
    recorder = load(tmp_path, options=hugging.options(kind)).forward.recorder
    expected = naive_links(kind, tmp_path, model, PAIRS)
    assert len(expected) == 2 * 2 * recorder.layers * (recorder.heads + 1)
    remembering: Any = Remembering(recorder)  # the cells of a layer are read off one pass
    for cell, alignments in expected.items():
        aligner = Aligner(Direction(remembering, plain(*cell)))
        assert_same_links(aligner, aligner(PAIRS), alignments)
    read, predicted = ([a.links for c in expected if c[1] == p for a in expected[c]] for p in ("input", "output"))
    differ = sum(one != other for one, other in zip(read, predicted, strict=True))
    assert differ > len(read) / 3  # where all steps attend to the same, equal links show little
