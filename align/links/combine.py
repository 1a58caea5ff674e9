"""Two files of links, one for each direction: reading them in step, and whether they look right together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from align.links.files import at_line
from align.links.formats import OTHER_READINGS, parse_jsonl, parse_marked, renumber
from align.text.lines import in_step
from align.types import Gold, Links


class Better(NamedTuple):
    """Another reading of the reverse file that has clearly more links in common with the forward file.

    Attributes:
        reading: a key of `align.links.formats.OTHER_READINGS`.
        given: links in common as the files were read.
        links: links in common with this reading.
    """

    reading: str
    given: int
    links: int


def read_two(
    forward: Iterable[str], reverse: Iterable[str], names: tuple[str, str], *, swapped: bool = False
) -> Iterator[tuple[Links, Links]]:
    """The links of both directions of each pair, as (source, target); possible links count as links.

    Args:
        forward: lines of Pharaoh, talp or JSON.
        reverse: the same for the other direction.
        names: what to call the two in errors.
        swapped: whether `reverse` has the target side first.

    Raises:
        DataError: files of different length; says how many lines each has.
        ValueError: a line that is not one of links; names file and line.
    """
    for line, texts in enumerate(in_step((forward, reverse), names), 1):
        links = [at_line(name, line, _parse, text).possible for name, text in zip(names, texts, strict=True)]
        yield links[0], renumber(links[1], swapped=swapped)


def better_readings(pairs: Sequence[tuple[Links, Links]], factor: float = 1.5, more: int = 10) -> list[Better]:
    """How else the reverse file may have been meant.

    Args:
        pairs: forward and reverse links of some sentence pairs.
        factor: only readings that multiply the links in common by more than this,
        more: and add more than so many to that.
    """
    given = sum(len(forward & reverse) for forward, reverse in pairs)
    counts = {
        name: sum(len(forward & read(reverse)) for forward, reverse in pairs) for name, read in OTHER_READINGS.items()
    }
    return [Better(name, given, links) for name, links in counts.items() if links > factor * given + more]


def _parse(line: str) -> Gold:
    return parse_jsonl(line) if line.startswith("{") else parse_marked(line)
