"""Lines of links with the score of each, as `extract-align --scores` and `-f jsonl` write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from align.core.errors import LinksError, show_value
from align.core.text import split_words
from align.evaluation.link_formats import parse_jsonl, parse_marked, renumber

Scores = Mapping[tuple[int, int], float]

MOST = 1e9
"""Larger numbers are no scores."""


def parse_scored(line: str) -> dict[tuple[int, int], float]:
    """Read a line of Pharaoh or talp, `0-0:0.83 1-2`, or a JSON object with `links` and perhaps `scores`.

    Returns:
        The score of each link; 1 where it has none. Possible links count as links.

    Raises:
        ValueError: it is neither, or a score is no number from 0 to MOST.
    """
    return {link: 1.0 if score is None else score for link, score in _parse(line).items()}


def read_scores(lines: Sequence[str], name: str, format: str, base: int, swapped: bool) -> list[Scores]:
    """Scores of a file whose links have been read, by pair: source first, from 0; none for links without a number.

    Args:
        lines: of the file.
        name: what to call it in errors.
        format: a key of `align.evaluation.link_files.READERS`.
        base: where it starts to count.
        swapped: whether it has the target side first.

    Raises:
        LinksError: a score is no number from 0 to MOST; names the file and the line.
    """
    if format not in ("pharaoh", "talp", "question", "jsonl"):
        return []
    found: list[Scores] = []
    for number, line in enumerate(lines, 1):
        try:
            given = {link: score for link, score in _parse(line).items() if score is not None}
        except ValueError as error:
            raise LinksError(str(error), file=name, line=number) from None
        found.append({next(iter(renumber([link], base, swapped))): score for link, score in given.items()})
    return found


def _parse(line: str) -> dict[tuple[int, int], float | None]:
    """The score of each link, None where it has none; see `parse_scored`."""
    found = _of_json(line) if line.startswith("{") else _of_tokens(line)
    known = [score for score in found.values() if score is not None]
    if not all(type(score) in (int, float) and 0 <= score <= MOST for score in known):
        raise ValueError("a score is not a number from 0")
    return found


def _of_tokens(line: str) -> dict[tuple[int, int], float | None]:
    found: dict[tuple[int, int], float | None] = {}
    parse_marked(line)  # whose error knows the whole line
    for token in split_words(line):
        (link,) = parse_marked(token).possible
        _, colon, score = token.partition(":")
        try:
            found[link] = float(score) if colon and score not in ("S", "P") else None
        except ValueError:
            raise ValueError(f"{show_value(token)} is not a link such as 0-3:0.83") from None
    return found


def _of_json(line: str) -> dict[tuple[int, int], float | None]:
    found: dict[tuple[int, int], float | None] = dict.fromkeys(parse_jsonl(line).possible)
    record = json.loads(line)
    if "scores" in record:
        scores, links = record["scores"], [(i, j) for i, j in record["links"]]
        if type(scores) is not list or len(scores) != len(links):
            raise ValueError('"scores" are not as many as "links"')
        if None in scores:
            raise ValueError("a score is not a number from 0")
        found |= zip(links, scores, strict=True)
    return found
