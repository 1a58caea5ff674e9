"""Alignment formats, a line for a sentence pair. `parse_x(format_x(links)) == links`."""

from __future__ import annotations

import json
from collections.abc import Callable

from align.stream import split_words
from align.types import Alignment, Links


def format_pharaoh(alignment: Alignment, scores: bool = False) -> str:
    """Pharaoh (Moses) line, `0-0 1-2`: source word, target word, both from 0; with scores `0-0:0.83`."""
    if scores:
        return " ".join(f"{i}-{j}:{alignment.scores[i, j]:.2f}" for i, j in alignment)
    return str(alignment)


def parse_pharaoh(line: str) -> Links:
    """Read a Pharaoh line.

    Raises:
        ValueError: a token that is not `number-number`.
    """
    links = set()
    for token in split_words(line):
        source, dash, target = token.partition("-")
        if not (dash and _is_index(source) and _is_index(target)):
            raise ValueError(f"{token!r} is not a link such as 0-3")
        links.add((int(source), int(target)))
    return frozenset(links)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit()


def format_jsonl(alignment: Alignment, scores: bool = False) -> str:
    """One JSON object: the line's number, its words, links with their scores, and the target words linked to none.

    Scores are always there, rounded to four digits; `scores` changes nothing.
    """
    links = list(alignment)
    record = {
        "id": alignment.pair.id,
        "source": alignment.pair.source,
        "target": alignment.pair.target,
        "links": links,
        "scores": [round(alignment.scores[link], 4) for link in links],
        "null": alignment.null,
    }
    if alignment.skipped:
        record["skipped"] = alignment.skipped
    return json.dumps(record, ensure_ascii=False)


FORMATS: dict[str, Callable[[Alignment, bool], str]] = {
    "pharaoh": format_pharaoh,
    "talp": format_pharaoh,  # the same line where every link is sure; `3p4` would be a possible one
    "jsonl": format_jsonl,
}
