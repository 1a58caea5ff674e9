"""Sentences with their dependency trees, from CoNLL-U (universaldependencies.org/format.html).

Words are syntactic words: for a multiword token, e.g. `am` in line `3-4`, its words `an` and `dem` count. Empty nodes,
e.g. line `8.1`, are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from align.analysis.data import blocks
from align.core.errors import DataError, LineError, shorten
from align.core.types import Pair
from align.io.reader import open_lines, read_lines

ROOT = -1  # the head of a word without a head


class Tree(NamedTuple):
    """A sentence and its tree."""

    words: tuple[str, ...]  # forms; a space within a form is replaced with a no-break space
    tags: tuple[str, ...]  # universal parts of speech, UPOS
    heads: tuple[int, ...]  # head of each word, from 0; ROOT for words without one
    relations: tuple[str, ...]  # relations to heads, DEPREL, with their subtypes
    line: int  # line number of the first word

    def pair(self) -> Pair:
        """Return the input of an encoder."""
        return Pair(self.words, (), self.line)


def read_treebank(file: str, limit: int | None = None) -> list[Tree]:
    """Read the sentences of a file."""
    with open_lines(file) as stream:
        trees = list(islice(read_conllu(read_lines(stream, file), file), limit))
    if not trees:
        raise DataError("no sentence", file=file)
    return trees


def read_conllu(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the sentences of a treebank."""
    for block in blocks(lines, name, closed=True):
        rows: list[tuple[int, str, str, int, str]] = []  # line, word, tag, head and relation
        for number, line in block:
            if line.startswith("#"):
                continue
            fields = line.split("\t")
            if len(fields) != 10:
                raise LineError(f"{len(fields)} TAB-separated columns, but CoNLL-U has 10", file=name, line=number)
            ordinal, word, _, tag, _, _, head, relation = fields[:8]
            if re.fullmatch("[0-9]+[-.][0-9]+", ordinal):  # a multiword token, or an empty node
                continue
            if ordinal != str(len(rows) + 1):
                message = f"word {shorten(ordinal, 40)!r} where word {len(rows) + 1} should follow"
                raise LineError(message, file=name, line=number)
            if not word or relation in ("", "_") or not re.fullmatch("[0-9]{1,9}", head):
                got = shorten("\t".join((word, head, relation)), 40)
                message = (
                    f"word {ordinal}: expected a form (FORM), the number of its head (HEAD) and DEPREL; got {got!r}"
                )
                raise LineError(message, file=name, line=number)
            rows.append((number, word.replace(" ", "\xa0"), tag, int(head) - 1, relation))
        if not rows:
            continue
        numbers, words, tags, heads, relations = zip(*rows, strict=True)
        for n, number in enumerate(numbers):
            node, steps = n, 0
            while ROOT < node < len(rows) and steps <= len(rows):
                node, steps = heads[node], steps + 1
            if node != ROOT:
                message = f"the heads of word {n + 1} and of those above it do not lead to a root, whose head is 0"
                raise LineError(message, file=name, line=number)
        yield Tree(words, tags, heads, relations, numbers[0])
