"""The weights that training begins with."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from align.backends.fairseq.dictionary import Dictionary, parse_dictionary
from align.training.begin import transplant


def dictionary(pieces: list[str]) -> Dictionary:
    return parse_dictionary(f"{piece} 1\n" for piece in pieces)


PIECES = st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True)


@given(PIECES, PIECES, st.integers(0, 2**31))
def test_pieces_that_both_have_keep_their_vectors_and_others_get_new_ones(
    old: list[str], new: list[str], seed: int
) -> None:
    table = torch.arange(4.0 + len(old))[:, None].expand(-1, 3).half()  # a vector says which row it was
    vectors = transplant(table, dictionary(old), dictionary(new), seed)
    assert vectors.shape == (4 + len(new), 3)
    assert vectors.dtype == torch.half
    assert torch.equal(vectors[:4], table[:4])  # special symbols
    for row, piece in enumerate(new, 4):
        same = bool((vectors[row] == vectors[row, 0]).all())
        assert same == (piece in old)
        if piece in old:
            assert vectors[row, 0] == 4 + old.index(piece)


def test_new_vectors_are_spread_like_the_old_ones_and_depend_on_the_seed() -> None:
    pieces = [chr(0x4E00 + n) for n in range(2000)]
    table = 0.25 * torch.randn(1004, 16, generator=torch.Generator().manual_seed(0))
    known = dictionary(pieces[:1000])
    one, again, other = (transplant(table, known, dictionary(pieces[1000:]), seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one[4:], other[4:])
    torch.testing.assert_close(one[4:].std(), table.std(), rtol=0.02, atol=0)
