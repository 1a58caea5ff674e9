"""Formats in which links are written, a line or more for each pair; `align.evaluation.link_formats` reads them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from align.core.types import Alignment

AGREEMENT = "agreement"


def format_pharaoh(alignment: Alignment, scores: bool = False) -> str:
    """Return the Pharaoh (Moses) line, `0-0 1-2`: source and target word, both from 0; with scores `0-0:0.83`."""
    if scores:
        return " ".join(f"{i}-{j}:{alignment.scores[i, j]:.2f}" for i, j in alignment)
    return str(alignment)


def format_offsets(alignment: Alignment, scores: bool = False) -> str:
    """Return links as ranges of characters, as Python slices them: `0:2-0:3 3:8-4:9`, `0:2-0:3/0.83`."""
    spans = alignment.pair.spans
    if spans is None:
        if alignment.scores:
            raise ValueError(f"pair {alignment.pair.id} has not kept its lines: LinePair.of makes one that does")
        return ""
    links = []
    for i, j in alignment:
        (begin, end), (first, last) = spans[0][i], spans[1][j]
        score = f"/{alignment.scores[i, j]:.2f}" if scores else ""
        links.append(f"{begin}:{end}-{first}:{last}{score}")
    return " ".join(links)


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    joins = character in "\u200c\u200d"  # part of the spelling of Persian and Hindi words and of emoji
    if joins or character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return json.dumps(character)[1:-1]


def to_json(record: Any, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Return JSON with all scripts as they are, but with escapes for what is invisible or acts on a terminal.

    Unlike `align.core.errors.printable`, it keeps spaces and joiners, which are part of words.
    """
    text = json.dumps(record, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False)
    # `json.dumps` has escaped what is invisible in ASCII, except DEL
    return text if text.isprintable() else re.sub(r"[^\x00-\x7e]", _visible, text)


def format_jsonl(alignment: Alignment, scores: bool = False) -> str:
    """Return `Alignment.to_dict()` as JSON, always with scores."""
    return to_json(alignment.to_dict())


def format_a3(alignment: Alignment, scores: bool = False) -> str:
    """Return the three lines of GIZA++'s A3.final, without the last line end; the score is unknown and written as 1.

    Words are not changed: each stands between spaces, so that `parse_a3` can tell a word `({` from a bracket.
    """
    source, target = alignment.pair.source, alignment.pair.target
    if any("\n" in word for word in (*source, *target)):
        raise ValueError(f"pair {alignment.pair.id} has a word with a line feed in it, which A3 cannot represent")
    linked: dict[int, list[int]] = {}
    for i, j in alignment:
        linked.setdefault(i + 1, []).append(j + 1)
    linked[0] = [j + 1 for j in alignment.null]
    lengths = f"source length {len(source)} target length {len(target)}"
    words = (f"{w} ({{ {''.join(f'{j} ' for j in linked.get(i, []))}}})" for i, w in enumerate(("NULL", *source)))
    comment = f"# Sentence pair ({alignment.pair.id}) {lengths} alignment score : 1"
    sentence = " ".join(target)
    if sentence.endswith("\r"):  # else read as part of the line's end; GIZA++ ends every line in a space
        sentence += " "
    return "\n".join((comment, sentence, " ".join(words)))


def format_naacl_links(alignment: Alignment, scores: bool = False) -> str:
    """Return the NAACL/WPT lines of a pair, from 1, all sure, with scores as confidence; empty without links."""
    return "\n".join(
        f"{alignment.pair.id} {i + 1} {j + 1} S" + (f" {round(alignment.scores[i, j], 4)!r}" if scores else "")
        for i, j in alignment
    )


def format_tsv(alignment: Alignment, scores: bool = False) -> str:
    """Return source, target and Pharaoh links between TABs, with one space between words."""
    pair = alignment.pair
    if any(mark in word for mark in "\t\n" for word in (*pair.source, *pair.target)):
        raise ValueError(f"pair {pair.id} has a word with a TAB or a line feed in it, which TSV cannot represent")
    return "\t".join((" ".join(pair.source), " ".join(pair.target), format_pharaoh(alignment, scores)))


def format_agreement(alignment: Alignment, scores: bool = False) -> str:
    """Return the agreement on target words and on source words between TABs; zeros without any."""
    return "\t".join(f"{value:.4f}" for value in alignment.agreement or (0.0, 0.0))


FORMATS: dict[str, Callable[[Alignment, bool], str]] = {
    "pharaoh": format_pharaoh,
    "talp": format_pharaoh,  # the same line where every link is sure; `3p4` would be a possible one
    "jsonl": format_jsonl,
    "naacl": format_naacl_links,
    "giza": format_a3,
    "offsets": format_offsets,
    "tsv": format_tsv,
    AGREEMENT: format_agreement,
}

OUTPUT_FORMATS = tuple(name for name in FORMATS if name != AGREEMENT)
"""Formats of links; the other one is that of `extract-align score`."""

WITH_LINES = ("jsonl", "offsets")  # formats that say where words stand in their lines
WITH_WORDS = ("giza", "tsv", *WITH_LINES)  # formats that need more of a pair than its number
