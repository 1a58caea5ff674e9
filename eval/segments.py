"""How many real segments get their tags and placeholders back, and what each rule contributes.

Segments are NAME.de and NAME.en in DATA/tags, one of them with tags, and NAME.ref, the other one as its authors tagged
it. Two bundled models align; a segment is correct if it equals the reference, values of href and folded spaces aside.
The rules were tuned on even lines; odd lines were counted several times meanwhile. Each other row switches a rule off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from common import write_table

from align import Aligner, Pair, load, two_way
from align.core.text import split_words
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.transfer import markup
from align.transfer.markup import place_markup
from align.transfer.tags import Markup, read_markup, readable
from align.transfer.windows import FLOOR

SETS = {"html": ("html", "de", "en"), "xl": ("xml", "de", "en"), "ph": ("placeholders", "en", "de")}
"""Set: kind of tags, language of the tagged side, language of the other."""

RULES: dict[str, tuple[Any, str, Any]] = {
    "content as it is": (markup._Placing, "_find_verbatim", lambda *_: None),
    "marks at edges, at the end": (markup, "trailing_beyond", lambda word, stop, last: 0),
    "marks at edges, at the beginning": (markup, "leading_beyond", lambda word, first: 0),
    "empty quotes and brackets": (markup._Placing, "_fill_empty_pairs", lambda *_: None),
    "prepositions": (markup, "BRIDGES", frozenset()),
    "word on the left": (markup, "NEIGHBOUR", 0.0),
    "lone marks": (markup._Placing, "_find_lone_mark", lambda *_: None),
}
"""Rule: where it is, and what takes its place when it is switched off."""


class Segment(NamedTuple):
    """A segment, its scores, and how its authors tagged it."""

    markup: Markup
    target: str
    scores: dict[tuple[int, int], float]
    reference: str

    @property
    def is_right(self) -> bool:
        """Tell whether all tags are placed as in the reference."""
        return fold(place_markup(self.markup, self.target, self.scores).text) == fold(self.reference)


def fold(text: str) -> str:
    """Return a segment without what is not compared."""
    return " ".join(re.sub(r'href="[^"]*"', 'href=""', text).split())


def read_segments(folder: Path, name: str, aligner: Aligner) -> list[Segment]:
    """Read and align the segments of a set."""
    tags, *languages = SETS[name]
    files = (folder / f"{name}.{ending}" for ending in (*languages, "ref"))
    lines = [file.read_text(encoding="utf-8").split("\n")[:-1] for file in files]
    rows = [
        (read_markup(line, tags, target), target, reference) for line, target, reference in zip(*lines, strict=True)
    ]
    pairs = [
        Pair(tagged.readable(), readable(split_words(target), tagged.escaped), n)
        for n, (tagged, target, _) in enumerate(rows, 1)
    ]
    alignments = aligner(pairs)
    return [Segment(*row[:2], dict(one.scores), row[2]) for row, one in zip(rows, alignments, strict=True)]


def rows_of(name: str, segments: list[Segment]) -> Iterator[dict[str, Value]]:
    """Yield the rows of a set: with all rules, and without each."""
    for rule in ("", *RULES):
        row: dict[str, Value] = {"segments": name, "without": rule}
        with ExitStack() as stack:
            if rule:
                stack.enter_context(patch.object(*RULES[rule]))
            right = [segment.is_right for segment in segments]
        for lines, part in (("odd", right[::2]), ("even", right[1::2])):
            row |= {lines: sum(part), f"of {lines}": len(part)}
        yield row


COLUMNS = [
    *(Column(key, key) for key in ("segments", "without", "odd", "of odd", "even", "of even")),
]


def run(data: Path, output: Path) -> None:
    """Align, place, print, write."""
    models = {name: load(name, threshold=None, workers=1) for name in ("de-en", "en-de")}
    rows: list[dict[str, Value]] = []
    for name, (_, source, target) in SETS.items():
        both = two_way(models[f"{source}-{target}"], models[f"{target}-{source}"], threshold=FLOOR)
        rows += rows_of(name, read_segments(data / "tags", name, both))
    sign = signature({"model": [model.forward.recorder.name for model in models.values()]}, "segments")
    write_table(COLUMNS, rows, sign, output / "segments.tsv")
