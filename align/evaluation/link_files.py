"""Read whole files of links, gold or not: detect the format, and find the index base and the order of the sides.

Anything that a file leaves ambiguous must be set, and is never guessed: gold that counts from 1, read as if it counted
from 0, silently gives a wrong error rate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from align.core.errors import LinksError, plural
from align.core.types import Gold, Links
from align.evaluation.link_formats import (
    Scores,
    at_line,
    make_gold,
    parse_a3,
    parse_jsonl,
    parse_marked,
    parse_naacl,
    parse_pharaoh,
    renumber,
)

MAX_SILENT = 100_000
"""Maximum number of sentences without links that a NAACL file may skip: a higher sentence number is an error,
since each skipped sentence takes memory.
"""

_LOOKS = {
    "giza": re.compile(r"# Sentence pair \("),
    "jsonl": re.compile(r"\{"),
    "naacl": re.compile(r"[ \t]*[0-9]+[ \t]+[0-9]+[ \t]+[0-9]+([ \t]|$)"),
}
_MARKED = {"talp": re.compile(r"[0-9]p[0-9]|[0-9](?:[-:/][SP]|\[[SP]\])"), "question": re.compile(r"[0-9]\?[0-9]")}


@dataclass(frozen=True)
class LinkFile:
    """Links of a whole file by sentence pair: in the file's own numbers, or source first and from 0."""

    name: str
    format: str
    pairs: Sequence[Gold]  # those that a NAACL file skips are empty
    lines: Sequence[int]  # line number of each pair; 0 for one that a NAACL file skips
    open_ended: bool = False  # whether there may be more pairs, without links, than the file shows (NAACL)
    scores: Sequence[Scores] = ()  # of each pair's links, if they were asked for and the format has any
    base: int | None = None  # lowest index in the file; None as long as the pairs have its own numbers
    swapped: bool = False  # whether the file has the target side first
    dropped: int = 0  # number of removed links

    @property
    def kind(self) -> str:
        """Format, base, order, and removed links, for the signature: `naacl-1`, `pharaoh-0-swapped`."""
        swapped = "-swapped" if self.swapped else ""
        return f"{self.format}-{self.base}{swapped}" + (f"-without-{self.dropped}" if self.dropped else "")

    @property
    def links(self) -> list[Links]:
        """All links of each sentence pair, sure or possible, by which a hypothesis is scored."""
        return [pair.possible for pair in self.pairs]


def detect_format(lines: Sequence[str], name: str) -> str:
    """Return the format of the first line that is not blank; for Pharaoh-like lines, by the marks in all of them."""
    first = next((line for line in lines if line.strip(" \t")), "")
    for format, looks in _LOOKS.items():
        if looks.match(first):
            return format
    formats = [format for format, marked in _MARKED.items() if any(marked.search(line) for line in lines)]
    if len(formats) > 1:
        raise LinksError("some possible links are marked with p, others with ?: expected one format", file=name)
    return formats[0] if formats else "pharaoh"


def read_links(lines: Iterable[str], name: str, format: str | None = None, scored: bool = False) -> LinkFile:
    """Read a file of links, in the format named or detected, and leave its numbers as they are."""
    lines = list(lines)
    format = format or detect_format(lines, name)
    if format in BY_PAIR:
        return BY_PAIR[format](lines, name)
    scores: list[Scores] = [{} for _ in lines] if scored else []
    pairs = [
        at_line(name, number, BY_LINE[format], line, scores[number - 1] if scored else None)
        for number, line in enumerate(lines, 1)
    ]
    return LinkFile(name, format, pairs, range(1, len(pairs) + 1), scores=scores)


def _parse_with(mark: str, forbidden: str) -> Callable[[str, Scores | None], Gold]:
    def parse(line: str, scores: Scores | None) -> Gold:
        if forbidden in line:
            raise ValueError(f"{forbidden!r} in a line of links such as 3-4 and 3{mark}4")
        return parse_marked(line, scores)

    return parse


def _read_naacl(lines: Sequence[str], name: str) -> LinkFile:
    """Read links by sentence number, from 1; these files omit sentences without links."""

    def parse(line: str) -> tuple[int, tuple[int, int], bool]:
        sentence, link, is_sure = parse_naacl(line)
        if sentence < 1:
            raise ValueError("sentence 0, and NAACL files count from 1")
        if sentence > len(lines) + MAX_SILENT:
            raise ValueError(f"sentence {sentence:,} in a file of {plural(len(lines), 'line')}")
        return sentence, link, is_sure

    links: dict[int, tuple[set[tuple[int, int]], set[tuple[int, int]]]] = {}  # sure and possible ones
    first_line: dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        if line.strip(" \t"):
            sentence, link, is_sure = at_line(name, number, parse, line)
            first_line.setdefault(sentence, number)
            links.setdefault(sentence, (set(), set()))[not is_sure].add(link)
    numbers = range(1, max(links, default=0) + 1)
    pairs = [make_gold(*links.get(n, ((), ()))) for n in numbers]
    return LinkFile(name, "naacl", pairs, [first_line.get(n, 0) for n in numbers], open_ended=True)


def _read_giza(lines: Sequence[str], name: str) -> LinkFile:
    """Read three lines for each pair, and order them by the pairs' numbers."""
    if len(lines) % 3:
        raise LinksError(f"{plural(len(lines), 'line')}, but GIZA++ writes three for each pair", file=name)
    pairs: dict[int, tuple[Gold, int]] = {}
    for start in range(0, len(lines), 3):
        sentence, links = at_line(name, start + 1, parse_a3, *lines[start : start + 3])
        if sentence in pairs:
            raise LinksError(f"pair {sentence} appears twice", file=name, line=start + 1)
        pairs[sentence] = make_gold(links), start + 1
    if missing := next((n for n in range(1, len(pairs) + 1) if n not in pairs), 0):
        raise LinksError(f"pair {missing} is missing: give all parts of MGIZA's output", file=name)
    ordered = [pairs[n] for n in sorted(pairs)]
    return LinkFile(name, "giza", [gold for gold, _ in ordered], [line for _, line in ordered])


BASES = {"naacl": 1, "giza": 1, "jsonl": 0}  # index base of formats that fix it

BY_LINE: dict[str, Callable[[str, Scores | None], Gold]] = {
    "pharaoh": lambda line, scores: make_gold(parse_pharaoh(line, scores)),
    "talp": _parse_with("p", "?"),
    "question": _parse_with("?", "p"),
    "jsonl": parse_jsonl,
}
"""Parsers of formats that have a line for each pair, with the scores of its links."""

BY_PAIR: dict[str, Callable[[Sequence[str], str], LinkFile]] = {"naacl": _read_naacl, "giza": _read_giza}
"""Readers of other formats, from the lines of a file and its name to its links."""

LINK_FORMATS = ("pharaoh", "talp", "question", "naacl", "giza", "jsonl")


def find_base(file: LinkFile, lengths: Sequence[tuple[int, int]] | None, swapped: bool, role: str = "") -> int:
    """Return the index base of a file, 0 or 1, if it is unambiguous.

    It is if the file has an index 0, if its format fixes the base (NAACL and GIZA++ from 1, JSON from 0), if an
    index equals its sentence's length, or if there are no links at all.

    Otherwise, or if the file contradicts itself, the hint of the error names the argument to set; `role` is
    "gold" or "hyp" in it.
    """
    links = [link for pair in file.pairs for link in pair.possible]
    zero = any(0 in link for link in links)
    if BASES.get(file.format) == 1:
        if zero:
            raise LinksError(
                f"index 0 in {file.format} format, which counts from 1",
                file=file.name,
                hint=f"give ‹{role}.base=0› if this file does not, and take the links out if they mean NULL",
            )
        return 1
    if BASES.get(file.format) == 0 or not links:
        return 0
    at_length = lengths is not None and any(
        number == length
        for pair, size in zip(file.pairs, lengths, strict=False)
        for link in pair.possible
        for number, length in zip(reversed(link) if swapped else link, size, strict=True)
    )
    if zero and at_length:
        order = f"right to give ‹{role}.swapped=True›" if swapped else f"source first (else ‹{role}.swapped=True›)"
        raise LinksError(
            "has an index 0, but also an index that equals its sentence's length, as if it counted from 1",
            file=file.name,
            hint=f"check the text, the order of ‹source› and ‹target›, and that it is {order}. If all are right, "
            f'give ‹{role}.base=0› or 1, and ‹out_of_range="ignore"›',
        )
    if zero or at_length:
        return int(at_length)
    raise LinksError(
        f"no index 0 in {len(links):,} links",
        file=file.name,
        hint=f"the file may count from 0 or 1: give ‹{role}.base=0› or ‹{role}.base=1›",
    )


def renumber_file(file: LinkFile, base: int, swapped: bool) -> LinkFile:
    """Return the file with links as (source, target) from 0; refuse an index below the base with its line."""

    def renumbered(pair: Gold) -> Gold:
        return Gold(renumber(pair.sure, base, swapped), renumber(pair.possible, base, swapped))

    lines = zip(file.lines, file.pairs, strict=True)
    pairs = [at_line(file.name, line, renumbered, pair) for line, pair in lines]
    scores: list[Scores] = [{} for _ in file.scores]
    for of_pair, raw in zip(scores, file.scores, strict=True):
        for link, score in raw.items():
            if score is not None:
                of_pair |= dict.fromkeys(renumber([link], base, swapped), score)
    return replace(file, pairs=pairs, scores=scores, base=base, swapped=swapped)
