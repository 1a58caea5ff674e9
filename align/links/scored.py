"""Lines of links with the score of each, as `extract-align --scores` and `-f jsonl` write them."""

from __future__ import annotations

import json
from math import isfinite

from align.links.formats import parse_jsonl, parse_marked
from align.text.lines import split_words


def parse_scored(line: str) -> dict[tuple[int, int], float]:
    """Read a line of Pharaoh or talp, `0-0:0.83 1-2`, or a JSON object with `links` and perhaps `scores`.

    Returns:
        The score of each link; 1 where it has none. Possible links count as links.

    Raises:
        ValueError: it is neither, or a score is no number from 0.
    """
    return _parse_json(line) if line.startswith("{") else _parse_tokens(line)


def _parse_tokens(line: str) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for token in split_words(line):
        (link,) = parse_marked(token).possible
        _, colon, score = token.partition(":")
        try:
            found[link] = float(score) if colon else 1.0
        except ValueError:
            raise ValueError(f"{token!r} is not a link such as 0-3:0.83") from None
    return _checked(found)


def _parse_json(line: str) -> dict[tuple[int, int], float]:
    found = dict.fromkeys(parse_jsonl(line).possible, 1.0)
    record = json.loads(line)
    if "scores" in record:
        scores, links = record["scores"], [(i, j) for i, j in record["links"]]
        if type(scores) is not list or len(scores) != len(links):
            raise ValueError('"scores" are not as many as "links"')
        found |= zip(links, scores, strict=True)
    return _checked(found)


def _checked(scores: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    if not all(type(score) in (int, float) and score >= 0 and isfinite(score) for score in scores.values()):
        raise ValueError("a score is not a number from 0")
    return scores
