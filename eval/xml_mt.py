"""How often tags come to stand where professional translators have put them: eval/results/xml_mt.tsv.

    .venv/bin/python eval/run.py xml-mt SOURCE.json TARGET.json --model en-de [--reverse-model de-en]

The files are two of one name out of Salesforce's localization-xml-mt (Hashimoto et al., WMT 2019), such as
ende_en_dev.json and ende_de_dev.json, which everybody has to fetch: their licence does not let others pass them on.
Each is a JSON object whose `text` has sentences with XML tags by their names. Of the sentences with tags, those are
taken that have the same tags on both sides. Tags are taken out of the target, and put in again along the links.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from common import write_table

from align import Aligner, Direction, Pair, Settings, load, two_way
from align.core.errors import DataError
from align.core.text import split_words
from align.evaluation.tables import Column, Value, percent
from align.io.signature import signature
from align.transfer.markup import place_markup
from align.transfer.tree import Markup, read_markup, readable
from align.transfer.windows import FLOOR


class Line(NamedTuple):
    """A sentence with tags, and its translation as it was made."""

    source: Markup
    target: str
    plain: str


def read_texts(path: Path) -> dict[str, str]:
    """The sentences of a file, by name.

    Raises:
        DataError: it is not of this form.
    """
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))["text"]
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError("no JSON object whose `text` has sentences by name", file=str(path)) from None
    return dict(texts)


def tags_of(markup: Markup) -> Counter[str]:
    """How often a sentence has each tag."""
    return Counter(token.text for token in markup.tokens if token.kind != "text")


def read_lines(source: Path, target: Path) -> Iterator[Line]:
    """The sentences that have the same tags on both sides; what is not well-formed is left out.

    Raises:
        DataError: a file is not of this form.
    """
    targets = read_texts(target)
    for name, text in read_texts(source).items():
        try:
            sides = read_markup(text, "xml"), read_markup(targets.get(name, ""), "xml")
        except ValueError:
            continue
        if tags_of(sides[0]) and tags_of(sides[0]) == tags_of(sides[1]):
            yield Line(sides[0], targets[name], sides[1].plain)


def rows_of(name: str, aligner: Aligner, lines: list[Line]) -> Iterator[dict[str, Value]]:
    """How many sentences come out as the translators have them, with one tag and with several."""
    pairs = (
        Pair(line.source.readable(), readable(split_words(line.plain), True), n) for n, line in enumerate(lines, 1)
    )
    found: dict[str, list[bool]] = {"one tag": [], "several": [], "all": []}
    for line, alignment in zip(lines, aligner(pairs), strict=True):
        same = place_markup(line.source, line.plain, alignment.scores).text.split() == line.target.split()
        opened = sum(token.kind in ("open", "point") for token in line.source.tokens)
        for part in ("one tag" if opened == 1 else "several", "all"):
            found[part].append(same)
    for part, same_ones in found.items():
        exact = percent(sum(same_ones) / len(same_ones)) if same_ones else None
        yield {"system": name, "sentences with": part, "sentences": len(same_ones), "exact": exact}


COLUMNS = [
    *(Column(key, key) for key in ("system", "sentences with", "sentences")),
    Column("exact", "exact, %", 1),
]


def run(source: Path, target: Path, model: str, reverse_model: str | None, output: Path) -> None:
    """Align, place, print, write.

    Raises:
        DataError: a file is not of this form, or has no tags.
    """
    lines = list(read_lines(source, target))
    if not lines:
        raise DataError("no sentence has tags, and the same ones on both sides", file=str(source))
    names = [name for name in (model, reverse_model) if name]
    models = [load(name, device="cpu", too_long="blank").forward.recorder for name in names]
    aligners: dict[str, Aligner] = {
        "one model": Aligner(Direction(models[0], Settings(threshold=FLOOR)), too_long="blank")
    }
    if len(models) > 1:
        forward, reverse = (Aligner(Direction(one, Settings(threshold=None)), too_long="blank") for one in models)
        aligners["two models"] = two_way(forward, reverse, threshold=FLOOR)
    rows = [row for name, aligner in aligners.items() for row in rows_of(name, aligner, lines)]
    sign = signature({"model": [one.name for one in models], "text": [source.name, target.name]}, "xml-mt")
    write_table(COLUMNS, rows, sign, output / "xml_mt.tsv")
