"""Read two files of links, one for each direction, together, and check that they match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from align.core.types import Gold, Links
from align.evaluation.link_files import at_line
from align.evaluation.link_formats import OTHER_READINGS, parse_jsonl, parse_marked, renumber
from align.io.reader import in_step


class Better(NamedTuple):
    """Another reading of the reverse file that has clearly more links in common with the forward file.

    Attributes:
        reading: a key of `align.evaluation.link_formats.OTHER_READINGS`.
        as_read: number of links in common as the files were read.
        otherwise: number of links in common with this reading.
    """

    reading: str
    as_read: int
    otherwise: int


def read_two(
    forward: Iterable[str], reverse: Iterable[str], names: tuple[str, str], *, swapped: bool = False
) -> Iterator[tuple[Links, Links]]:
    """Read the links of both directions of each pair, as (source, target); possible links count as links.

    Args:
        forward: lines of Pharaoh, talp or JSON.
        swapped: whether `reverse` has the target side first.

    Raises:
        DataError: the files differ in length; gives the number of lines of each.
        LinksError: a line does not hold links; names file and line.
    """
    for line, texts in enumerate(in_step((forward, reverse), names), 1):
        links = [at_line(name, line, _parse, text).possible for name, text in zip(names, texts, strict=True)]
        yield links[0], renumber(links[1], swapped=swapped)


def better_readings(pairs: Sequence[tuple[Links, Links]], factor: float = 1.5, more: int = 10) -> list[Better]:
    """Return other readings of the reverse file that have clearly more links in common with the forward file.

    Args:
        factor: a reading is better if it has more than `factor` times the links in common,
        more: and more than this many links on top of that.
    """
    as_read = sum(len(forward & reverse) for forward, reverse in pairs)
    counts = {
        name: sum(len(forward & read(reverse)) for forward, reverse in pairs) for name, read in OTHER_READINGS.items()
    }
    return [Better(name, as_read, count) for name, count in counts.items() if count > factor * as_read + more]


def _parse(line: str) -> Gold:
    return parse_jsonl(line) if line.startswith("{") else parse_marked(line)
