"""Statistical aligners on a model's pieces in place of words, and their links brought back to words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from align.core.types import Links, Pair, Pieces

Cut = Callable[[Pair], Pieces]
"""What cuts a pair into pieces, such as `Recorder.encode`."""


def of_words(ids: Sequence[int], words: Sequence[int]) -> tuple[tuple[str, ...], list[int]]:
    """The pieces of one side that are part of a word, written as their ids, and the word of each, from 0.

    `</s>`, languages and a prefix, whose word is below 0, are left out.
    """
    kept = [(str(piece), word) for piece, word in zip(ids, words, strict=True) if word >= 0]
    return tuple(piece for piece, _ in kept), [word for _, word in kept]


def to_words(links: Links, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Links of pieces as links of words: two words are linked if any of their pieces are (Zenkel et al. 2020)."""
    return frozenset((source_words[i], target_words[j]) for i, j in links)


def cut_pairs(pairs: Iterable[Pair], cut: Cut, path: Path | None = None) -> Iterator[Pair]:
    """Pairs of which each word is a piece.

    Args:
        pairs: the pairs.
        cut: what cuts them.
        path: gets a line for each pair, with the words of its pieces, for `join_links`; None for no such file.
    """
    with open(path or os.devnull, "w") as stream:
        for pair in pairs:
            found = cut(pair)
            source, source_words = of_words(found.source, found.source_words)
            target, target_words = of_words(found.target, found.target_words)
            stream.write(" ".join(map(str, source_words)) + "\t" + " ".join(map(str, target_words)) + "\n")
            yield Pair(source, target, pair.id)


def join_links(links: Iterable[tuple[Links, Links]], path: Path) -> Iterator[tuple[Links, Links]]:
    """Both directions' links of pieces as links of words.

    Args:
        links: of each pair that `cut_pairs` has cut.
        path: what it wrote of their words.
    """
    with open(path) as stream:
        for (forward, reverse), line in zip(links, stream, strict=True):
            source, target = (list(map(int, side.split())) for side in line.split("\t"))
            yield to_words(forward, source, target), to_words(reverse, source, target)
