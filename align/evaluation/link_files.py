"""Read whole files of links, gold or not: detect the format, and find the index base and the order of the sides.

Anything that a file leaves ambiguous must be set, and is never guessed: gold that counts from 1, read as if it counted
from 0, silently gives a wrong error rate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from align.core.errors import LinksError, plural
from align.core.types import Gold
from align.evaluation.link_formats import (
    Scores,
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
    """Links of a whole file, in the file's own numbers.

    Attributes:
        pairs: sentence pairs in order; those that a NAACL file skips are empty.
        lines: line number of each pair; 0 for one that a NAACL file skips.
        open_ended: whether there may be more pairs, without links, than the file shows (NAACL).
        scores: the scores of each pair's links, if they were asked for and the format has any.
    """

    name: str
    format: str
    pairs: Sequence[Gold]
    lines: Sequence[int]
    open_ended: bool = False
    scores: Sequence[Scores] = ()

    def indices(self) -> Iterator[int]:
        """Yield every number of every link."""
        return (number for pair in self.pairs for link in pair.possible for number in link)


def detect_format(lines: Sequence[str]) -> str:
    """Return the format of the first line that is not blank; for Pharaoh-like lines, by the marks in all of them."""
    first = next((line for line in lines if line.strip(" \t")), "")
    for name, looks in _LOOKS.items():
        if looks.match(first):
            return name
    formats = [name for name, marked in _MARKED.items() if any(marked.search(line) for line in lines)]
    if len(formats) > 1:
        raise LinksError("some possible links are marked with p, others with ?: is this one file?")
    return formats[0] if formats else "pharaoh"


def read_links(lines: Iterable[str], name: str, format: str | None = None, scored: bool = False) -> LinkFile:
    """Read a file of links, in the format named or detected."""
    lines = list(lines)
    if format is None:
        try:
            format = detect_format(lines)
        except LinksError as error:
            raise error.in_file(name) from None
    if format in BY_PAIR:
        return BY_PAIR[format](lines, name)
    pairs: list[Gold] = []
    scores: list[Scores] = []
    for number, line in enumerate(lines, 1):
        scores += [{}] if scored else []
        pairs.append(at_line(name, number, BY_LINE[format], line, scores[-1] if scored else None))
    return LinkFile(name, format, pairs, range(1, len(pairs) + 1), scores=scores)


def at_line(name: str, number: int, parse: Callable[..., Gold], *arguments: object) -> Gold:
    """Parse a line, and add file and line to the error if it is invalid."""
    try:
        return parse(*arguments)
    except ValueError as error:
        raise LinksError(str(error), file=name, line=number) from None


def _parse_with(mark: str, forbidden: str) -> Callable[[str, Scores | None], Gold]:
    def parse(line: str, scores: Scores | None) -> Gold:
        if forbidden in line:
            raise ValueError(f"{forbidden!r} in a line of links such as 3-4 and 3{mark}4")
        return parse_marked(line, scores)

    return parse


def _read_naacl(lines: Sequence[str], name: str) -> LinkFile:
    """Read links by sentence number, from 1; these files omit sentences without links."""
    sure: dict[int, set[tuple[int, int]]] = {}
    possible: dict[int, set[tuple[int, int]]] = {}
    first_line: dict[int, int] = {}
    for line_number, line in enumerate(lines, 1):
        if not line.strip(" \t"):
            continue
        try:
            parsed = parse_naacl(line)
            if parsed.sentence < 1:
                raise ValueError("sentence 0, and NAACL files count from 1")
            if parsed.sentence > len(lines) + MAX_SILENT:
                raise ValueError(f"sentence {parsed.sentence:,} in a file of {plural(len(lines), 'line')}")
        except ValueError as error:
            raise LinksError(str(error), file=name, line=line_number) from None
        first_line.setdefault(parsed.sentence, line_number)
        (sure if parsed.sure else possible).setdefault(parsed.sentence, set()).add(parsed.link)
    numbers = range(1, max(first_line, default=0) + 1)
    pairs = [make_gold(sure.get(n, ()), possible.get(n, ())) for n in numbers]
    return LinkFile(name, "naacl", pairs, [first_line.get(n, 0) for n in numbers], open_ended=True)


def _read_giza(lines: Sequence[str], name: str) -> LinkFile:
    """Read three lines for each pair, and order them by the pairs' numbers."""
    pairs: dict[int, tuple[Gold, int]] = {}
    if len(lines) % 3:
        raise LinksError(f"{plural(len(lines), 'line')}, where GIZA++ writes three for each pair", file=name)
    for start in range(0, len(lines), 3):
        try:
            sentence, links = parse_a3(lines[start], lines[start + 1], lines[start + 2])
            if sentence in pairs:
                raise ValueError(f"pair {sentence} appears twice")
        except ValueError as error:
            raise LinksError(str(error), file=name, line=start + 1) from None
        pairs[sentence] = make_gold(links), start + 1
    if sorted(pairs) != list(range(1, len(pairs) + 1)):
        missing = next(n for n in range(1, len(pairs) + 2) if n not in pairs)
        raise LinksError(f"pair {missing} is missing: are these all parts of MGIZA's output?", file=name)
    ordered = [pairs[n] for n in sorted(pairs)]
    return LinkFile(name, "giza", [gold for gold, _ in ordered], [line for _, line in ordered])


BASES = {"naacl": 1, "giza": 1, "jsonl": 0}
"""Index base of formats that fix it."""

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

    Args:
        role: "gold" or "hyp", for the error.

    Raises:
        LinksError: the base is ambiguous, or the file contradicts itself; the hint names the argument to set.
    """
    indices = list(file.indices())
    zero = 0 in indices
    if BASES.get(file.format) == 1:
        if zero:
            raise LinksError(
                f"index 0 in {file.format} format, which counts from 1",
                file=file.name,
                hint=f"give ‹{role}.base=0› if this file does not, and take the links out if they mean NULL",
            )
        return 1
    if BASES.get(file.format) == 0 or not indices:
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
            "counts from 0 by its index 0 and from 1 by an index that equals its sentence's length",
            file=file.name,
            hint=f"is it of this text, are ‹source› and ‹target› in order, and is it {order}? If all of that is so, "
            f'give ‹{role}.base=0› or 1, and ‹out_of_range="ignore"›',
        )
    if zero or at_length:
        return int(at_length)
    raise LinksError(
        f"no index 0 in {len(indices) // 2:,} links",
        file=file.name,
        hint=f"does it count from 1? give ‹{role}.base=1› (or ‹{role}.base=0› if it does count from 0)",
    )


def renumber_file(file: LinkFile, base: int, swapped: bool) -> list[Gold]:
    """Return all links of a file as (source, target) from 0; an index below the base is an error with its line."""

    def renumbered(pair: Gold) -> Gold:
        return Gold(renumber(pair.sure, base, swapped), renumber(pair.possible, base, swapped))

    return [at_line(file.name, line, renumbered, pair) for line, pair in zip(file.lines, file.pairs, strict=True)]
