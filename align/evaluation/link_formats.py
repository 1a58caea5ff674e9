"""Read lines of links.

Numbers are as they stand in the file; `renumber` converts them to (source, target) from 0. `parse_x(format_x(links))
== links` for the formats of `align.core.formats`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from align.core.errors import LinksError, shorten, show_value
from align.core.text import split_words
from align.core.types import Gold, Links, Pair

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})(?::([0-9.]+(?:[eE][-+]?[0-9]+)?))?")
_SURE_OR_POSSIBLE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?:[-:/]([SP])|\[([SP])\])")
_NAACL = re.compile(r"([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9})(?: ([SPsp]))?(?: ([0-9.]+(?:[eE][-+]?[0-9]+)?))?")
_A3_COMMENT = re.compile(r"# Sentence pair \(([0-9]{1,9})\) source length ([0-9]{1,9}) target length ([0-9]{1,9}) ")

HIGHEST = 999_999_999
"""The highest number in a file of links, in any format: a higher one is a mistake, and could exhaust the memory."""

_POSITION = re.compile(r"[0-9]{1,9}")

Parsed = TypeVar("Parsed")


def at_line(name: str, number: int, parse: Callable[..., Parsed], *arguments: object) -> Parsed:
    """Parse a line, and add file and line to the error if it is invalid."""
    try:
        return parse(*arguments)
    except ValueError as error:
        raise LinksError(str(error), file=name, line=number) from None


def make_gold(sure: Iterable[tuple[int, int]], possible: Iterable[tuple[int, int]] = ()) -> Gold:
    """Return gold links of one pair, the sure ones made possible as well."""
    sure = frozenset(sure)
    return Gold(sure, sure | frozenset(possible))


def renumber(links: Iterable[tuple[int, int]], base: int = 0, swapped: bool = False) -> Links:
    """Convert links as they stand in a file to (source, target) from 0."""
    renumbered = set()
    for first, second in links:
        if min(first, second) < base:
            raise ValueError(f"link {first}-{second} has index {min(first, second)}, but counting starts at {base}")
        renumbered.add((second - base, first - base) if swapped else (first - base, second - base))
    return frozenset(renumbered)


def number(links: Iterable[tuple[int, int]], base: int = 0, swapped: bool = False) -> Links:
    """Convert links from 0, source first, to another file's convention; the reverse of `renumber`."""
    return frozenset((j + base, i + base) if swapped else (i + base, j + base) for i, j in links)


OTHER_READINGS: dict[str, Callable[[Links], Links]] = {
    "swapped": lambda links: renumber(links, swapped=True),
    "one higher": lambda links: number(links, 1),
    "one lower": lambda links: renumber(filter(min, links), 1),
}
"""Conversions of a file's links that was read with the wrong order of sides or the wrong base."""


Scores = dict[tuple[int, int], float | None]  # the score of each link, None if it has none

MAX_SCORE = 1e9


def parse_marked(line: str, scores: Scores | None = None) -> Gold:
    """Read a line of `3-4` (sure) and `3p4` or `3?4` (possible) links, each perhaps with a score: `3-4:0.83`.

    `3-4/S`, `3-4:S`, `3-4-S` and `3-4[S]` are sure as well, and possible with P in place of S.

    Args:
        scores: gets the links and their scores, if given; otherwise scores are ignored.

    Raises:
        ValueError: a token is not a link, or a score not a number from 0.
    """
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for token in split_words(line):
        score = None
        if match := _LINK.fullmatch(token):
            link, is_sure, score = (int(match[1]), int(match[3])), match[2] == "-", match[4]
        elif match := _SURE_OR_POSSIBLE.fullmatch(token):
            link, is_sure = (int(match[1]), int(match[2])), "S" in match.groups()
        else:
            raise ValueError(f"{shorten(token)!r} is not a link such as 0-3")
        (sure if is_sure else possible).add(link)
        if scores is not None:
            try:
                scores[link] = None if score is None else _checked(float(score))
            except ValueError:
                raise ValueError(f"{show_value(token)} is not a link such as 0-3:0.83") from None
    return make_gold(sure, possible)


def _checked(score: Any) -> float:
    """Return a score if it is a number from 0 to MAX_SCORE."""
    if type(score) not in (int, float) or not 0 <= score <= MAX_SCORE:
        raise ValueError("a score is not a number from 0")
    return float(score)


def parse_pharaoh(line: str, scores: Scores | None = None) -> Links:
    """Read a Pharaoh (Moses) line, `0-0 1-2`, with or without scores; see `parse_marked`.

    Raises:
        ValueError: a token is not `number-number`.
    """
    gold = parse_marked(line, scores)
    for i, j in gold.possible - gold.sure:
        raise ValueError(f"the link of {i} and {j} is marked as possible: expected the format talp or question")
    return gold.sure


def parse_jsonl(line: str, scores: Scores | None = None) -> Gold:
    """Read a JSON object with `links`, and optionally `possible` ones: lists of two numbers each."""
    try:
        record = json.loads(line)
        lists = [record["links"], record.get("possible", [])]
        links, possible = ([(i, j) for i, j in of_kind] for of_kind in lists)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        lists = []
    if not lists or not all(type(of_kind) is list for of_kind in lists):
        raise ValueError('not a JSON object with "links": [[0, 0], [1, 2], ...]')
    if any(type(n) is not int or not 0 <= n <= HIGHEST for link in (*links, *possible) for n in link):
        raise ValueError(f"a link in JSON is two numbers from 0 to {HIGHEST:,}")
    if scores is not None:
        scores |= dict.fromkeys((*links, *possible))
        if "scores" in record:
            values = record["scores"]
            if type(values) is not list or len(values) != len(links):
                raise ValueError('"scores" are not as many as "links"')
            scores |= zip(links, map(_checked, values), strict=True)
    return make_gold(links, possible)


def parse_links(line: str, scores: Scores | None = None) -> Gold:
    """Read a line of Pharaoh or talp, as `parse_marked` does, or a JSON object, as `parse_jsonl` does."""
    return parse_jsonl(line, scores) if line.startswith("{") else parse_marked(line, scores)


def parse_scored(line: str) -> dict[tuple[int, int], float]:
    """Read the scores of a line's links, see `parse_links`; 1 for a link without one. Possible links count as links."""
    scores: Scores = {}
    parse_links(line, scores)
    return {link: 1.0 if score is None else score for link, score in scores.items()}


def parse_naacl(line: str) -> tuple[int, tuple[int, int], bool]:
    """Read a line of the NAACL 2003 (WPT) format, `sentence source target [S|P] [confidence]`.

    Returns the sentence's number, the link, and whether it is sure, as it is without S or P.
    """
    match = _NAACL.fullmatch(" ".join(split_words(line)))
    try:
        # a confidence above 1 without a mark is the third of four numbers of another format
        valid = match and not (float(match[5] or 0) > 1 and not match[4])
    except ValueError:  # e.g. 0.5.1
        valid = False
    if not match or not valid:
        raise ValueError(f"{shorten(line)!r} is not `sentence source target [S|P] [confidence]`")
    return int(match[1]), (int(match[2]), int(match[3])), match[4] not in ("P", "p")


def parse_a3(comment: str, target: str, source: str) -> tuple[int, Links]:
    """Read the three lines of a pair in GIZA++'s A3.final; return the pair's number, and its links, from 1.

    Args:
        comment: `# Sentence pair (1) source length 2 target length 3 alignment score : 0.01`.
        source: `NULL ({ 3 }) das ({ 1 }) Haus ({ 2 })`: each source word with its target words, from 1.
    """
    head = _A3_COMMENT.match(comment)
    if not head:
        raise ValueError(f"{shorten(comment)!r} is not `# Sentence pair (1) source length ...`")
    links: set[tuple[int, int]] = set()
    fields, at, word = split_words(source), 0, -1
    while at < len(fields):  # a word, which may look like anything, then `({`, then numbers up to `})`
        word += 1
        end = next((n for n in range(at + 2, len(fields)) if fields[n] == "})"), at)
        positions = fields[at + 2 : end]
        if fields[at + 1 : at + 2] != ("({",) or end == at or not all(map(_POSITION.fullmatch, positions)):
            raise ValueError(f"word {word} of the source is not followed by `({{ ... }})`")
        links.update((word, int(p)) for p in positions if word)
        at = end + 1
    lengths = int(head[2]), int(head[3])
    if (word, len(split_words(target))) != lengths or any(not 1 <= j <= lengths[1] for _, j in links):
        raise ValueError(f"pair {head[1]} does not have the lengths that it states, or has positions beyond them")
    return int(head[1]), frozenset(links)


def check_range(links: Iterable[tuple[int, int]], pair: Pair, name: str, line: int, of_text: str = "") -> None:
    """Check that links are to words of a pair."""
    sizes = len(pair.source), len(pair.target)
    for i, j in links:
        if i >= sizes[0] or j >= sizes[1]:
            what = f"link {i}-{j}, and there are {sizes[0]:,} and {sizes[1]:,} words{of_text}"
            raise LinksError(what, file=name, line=line, hint="links count from 0, source first")


def read_scored(lines: Iterable[str], name: str) -> Iterator[dict[tuple[int, int], float]]:
    """Read the scores of links of each line, from 0 to 1; see `parse_scored`."""

    def parse(line: str) -> dict[tuple[int, int], float]:
        scores = parse_scored(line)
        if any(score > 1 for score in scores.values()):
            raise ValueError("a score above 1")
        return scores

    return (at_line(name, number, parse, line) for number, line in enumerate(lines, 1))
