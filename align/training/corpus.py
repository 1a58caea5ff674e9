"""Selection of training pairs from a bitext: reads lazily, and counts skipped pairs by reason."""

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
    """Yield the pairs of two files with as many lines, and the label of each.

    Args:
        source: one sentence per line; `.gz` and `.xz` are unpacked.
        labels: one word per line, e.g. the pair's origin; without it all labels are "".

    Raises:
        DataError: the files differ in their number of lines, one cannot be decoded, or its lines start with running
            numbers; names file and line.
    """
    paths = [str(path) for path in (source, target, *([labels] if labels else []))]
    for lines in refuse_numbers(in_step([_lines(path) for path in paths], paths), paths[:2]):
        yield _words(lines[0]), _words(lines[1]), lines[2].strip() if labels else ""


def _words(line: str) -> Words:
    """Split a line into words, also at carriage returns, which other programs would treat as line ends."""
    return split_words(line.replace("\r", " "))


def _lines(path: str) -> Iterator[str]:
    with open_lines(path) as stream:
        yield from read_lines(stream, path, json_lines=False)


def _key(source: Words, target: Words) -> bytes:
    """Return a 16-byte digest of a pair that ignores case and spaces."""
    text = f"{''.join(source)}\t{''.join(target)}".lower()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Cleaner:
    """Selects the pairs to train on.

    Args:
        take: file-name patterns of the labels to take; empty takes all.
        exclude: pairs to skip, e.g. those of the test set.

    Attributes:
        dropped: number of pairs skipped, by reason.
        kept: number of pairs taken, by label.
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
        """Yield the pairs to train on, in order."""
        for source, target, label in pairs:
            if reason := self._reason(source, target, label):
                self.dropped[reason] += 1
            else:
                self.kept[label] += 1
                yield source, target

    def _reason(self, source: Words, target: Words, label: str) -> str:
        """Return the reason to skip a pair; "" to take it."""
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
