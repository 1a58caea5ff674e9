"""Pairs cut into pieces for a statistical aligner, and links of pieces brought back to words."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from align.baselines.tools import cut_pairs, join_links
from align.core.types import Links, Pair, Pieces

SPECIAL = 7


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[list[tuple[Pair, Pieces]], list[tuple[Links, Links]]]:
    """Pairs with their pieces, some words without one, special ones around them; and links of the pieces."""
    text, links = [], []
    for number in range(1, 1 + draw(st.integers(0, 4))):
        sides = []
        for _ in range(2):
            counts = draw(st.lists(st.integers(0, 3), max_size=4))
            words = [word for word, count in enumerate(counts) for _ in range(count)]
            ids = draw(st.lists(st.integers(10, 30), min_size=len(words), max_size=len(words)))
            before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            sides.append(
                (
                    tuple(map(str, counts)),
                    [SPECIAL] * before + ids + [SPECIAL] * after,
                    [-1] * before + words + [-1] * after,
                )
            )
        (source, source_ids, source_words), (target, target_ids, target_words) = sides
        pieces = Pieces(source_ids, source_words, target_ids, target_words, (len(source), len(target)))
        text.append((Pair(source, target, number), pieces))
        kept = [sum(word >= 0 for word in words) for _, _, words in sides]
        every = [(i, j) for i in range(kept[0]) for j in range(kept[1])]
        some = st.frozensets(st.sampled_from(every)) if every else st.just(frozenset[tuple[int, int]]())
        links.append((draw(some), draw(some)))
    return text, links


def naive(links: Links, pieces: Pieces) -> Links:
    """Every pair of words, and whether any of their pieces are linked."""
    source = [word for word in pieces.source_words if word >= 0]
    target = [word for word in pieces.target_words if word >= 0]
    return frozenset(
        (i, j)
        for i in range(pieces.words[0])
        for j in range(pieces.words[1])
        if any(source[a] == i and target[b] == j for a, b in links)
    )


@given(cut_texts())
def test_words_are_linked_if_any_of_their_pieces_are(
    drawn: tuple[list[tuple[Pair, Pieces]], list[tuple[Links, Links]]],
) -> None:
    text, links = drawn
    pieces = {pair.id: some for pair, some in text}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words"
        cut = list(cut_pairs((pair for pair, _ in text), lambda pair: pieces[pair.id], path))
        joined = list(join_links(links, path))
    assert joined == [
        (naive(forward, some), naive(reverse, some)) for (forward, reverse), (_, some) in zip(links, text, strict=True)
    ]
    for (pair, some), of_pieces in zip(text, cut, strict=True):
        assert of_pieces.id == pair.id
        assert of_pieces.source == tuple(str(piece) for piece in some.source if piece != SPECIAL)
        assert of_pieces.target == tuple(str(piece) for piece in some.target if piece != SPECIAL)
    assert cut == list(cut_pairs((pair for pair, _ in text), lambda pair: pieces[pair.id]))
