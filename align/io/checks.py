"""Check texts before a model is loaded: their first lines, and that parallel files have as many lines.

Only regular files are checked, which can be read twice; pipes and stdin are checked as they are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from itertools import islice

from align.core.types import Pair
from align.io.compression import DAMAGED
from align.io.reader import Input, Text, differ, name_shown, open_lines, regular_file

FIRST_LINES = 10_000  # lines to read; later ones are checked as they are aligned

COUNTED_BYTES = 1 << 29
"""Bytes of a file in which lines are counted, after decompression; larger files are not compared."""


def open_text(source: Input) -> closing[Text]:
    """Open the input for a context, after its checks; see `Text`."""
    if are_regular(source.files):
        with closing(Text(source)) as text:
            check_first(text)
        if source.parallel:
            check_lengths(source.files)
    return closing(Text(source))


def are_regular(names: Iterable[str]) -> bool:
    """Check that all inputs are regular files."""
    return all(name != "-" and regular_file(name) for name in names)


def check_first(pairs: Iterable[Pair]) -> None:
    """Read the first lines, or 64 MiB of them, without warnings: these come when the lines are read again."""
    size = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for pair in islice(pairs, FIRST_LINES):
            size += pair.memory()
            if size > 1 << 26:
                break


def check_lengths(names: Sequence[str]) -> None:
    """Compare the numbers of lines of files; large ones are left out, and damaged ones, which fail later."""
    counts: list[tuple[str, int]] = []
    for name in names:
        lines = size = 0
        last = b""
        with suppress(OSError, *DAMAGED), open_lines(name) as stream:
            while (block := stream.read(1 << 20)) and size <= COUNTED_BYTES:
                last = block
                lines += block.count(b"\n")
                size += len(block)
            if size <= COUNTED_BYTES:
                counts.append((name_shown(name), lines + bool(last and not last.endswith(b"\n"))))
    for other in counts[1:]:
        if other[1] != counts[0][1]:
            raise differ(counts[0], other)
