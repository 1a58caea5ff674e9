"""The scores that a file of links has beside them, where it has any."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from align.links.formats import renumber
from align.text.lines import split_words

Scores = Mapping[tuple[int, int], float]

_SCORED = re.compile(r"([0-9]{1,9})[-p?]([0-9]{1,9}):([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?)")


def _of_marked(line: str) -> list[tuple[tuple[int, int], float]]:
    """The scores of `0-1:0.83`."""
    matches = map(_SCORED.fullmatch, split_words(line))
    return [((int(match[1]), int(match[2])), float(match[3])) for match in matches if match]


def _of_jsonl(line: str) -> list[tuple[tuple[int, int], float]]:
    """The numbers of `scores`, one for each of the `links`; whatever else a program calls `scores` is passed over."""
    record = json.loads(line)
    scores = record.get("scores")
    if not isinstance(scores, list):
        return []
    pairs = zip_longest(record["links"], scores)
    return [((link[0], link[1]), number) for link, number in pairs if link and type(number) in (int, float)]


_READERS: dict[str, Callable[[str], list[tuple[tuple[int, int], float]]]] = {
    "pharaoh": _of_marked,
    "talp": _of_marked,
    "question": _of_marked,
    "jsonl": _of_jsonl,
}
"""The formats whose scores are read; the others' are passed over."""


def read_scores(lines: Sequence[str], format: str, base: int, swapped: bool) -> list[Scores]:
    """Scores of a file whose links have been read, by pair: source first, from 0; none for links without a number.

    Args:
        lines: of the file.
        format: a key of `align.links.files.READERS`.
        base: where it starts to count.
        swapped: whether it has the target side first.
    """
    if format not in _READERS:
        return []
    found: list[Scores] = []
    for line in lines:
        scores = {}
        for link, number in _READERS[format](line):
            if abs(number) <= 1e9 and math.isfinite(number):
                (renumbered,) = renumber([link], base, swapped)
                scores[renumbered] = float(number)
        found.append(scores)
    return found
