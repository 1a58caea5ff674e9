"""Split a line into fields: source and target at their separator, or selected columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

RUNNING_NUMBER = re.compile(r"([0-9]{1,9})\t")
"""The beginning of a line with its number."""


class SideSplitter:
    """Splits the lines of one file into source and target, all at the separator of the first line that has one.

    Attributes:
        separator: `|||` or TAB; None before the first line with a separator.
    """

    def __init__(self) -> None:
        self.separator: str | None = None

    def __call__(self, line: str) -> tuple[str, str]:
        """Split a line; a line of spaces has two blank sides.

        Raises:
            ValueError: the line has no separator, another one than previous lines, or more than one.
        """
        if not line.strip(" \t"):
            return "", ""
        by_bars, by_tab = line.split("|||"), line.split("\t")
        if "||||" in line:
            raise ValueError("more than three bars in a row, where ||| is between source and target")
        if len(by_bars) == 2 and RUNNING_NUMBER.match(line) and by_bars[0].partition("\t")[2].strip(" \t"):
            raise ValueError("a number and a TAB before source ||| target: `cut -f 2-` removes them")
        if len(by_bars) > 1 and any("\t" in side.strip(" \t") for side in by_bars):
            if self.separator == "|||":
                raise ValueError("a TAB in it, where ||| is between source and target")
            raise ValueError("both ||| and TAB, of which one has to be the separator")
        separator = "|||" if len(by_bars) > 1 else "\t" if len(by_tab) > 1 else None
        labels = {"|||": "|||", "\t": "TAB"}
        if not separator:
            raise ValueError("no ||| and no TAB between source and target")
        if self.separator and separator != self.separator:
            before = labels[self.separator]
            raise ValueError(f"{labels[separator]} between source and target, where the lines before have {before}")
        sides = line.split(separator)
        if len(sides) != 2:
            raise ValueError(f"{len(sides)} fields between {labels[separator]}, where source and target make 2")
        self.separator = separator
        return sides[0], sides[1]


def parse_columns(line: str, columns: Sequence[int]) -> tuple[str, ...]:
    """Return selected columns of a TAB-separated line; a line of spaces and TABs has blank ones.

    Raises:
        ValueError: the line has too few columns.
    """
    if not line.strip(" \t"):
        return ("",) * len(columns)
    fields = line.split("\t")
    if len(fields) < max(columns):
        raise ValueError(f"no column {max(columns)}: cut at TAB the line has {len(fields)}")
    return tuple(fields[column - 1] for column in columns)
