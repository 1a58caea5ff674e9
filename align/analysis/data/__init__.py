"""Readers of the data sets for analyses: treebanks, chunks, pronouns, texts with keyphrases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from align.core.errors import DataError


def blocks(lines: Iterable[str], name: str, closed: bool = False) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines between blank lines, a list for each sentence; `closed`: one is last."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        if line.strip(" \t"):
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block and closed:
        hint = "each sentence ends with a blank line; is the file complete?"
        raise DataError("the file ends within a sentence", file=name, line=block[-1][0], hint=hint)
    if block:
        yield block
