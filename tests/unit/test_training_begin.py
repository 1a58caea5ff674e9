"""The weights that training begins with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from align.models.fairseq.dictionary import SPECIAL, Dictionary
from align.training.begin import save_start, transplant
from align.training.recipe import Start

ENCODER, DECODER, PROJECTION = (
    "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight",
)  # fmt: skip


def dictionary(pieces: list[str]) -> Dictionary:
    return Dictionary([*SPECIAL, *pieces], [1] * (len(SPECIAL) + len(pieces)))


PIECES = st.lists(st.sampled_from(["a", "b", "c", "d", "</s>", "<pad>"]), max_size=6, unique=True)


@given(PIECES, PIECES, st.integers(0, 2**31))
def test_pieces_that_both_have_keep_their_vectors_and_others_get_new_ones(
    old: list[str], new: list[str], seed: int
) -> None:
    table = torch.arange(4.0 + len(old))[:, None].expand(-1, 3).half()  # a vector says which row it was
    vectors = transplant(table, dictionary(old), dictionary(new), seed)
    assert vectors.shape == (4 + len(new), 3)
    assert vectors.dtype == torch.half
    assert torch.equal(vectors[:4], table[:4])  # special symbols, not words that look like them
    for row, piece in enumerate(new, 4):
        same = bool((vectors[row] == vectors[row, 0]).all())
        assert same == (piece in old)
        if piece in old:
            assert vectors[row, 0] == 4 + old.index(piece)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A model whose target is to be of another language; it has no weights yet."""
    paths = [tmp_path / f"dict.{language}.txt" for language in ("de", "en", "fr")]
    for path, pieces in zip(paths, ("ab", "cde", "dex"), strict=True):
        path.write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    return Start("x", ("de", "en"), tmp_path / "checkpoint.pt", (paths[0], paths[1]), (tmp_path / "de.spm", None))


def begin(start: Start, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that training to French would begin with."""
    torch.save({"model": weights, "cfg": {}}, start.checkpoint)
    path, said = start.checkpoint.with_name("start.pt"), list[str]()
    save_start(start, (start.dictionaries[0], start.checkpoint.with_name("dict.fr.txt")), 1, path, said.append)
    assert said == ["2 of 3 new pieces are in dict.en.txt, too, and keep their vectors"]
    state: dict[str, dict[str, Tensor]] = torch.load(path)
    return state["model"]


@pytest.mark.parametrize("last", [None, PROJECTION, "decoder.embed_out"])
@pytest.mark.parametrize("tied", [True, False])
def test_reading_and_predicting_get_the_new_language(start: Start, last: str | None, tied: bool) -> None:
    source, target, other = torch.rand(6, 2), torch.rand(7, 2), torch.rand(7, 2)
    weights = {ENCODER: source, DECODER: target, **({last: target if tied else other} if last else {})}
    begun = begin(start, weights)
    assert begun.keys() == weights.keys()
    assert torch.equal(begun[ENCODER], source)
    for name in weights.keys() - {ENCODER}:
        kept = [0, 1, 2, 3, 5, 6]  # special symbols, d and e
        assert torch.equal(begun[name][:6], weights[name][kept])
        assert begun[name].shape == (7, 2)
        assert not (begun[name][6] == weights[name]).all(1).any()
    if last:
        assert torch.equal(begun[last], begun[DECODER]) == tied
