"""Sentences with their dependency trees, from CoNLL-U (universaldependencies.org/format.html).

Words are syntactic words: for a multiword token, e.g. `am` in line `3-4`, its words `an` and `dem` count. Empty nodes,
e.g. line `8.1`, are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from align.core.errors import DataError, LineError, shorten
from align.core.types import Pair
from align.io.reader import open_lines, read_lines

ROOT = -1
"""The head of a word without a head."""

_OTHER = re.compile(r"([0-9]{1,9})-([0-9]{1,9})|[0-9]+\.[0-9]+")
"""The numbers of multiword tokens and of empty nodes."""


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


_Row = tuple[int, str, str, int, str]
"""Line, word, tag, head and relation."""


def read_conllu(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the sentences of a treebank.

    Raises:
        LineError: a line is not in CoNLL-U, or heads do not form a tree; names the file and the line.
        DataError: the file ends within a sentence.
    """
    rows: list[_Row] = []
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            if not line.strip(" \t"):
                if rows:
                    yield _tree(rows)
                rows = []
            elif row := _row(line, number, len(rows) + 1):
                rows.append(row)
        except ValueError as error:
            at = error.line if isinstance(error, LineError) else number
            raise LineError(getattr(error, "what", str(error)), file=name, line=at) from None
    if rows:
        hint = "each sentence ends with a blank line; is the file complete?"
        raise DataError("the file ends within a sentence", file=name, line=number, hint=hint)


def read_treebank(file: str, limit: int | None = None) -> list[Tree]:
    """Read the sentences of a file; see `read_conllu`."""
    with open_lines(file) as stream:
        trees = list(islice(read_conllu(read_lines(stream, file), file), limit))
    if not trees:
        raise DataError("no sentence", file=file)
    return trees


def _row(line: str, number: int, expected: int) -> _Row | None:
    """Parse a word; return None for a comment, a multiword token or an empty node."""
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != 10:
        raise ValueError(f"{len(fields)} columns between TABs, where CoNLL-U has 10")
    ordinal, word, _, tag, _, _, head, relation = fields[:8]
    if skipped := _OTHER.fullmatch(ordinal):
        if skipped[1] and not int(skipped[1]) == expected <= int(skipped[2]):
            raise ValueError(f"token {ordinal} does not begin with the word that follows, {expected}")
        return None
    if ordinal != str(expected):
        raise ValueError(f"word {shorten(ordinal, 40)!r} where word {expected} should follow")
    if not word or not relation or relation == "_":
        raise ValueError(f"word {ordinal} has no {'relation (DEPREL)' if word else 'form'}")
    if not re.fullmatch("[0-9]{1,9}", head):
        raise ValueError(f"the head of word {ordinal} is {shorten(head, 40)!r}, not a number of a word")
    return number, word.replace(" ", "\xa0"), tag, int(head) - 1, relation


def _tree(rows: Sequence[_Row]) -> Tree:
    """Build a tree, and check that every word leads to a root."""
    lines, words, tags, heads, relations = zip(*rows, strict=True)
    for n, (line, head) in enumerate(zip(lines, heads, strict=True), 1):
        if head >= len(rows):
            raise LineError(f"the head of word {n} is {head + 1}: the sentence has {len(rows)} words", line=line)
    if ROOT not in heads:
        raise LineError("the sentence has no root: no word's head is 0", line=lines[0])
    rooted = {ROOT}
    for n, line in enumerate(lines):
        path: set[int] = set()
        while n not in rooted:
            if n in path:
                raise LineError(f"word {n + 1} is its own head, directly or by way of others", line=line)
            path.add(n)
            n = heads[n]
        rooted |= path
    return Tree(words, tags, heads, relations, lines[0])
