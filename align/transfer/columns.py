"""Read and write sentences in columns, one word per line and a blank line after each sentence: CoNLL and CoNLL-U."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from align.core.errors import LineError, show_value
from align.core.text import split_words
from align.io.reader import in_step
from align.transfer.labels import OUT, read_bio

_ENTITY = "ner="
"""Prefix of a word's label in the last column of CoNLL-U, in either case."""


class Labelled(NamedTuple):
    """A sentence: its words, and the label of each."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


def _read_columns(line: str) -> tuple[str, str]:
    """Return the first and the last column, separated by TABs if there are any, else by spaces."""
    fields = [field.strip(" ") for field in line.split("\t")] if "\t" in line else split_words(line)
    if len(fields) < 2 or not fields[0]:
        raise ValueError("no word and label with a space or TAB between")
    return fields[0].replace(" ", "\xa0"), fields[-1]


_COMMENT = re.compile(r"#[ \t]*(?:id\b|\w+[ \t]*=)")


def _is_comment(line: str) -> bool:
    """Tell a comment before the first word of a sentence from the word `#` with its label."""
    if not line.startswith("#"):
        return False
    try:
        row = _read_columns(line)
        read_bio([row[1]])
    except ValueError:
        return True
    return _COMMENT.match(line) is not None


def _read_conllu(line: str) -> tuple[str, str] | None:
    """Return a word and the `NER=` of its last column; None for a comment, a multi-word token and an empty node."""
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != 10:
        raise ValueError(f"{len(fields)} columns between TABs, where CoNLL-U has 10")
    if not fields[0].isdigit():
        if not re.fullmatch(r"[0-9]+[-.][0-9]+", fields[0]):
            raise ValueError(f"{show_value(fields[0])} is not a number, nor one of several words or of an empty node")
        return None
    labels = [part[len(_ENTITY) :] for part in fields[9].split("|") if part.lower().startswith(_ENTITY)]
    return fields[1].replace(" ", "\xa0"), (*labels, OUT)[0]


_READERS: dict[str, Callable[[str], tuple[str, str] | None]] = {"bio": _read_columns, "conll": _read_conllu}

COLUMNS = tuple(_READERS)


def read_labelled(lines: Iterable[str], name: str, kind: str) -> Iterator[Labelled]:
    """Read the sentences of a file in columns; two blank lines have a sentence without words between them.

    In "bio", lines that begin with # before the first word of a sentence are comments, and skipped.

    Args:
        kind: "bio", whose first column is the word and whose last is its label, or "conll" for CoNLL-U.

    Raises:
        LineError: a line is invalid; names the file and the line.
    """
    rows: list[tuple[str, str]] = []
    number = begun = 0
    for number, line in enumerate(lines, 1):
        if line.strip(" \t"):
            begun = begun or number
            if kind == "bio" and not rows and _is_comment(line):
                continue
            try:
                if row := _READERS[kind](line):
                    read_bio([row[1]])
                    rows.append(row)
            except ValueError as error:
                raise LineError(str(error), "wrong fields", file=name, line=number) from None
        else:
            yield _sentence(rows, kind, name, number)
            rows, begun = [], 0
    if begun:
        yield _sentence(rows, kind, name, number)


def _sentence(rows: Sequence[tuple[str, str]], kind: str, name: str, line: int) -> Labelled:
    """Return the sentence that ends at a line."""
    if (
        kind == "bio"
        and len(rows) > 1
        and [word for word, _ in rows] in ([str(n) for n in range(first, first + len(rows))] for first in (0, 1))
    ):
        message = "the first column of the sentence that ends here is a running number, not the word"
        raise LineError(message, "wrong fields", file=name, line=line, hint="`cut -f 2-` removes the numbers")
    return Labelled(tuple(word for word, _ in rows), tuple(label for _, label in rows))


def pair_sentences(
    sentences: Iterable[Labelled], targets: Iterable[str], names: tuple[str, str]
) -> Iterator[tuple[Labelled, str]]:
    """Pair sentences with their translations.

    A sentence without words pairs with a blank line; if the next line is not blank, the sentence is skipped.

    Raises:
        DataError: they differ in number.
    """
    lines, ahead = iter(targets), list[str]()

    def with_words() -> Iterator[Labelled]:
        for sentence in sentences:
            if not sentence.words:
                ahead.extend(islice(lines, 1 - len(ahead)))
                if not ahead or ahead[0].strip(" \t"):
                    continue
            yield sentence

    def all_lines() -> Iterator[str]:
        while line := ahead or list(islice(lines, 1)):
            yield line.pop()

    return in_step((with_words(), all_lines()), names)


def format_labelled(sentence: Labelled, kind: str) -> str:
    """Return the lines of a sentence, each with its end, and the blank line after them."""
    rows = enumerate(zip(*sentence, strict=True), 1)
    if kind == "bio":
        lines = [f"{word}\t{label}\n" for _, (word, label) in rows]
    else:
        blank = "\t_" * 7
        lines = [f"{n}\t{word}{blank}\t{'_' if label == OUT else f'NER={label}'}\n" for n, (word, label) in rows]
    return "".join((*lines, "\n"))
