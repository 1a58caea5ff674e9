"""Read lines of links, and recognise unsupported formats.

Numbers are as they stand in the file; `renumber` converts them to (source, target) from 0. `parse_x(format_x(links))
== links` for the formats of `align.core.formats`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from align.core.errors import LinksError, shorten, show_value
from align.core.text import split_words
from align.core.types import Gold, Links

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})(?::[0-9.]+(?:[eE][-+]?[0-9]+)?)?")

_SURE_OR_POSSIBLE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?:[-:/]([SP])|\[([SP])\])")

_OFFSETS = re.compile(r"[0-9]{1,9}:[0-9]{1,9}-[0-9]{1,9}:[0-9]{1,9}(?:/[0-9.]+)?")

_NAACL = re.compile(r"([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9})(?: ([SPsp]))?(?: ([0-9.]+(?:[eE][-+]?[0-9]+)?))?")

_A3_COMMENT = re.compile(r"# Sentence pair \(([0-9]{1,9})\) source length ([0-9]{1,9}) target length ([0-9]{1,9}) ")

HIGHEST = 999_999_999
"""The highest number in a file of links, in any format: a higher one is a mistake, and could exhaust the memory."""

_POSITION = re.compile(r"[0-9]{1,9}")

_TOO_HIGH = re.compile(r"[0-9]{10}")


def make_gold(sure: Iterable[tuple[int, int]], possible: Iterable[tuple[int, int]] = ()) -> Gold:
    """Return gold links of one pair, the sure ones made possible as well."""
    sure = frozenset(sure)
    return Gold(sure, sure | frozenset(possible))


def _refusal(text: str, expected: str, line: str = "") -> ValueError:
    """Return the error that a text is not of the expected form, or the recognised format of its line."""
    if known := recognise_links(line):
        return ValueError(known)
    hint = f"; numbers go up to {HIGHEST:,}" if _TOO_HIGH.search(text) else ""
    return ValueError(f"{shorten(text)!r} is not {expected}{hint}")


def renumber(links: Iterable[tuple[int, int]], base: int = 0, swapped: bool = False) -> Links:
    """Convert links as they stand in a file to (source, target) from 0.

    Args:
        base: lowest index of the file, 0 or 1.

    Raises:
        ValueError: a number is below the base.
    """
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


def parse_marked(line: str) -> Gold:
    """Read a line of `3-4` (sure) and `3p4` or `3?4` (possible) links; a score after a colon is ignored.

    `3-4/S`, `3-4:S`, `3-4-S` and `3-4[S]` are sure as well, and possible with P in place of S.

    Raises:
        ValueError: a token is not a link.
    """
    sure: set[tuple[int, int]] = set()
    possible: set[tuple[int, int]] = set()
    for token in split_words(line):
        match = _LINK.fullmatch(token)
        if not match and (marked := _SURE_OR_POSSIBLE.fullmatch(token)):
            (sure if "S" in marked.groups() else possible).add((int(marked[1]), int(marked[2])))
            continue
        if _OFFSETS.fullmatch(token):
            raise ValueError(
                f"{show_value(token)} links characters (format offsets); only links between words, as 0-3, are read"
            )
        if not match:
            raise _refusal(token, "a link such as 0-3", line)
        links = sure if match[2] == "-" else possible
        links.add((int(match[1]), int(match[3])))
    return make_gold(sure, possible)


def parse_pharaoh(line: str) -> Links:
    """Read a Pharaoh (Moses) line, `0-0 1-2`, with or without scores.

    Raises:
        ValueError: a token is not `number-number`.
    """
    gold = parse_marked(line)
    for i, j in gold.possible - gold.sure:
        raise ValueError(f"the link of {i} and {j} is marked as possible: is this talp, or a `3?4` file?")
    return gold.sure


def _without_duplicates(members: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(members)
    if len(record) < len(members):
        raise KeyError("a name appears twice")
    return record


def parse_jsonl(line: str) -> Gold:
    """Read a JSON object with `links`, and optionally `possible` ones: lists of two numbers each.

    Raises:
        ValueError: the line is anything else, or has a name twice.
    """
    try:
        record = json.loads(line, object_pairs_hook=_without_duplicates)
        lists = [record["links"], record.get("possible", [])]
        sure_and_possible = [[(i, j) for i, j in links] for links in lists]
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        lists = sure_and_possible = []
    if not sure_and_possible or not all(type(links) is list for links in lists):
        raise ValueError('not a JSON object with "links": [[0, 0], [1, 2], ...], and each name once')
    if any(type(n) is not int or not 0 <= n <= HIGHEST for link in chain(*sure_and_possible) for n in link):
        raise ValueError(f"a link in JSON is two numbers from 0 to {HIGHEST:,}")
    return make_gold(*sure_and_possible)


class NaaclLink(NamedTuple):
    """One line of the NAACL 2003 (WPT) format: `sentence source target [S|P] [confidence]`."""

    sentence: int
    link: tuple[int, int]
    sure: bool = True
    confidence: float | None = None


def parse_naacl(line: str) -> NaaclLink:
    """Read a NAACL/WPT line; without S or P the link is sure.

    Raises:
        ValueError: the line is not of this format.
    """
    fields = split_words(line)
    match = _NAACL.fullmatch(" ".join(fields))
    try:
        confidence = float(match[5]) if match and match[5] else None
    except ValueError:  # e.g. 0.5.1
        match = None
    if not match:
        raise _refusal(line, "`sentence source target [S|P] [confidence]`", line if len(fields) != 2 else "")
    return NaaclLink(int(match[1]), (int(match[2]), int(match[3])), match[4] not in ("P", "p"), confidence)


def parse_a3(comment: str, target: str, source: str) -> tuple[int, Links]:
    """Read the three lines of a pair in GIZA++'s A3.final.

    Args:
        comment: `# Sentence pair (1) source length 2 target length 3 alignment score : 0.01`.
        target: the target sentence.
        source: `NULL ({ 3 }) das ({ 1 }) Haus ({ 2 })`: each source word with its target words, from 1.

    Returns:
        The pair's number, and its links, both sides from 1.

    Raises:
        ValueError: the lines are not of this form, or do not have the lengths that they state.
    """
    head = _A3_COMMENT.match(comment)
    if not head:
        raise _refusal(comment, "`# Sentence pair (1) source length ...`")
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


_PHARAOH = r"[0-9]+-[0-9]+(?:[ \t]+[0-9]+-[0-9]+)*"

_TO_PAIRS = r"`sed -E 's/[^0-9]+/ /g; s/([0-9]+) ([0-9]+)/\1-\2/g'` writes them as 0-0 1-1"

_WITHOUT_NONE = r"`sed -E 's/[[(]([0-9]+|None), ?None[])]|[[(]None, ?[0-9]+[])]//g'` removes these"

_WITHOUT_NULL = "leave them out (`sed -E 's/NULL-[0-9]+|[0-9]+-NULL//g'`)"

_FOREIGN = tuple(
    (re.compile(pattern), name, advice)
    for pattern, name, advice in (
        (r"[STHDPA]-[0-9]+\t", "fairseq's output (A-0 TAB links)", "`grep ^A- | sort -V | cut -f 2` leaves the links"),
        (
            rf"[0-9]+\t(?:{_PHARAOH})?$",
            "a running number and a TAB before the links",
            "`cut -f 2` leaves the links",
        ),
        (rf"[^\t]*\t[^\t]*\t(?:{_PHARAOH})?$", "source, target and links between TABs", "`cut -f 3` leaves the links"),
        (r"\[?[(\[].*None", "pairs of numbers in brackets, some of them None", _WITHOUT_NONE),
        (r"\[?[(\[][0-9]+, ?[0-9]+[)\]]", "pairs of numbers in brackets", _TO_PAIRS),
        (r"(?:[0-9]+ [0-9]+(?: |$))+$", "pairs of numbers between spaces", _TO_PAIRS),
        (rf"{_PHARAOH}, ?[0-9]", "links between commas", "`tr , ' '` replaces these"),
        (r"(?:.* )?(?:NULL-[0-9]+|[0-9]+-NULL)(?: |$)", "links to NULL", _WITHOUT_NULL),
        (r"[SP] [0-9]+ [0-9]+$", "no number of a sentence before the link", "write `1 1 1 S`, the mark last"),
        (r"[0-9]+-[0-9]+/[0-9.]+(?: |$)", "scores after a slash", "`tr / :` writes them as 0-0:0.5"),
        (r"<?[0-9]*\.[0-9]+[ ,]", "soft alignments", "write links, as Marian does for hard alignments"),
        (r"<[/?!a-zA-Z]", "XML", "write a line such as 0-0 1-1 for each sentence pair"),
    )
)


def recognise_links(line: str) -> str:
    """Return the format of a line that cannot be read as links, and advice; "" if the format is unknown."""
    line = line.strip(" ")
    if "|||" in line:
        return _between_bars([field.strip(" \t") for field in line.split("|||")])
    return next((f"{name}: {advice}" for pattern, name, advice in _FOREIGN if pattern.match(line)), "")


def _between_bars(fields: list[str]) -> str:
    """Distinguish links with their score, translations with links, and text by their fields between bars."""
    if len(fields) == 2 and re.fullmatch(r"-?[0-9.]+(?:e-?[0-9]+)?|-?inf|nan", fields[1]):
        name, field = "links and their score between |||", 1
    else:
        field = next((n for n, text in enumerate(fields, 1) if re.fullmatch(_PHARAOH, text)), 0)
        name = "links among fields between |||"
    if not field:
        return "text with |||, not links: give the file of its links"
    best = "!n[$1]++ " if fields[0].isdigit() else ""  # only the first translation of each sentence
    return f"{name}: `awk -F ' *[|][|][|] *' '{best}{{print ${field}}}'` leaves the links"


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
