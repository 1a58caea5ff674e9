"""Read lines of links with the score of each, as `extract-align --scores` and `-f jsonl` write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from align.core.errors import LinksError, show_value
from align.core.text import split_words
from align.evaluation.link_formats import parse_jsonl, parse_marked, renumber

Scores = Mapping[tuple[int, int], float]

MOST = 1e9


def parse_scored(line: str) -> dict[tuple[int, int], float]:
    """Read a line of Pharaoh or talp, `0-0:0.83 1-2`, or a JSON object with `links` and perhaps `scores`.

    Returns:
        The score of each link; 1 if it has none. Possible links count as links.

    Raises:
        ValueError: the line is neither, or a score is not a number from 0 to MOST.
    """
    return {link: 1.0 if score is None else score for link, score in _parse(line).items()}


def read_scores(lines: Sequence[str], name: str, format: str, base: int, swapped: bool) -> list[Scores]:
    """Read the scores of a file whose links have been read, by pair: source first, from 0; unscored links are omitted.

    Raises:
        LinksError: a score is not a number from 0 to MOST; names the file and the line.
    """
    if format not in ("pharaoh", "talp", "question", "jsonl"):
        return []
    scores: list[Scores] = []
    for number, line in enumerate(lines, 1):
        try:
            line_scores = {link: score for link, score in _parse(line).items() if score is not None}
        except ValueError as error:
            raise LinksError(str(error), file=name, line=number) from None
        scores.append({next(iter(renumber([link], base, swapped))): score for link, score in line_scores.items()})
    return scores


def _parse(line: str) -> dict[tuple[int, int], float | None]:
    """Return the score of each link, None if it has none; see `parse_scored`."""
    scores = _of_json(line) if line.startswith("{") else _of_tokens(line)
    known = [score for score in scores.values() if score is not None]
    if not all(type(score) in (int, float) and 0 <= score <= MOST for score in known):
        raise ValueError("a score is not a number from 0")
    return scores


def _of_tokens(line: str) -> dict[tuple[int, int], float | None]:
    scores: dict[tuple[int, int], float | None] = {}
    parse_marked(line)  # its error has the whole line
    for token in split_words(line):
        (link,) = parse_marked(token).possible
        _, colon, score = token.partition(":")
        try:
            scores[link] = float(score) if colon and score not in ("S", "P") else None
        except ValueError:
            raise ValueError(f"{show_value(token)} is not a link such as 0-3:0.83") from None
    return scores


def _of_json(line: str) -> dict[tuple[int, int], float | None]:
    link_scores: dict[tuple[int, int], float | None] = dict.fromkeys(parse_jsonl(line).possible)
    record = json.loads(line)
    if "scores" in record:
        scores, links = record["scores"], [(i, j) for i, j in record["links"]]
        if type(scores) is not list or len(scores) != len(links):
            raise ValueError('"scores" are not as many as "links"')
        if None in scores:
            raise ValueError("a score is not a number from 0")
        link_scores |= zip(links, scores, strict=True)
    return link_scores
