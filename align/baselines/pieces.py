"""Run statistical aligners on a model's pieces instead of words, and convert their links to words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from align.core.types import Links, Pair, Pieces

Cut = Callable[[Pair], Pieces]
"""Function that splits a pair into pieces, e.g. `Recorder.encode`."""


def of_words(ids: Sequence[int], words: Sequence[int]) -> tuple[tuple[str, ...], list[int]]:
    """Return the pieces of one side that are part of a word, as strings of their ids, and the word of each, from 0.

    `</s>`, languages and a prefix, whose word is below 0, are left out.
    """
    pieces = [(str(piece), word) for piece, word in zip(ids, words, strict=True) if word >= 0]
    return tuple(piece for piece, _ in pieces), [word for _, word in pieces]


def to_words(links: Links, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Convert links of pieces to words: two words are linked if any of their pieces are (Zenkel et al. 2020)."""
    return frozenset((source_words[i], target_words[j]) for i, j in links)


def cut_pairs(pairs: Iterable[Pair], cut: Cut, path: Path | None = None) -> Iterator[Pair]:
    """Yield pairs whose words are the pieces of the original pairs.

    Args:
        path: file for the words of each pair's pieces, one line per pair, for `join_links`; None for no such file.
    """
    with open(path or os.devnull, "w") as stream:
        for pair in pairs:
            encoded = cut(pair)
            source, source_words = of_words(encoded.source, encoded.source_words)
            target, target_words = of_words(encoded.target, encoded.target_words)
            stream.write(" ".join(map(str, source_words)) + "\t" + " ".join(map(str, target_words)) + "\n")
            yield Pair(source, target, pair.id)


def join_links(links: Iterable[tuple[Links, Links]], path: Path) -> Iterator[tuple[Links, Links]]:
    """Convert both directions' links of pieces to links of words.

    Args:
        links: links of each pair that `cut_pairs` has split.
        path: the file of words that it wrote.
    """
    with open(path) as stream:
        for (forward, reverse), line in zip(links, stream, strict=True):
            source, target = (list(map(int, side.split())) for side in line.split("\t"))
            yield to_words(forward, source, target), to_words(reverse, source, target)
