"""Which pairs of a bitext are worth training on: reads it lazily, and counts what is left out and why."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from align.core.text import split_words
from align.io.reader import in_step, open_lines, read_lines, refuse_numbers
from align.training.recipe import DataRecipe

Words = tuple[str, ...]


def read_pairs(source: Path, target: Path, labels: Path | None = None) -> Iterator[tuple[Words, Words, str]]:
    """Pairs of two files with as many lines, and the label of each.

    Args:
        source: one sentence a line; `.gz` and `.xz` are unpacked.
        target: its translations.
        labels: a word a line, such as where the pair is from; without it all labels are "".

    Raises:
        DataError: the files differ in their number of lines, one cannot be decoded, or its lines begin with a running
            number; says which and where.
        OSError: a file cannot be read.
    """
    paths = [str(path) for path in (source, target, *([labels] if labels else []))]
    for lines in refuse_numbers(in_step([_lines(path) for path in paths], paths), paths[:2]):
        yield _words(lines[0]), _words(lines[1]), lines[2].strip() if labels else ""


def _words(line: str) -> Words:
    """A line's words. A carriage return within it ends a word: other programs would take it for the line's end."""
    return split_words(line.replace("\r", " "))


def _lines(path: str) -> Iterator[str]:
    with open_lines(path) as stream:
        yield from read_lines(stream, path, json_lines=False)


def _key(source: Words, target: Words) -> bytes:
    """Sixteen bytes that stand for a pair among millions, the same whatever its case and spaces."""
    text = f"{''.join(source)}\t{''.join(target)}".lower()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Cleaner:
    """Tells which pairs to train on.

    Args:
        recipe: the limits.
        take: patterns, as for file names, of the labels to take; without any all are taken.
        exclude: pairs to leave out, such as those of the test set.

    Attributes:
        dropped: how many pairs were left out, by reason.
        kept: how many were taken, by label.
    """

    def __init__(
        self, recipe: DataRecipe, take: Sequence[str] = (), exclude: Iterable[tuple[Words, Words]] = ()
    ) -> None:
        self._recipe, self._take = recipe, take
        self._excluded = {_key(*pair) for pair in exclude}
        self._seen: set[bytes] = set()
        self.dropped: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()

    def __call__(self, pairs: Iterable[tuple[Words, Words, str]]) -> Iterator[tuple[Words, Words]]:
        """The pairs to train on, in their order."""
        for source, target, label in pairs:
            if reason := self._reason(source, target, label):
                self.dropped[reason] += 1
            else:
                self.kept[label] += 1
                yield source, target

    def _reason(self, source: Words, target: Words, label: str) -> str:
        """Why a pair is left out; "" if it is not."""
        recipe = self._recipe
        if self._take and not any(fnmatchcase(label, pattern) for pattern in self._take):
            return "label not taken"
        if not source or not target:
            return "a side is empty"
        short, long = sorted((len(source), len(target)))
        if long > recipe.max_words:
            return f"a side has more than {recipe.max_words} words"
        if long > recipe.max_ratio * short:
            return f"a side is more than {recipe.max_ratio:g} times as long as the other"
        key = _key(source, target)
        if key in self._excluded:
            return "in the validation or an excluded text"
        if key in self._seen:
            return "seen before"
        self._seen.add(key)
        return ""
