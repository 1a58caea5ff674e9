"""Whole files of links, gold or not: which format, where does counting start, which side is first.

What a file does not say beyond doubt is asked for, never guessed: gold that counts from 1, read as if it counted
from 0, gives a wrong error rate in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from align.core.errors import Argument, LinksError, Remedy, plural
from align.core.types import Gold
from align.evaluation.link_formats import (
    make_gold,
    parse_a3,
    parse_jsonl,
    parse_marked,
    parse_naacl,
    parse_pharaoh,
    recognise_links,
    renumber,
)

MOST_SILENT = 100_000
"""Sentences without links that a NAACL file may skip: a higher sentence number is taken for a mistake, since each
skipped sentence takes memory."""

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
        name: what to call it in messages.
        format: a key of LINK_FORMATS.
        pairs: sentence pairs in order; those that a NAACL file leaves out are empty.
        lines: where each pair stands in the file; 0 for one that a NAACL file leaves out.
        open_ended: whether there may be more pairs, without links, than the file shows (NAACL).
    """

    name: str
    format: str
    pairs: Sequence[Gold]
    lines: Sequence[int]
    open_ended: bool = False

    def indices(self) -> Iterator[int]:
        """Every number of every link."""
        return (number for pair in self.pairs for link in pair.possible for number in link)


def detect_format(lines: Sequence[str]) -> str:
    """The format of the first line that is not blank; for Pharaoh-like lines, by the marks in all of them.

    Raises:
        LinksError: both `3p4` and `3?4` are among the links.
    """
    first = next((line for line in lines if line.strip(" \t")), "")
    for name, looks in _LOOKS.items():
        if looks.match(first):
            return name
    formats = [name for name, marked in _MARKED.items() if any(marked.search(line) for line in lines)]
    if len(formats) > 1:
        raise LinksError("some possible links are marked with p, others with ?: is this one file?")
    return formats[0] if formats else "pharaoh"


def read_links(lines: Iterable[str], name: str, format: str | None = None) -> LinkFile:
    """Read a file of links, in a given format or the one that it looks like.

    Args:
        lines: without their ends.
        name: what to call the file in errors.
        format: a key of LINK_FORMATS; None to detect it.

    Raises:
        LinksError: something is not of the format; names file and line.
    """
    lines = list(lines)
    if format is None:
        try:
            format = detect_format(lines)
        except LinksError as error:
            raise error.in_file(name) from None
    return READERS[format](lines, name)


def at_line(name: str, number: int, parse: Callable[..., Gold], *line: str) -> Gold:
    """Parse a line, and put file and line into the error if it cannot be parsed.

    Raises:
        LinksError: the line is not what `parse` reads; says why, and where.
    """
    try:
        return parse(*line)
    except ValueError as error:
        raise LinksError(str(error), file=name, line=number) from None


def _by_line(format: str, parse: Callable[[str], Gold]) -> Callable[[Sequence[str], str], LinkFile]:
    """A reader of files that have a line for each pair."""

    def read(lines: Sequence[str], name: str) -> LinkFile:
        pairs = [at_line(name, number, parse, line) for number, line in enumerate(lines, 1)]
        return LinkFile(name, format, pairs, range(1, len(pairs) + 1))

    return read


def _parse_with(mark: str, forbidden: str) -> Callable[[str], Gold]:
    def parse(line: str) -> Gold:
        if forbidden in line:
            raise ValueError(f"{forbidden!r} in a line of links such as 3-4 and 3{mark}4")
        return parse_marked(line)

    return parse


def _read_naacl(lines: Sequence[str], name: str) -> LinkFile:
    """Links by sentence number, from 1; sentences without links are not in such files."""
    sure: dict[int, set[tuple[int, int]]] = {}
    possible: dict[int, set[tuple[int, int]]] = {}
    first_line: dict[int, int] = {}
    for line_number, line in enumerate(lines, 1):
        if not line.strip(" \t"):
            continue
        try:
            parsed = parse_naacl(line)
            odd = parsed.sentence < 1 or (parsed.confidence or 0) > 1
            if odd and (recognised := recognise_links(line)):
                raise ValueError(recognised)
            if parsed.sentence < 1:
                raise ValueError("sentence 0, and NAACL files count from 1")
            if parsed.sentence > len(lines) + MOST_SILENT:
                raise ValueError(f"sentence {parsed.sentence:,} in a file of {plural(len(lines), 'line')}")
        except ValueError as error:
            raise LinksError(str(error), file=name, line=line_number) from None
        first_line.setdefault(parsed.sentence, line_number)
        (sure if parsed.sure else possible).setdefault(parsed.sentence, set()).add(parsed.link)
    numbers = range(1, max(first_line, default=0) + 1)
    pairs = [make_gold(sure.get(n, ()), possible.get(n, ())) for n in numbers]
    return LinkFile(name, "naacl", pairs, [first_line.get(n, 0) for n in numbers], open_ended=True)


def _read_giza(lines: Sequence[str], name: str) -> LinkFile:
    """Three lines for each pair, put in order of the pairs' numbers."""
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
"""Where formats start to count that always start there."""

READERS: dict[str, Callable[[Sequence[str], str], LinkFile]] = {
    "pharaoh": _by_line("pharaoh", lambda line: make_gold(parse_pharaoh(line))),
    "talp": _by_line("talp", _parse_with("p", "?")),
    "question": _by_line("question", _parse_with("?", "p")),
    "naacl": _read_naacl,
    "giza": _read_giza,
    "jsonl": _by_line("jsonl", parse_jsonl),
}
"""The formats that are read, by name: lines of a file and what to call it, to its links."""

LINK_FORMATS = tuple(READERS)


def find_base(file: LinkFile, lengths: Sequence[tuple[int, int]] | None, swapped: bool, role: str = "") -> int:
    """Where a file starts to count, if it says so beyond doubt.

    It does if it has an index 0, if it is of a format that fixes it (NAACL and GIZA++ from 1, JSON from 0), if an
    index equals its sentence's length, or if it has no links at all.

    Args:
        file: the links.
        lengths: source and target words of each pair, where they are known.
        swapped: whether the file has the target side first.
        role: "gold" or "hyp", for the error.

    Raises:
        LinksError: the file leaves it in doubt, or contradicts itself; its remedy names what to set.
    """
    indices = list(file.indices())
    zero = 0 in indices
    if BASES.get(file.format) == 1:
        if zero:
            raise LinksError(
                f"index 0 in {file.format} format, which counts from 1", file=file.name, remedy=_count_from_0(role)
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
        what = "counts from 0 by its index 0 and from 1 by an index that equals its sentence's length"
        raise LinksError(what, file=file.name, remedy=_check_sides(role, swapped))
    if zero or at_length:
        return int(at_length)
    raise LinksError(
        f"no index 0 in {len(indices) // 2:,} links",
        file=file.name,
        remedy=Remedy(
            "does it count from 1? give {} (or {} if it does count from 0)",
            (Argument("base", 1, role), Argument("base", 0, role)),
        ),
    )


def _count_from_0(role: str) -> Remedy:
    advice = "give {} if this file does not, and take the links out if they mean NULL"
    return Remedy(advice, (Argument("base", 0, role),))


def _check_sides(role: str, swapped: bool) -> Remedy:
    advice = "is it of this text, are {} and {} in order, and is it "
    advice += "right to give {}" if swapped else "source first (else {})"
    advice += "? If all of that is so, give {} or 1, and {}"
    sides = Argument("source"), Argument("target"), Argument("swapped", True, role)
    return Remedy(advice, (*sides, Argument("base", 0, role), Argument("out_of_range", "ignore")))


def renumber_file(file: LinkFile, base: int, swapped: bool) -> list[Gold]:
    """All links of a file as (source, target) from 0.

    Raises:
        LinksError: an index is below the base; names file and line.
    """

    def convert(pair: Gold) -> Gold:
        return Gold(renumber(pair.sure, base, swapped), renumber(pair.possible, base, swapped))

    renumbered = []
    for line, pair in zip(file.lines, file.pairs, strict=True):
        try:
            renumbered.append(convert(pair))
        except ValueError as error:
            raise LinksError(str(error), file=file.name, line=line) from None
    return renumbered
