"""The engine's beam search, beside fairseq's and beside a search that computes every step anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from align import Search, load
from align.core.types import Pair
from align.models.engine.linear import Linear, make_linear
from align.models.engine.search import BeamSearch
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import BUNDLED
from tests.conftest import example_pairs


def output_layer(name: str) -> Linear:
    weights = load_checkpoint(BUNDLED / name / "checkpoint.pt")["model"]
    return make_linear(weights["decoder.embed_tokens.weight"].float(), None)


@pytest.mark.parametrize(
    "search", [Search(beam=1), Search(), Search(beam=3, length_penalty=0.6, max_len_b=5, max_len_a=0)]
)
def test_translations_are_fairseqs(search: Search) -> None:
    pytest.importorskip("fairseq")
    recorder: Any = load("de-en").forward.recorder
    ours = BeamSearch(recorder.transformer, output_layer("de-en"), recorder.start, 2, [recorder.pad], search)
    theirs = recorder.translator(search, 4000)
    for pair in example_pairs()[:25]:
        ids = recorder.encode(Pair(pair.source, (), 1)).source
        longest = int(search.max_len_a * len(ids) + search.max_len_b)
        (found,) = ours(torch.tensor([ids]), longest)
        (expected,) = theirs([ids])
        assert theirs._detokenize([theirs._dictionary[n] for n in found]) == expected


def test_sentences_of_a_batch_do_not_depend_on_each_other() -> None:
    recorder: Any = load("de-en").forward.recorder
    find = BeamSearch(recorder.transformer, output_layer("de-en"), recorder.start, 2, [recorder.pad], Search(beam=4))
    encoded = [recorder.encode(Pair(pair.source, (), 1)).source for pair in example_pairs()]
    length = max({*map(len, encoded)}, key=lambda length: sum(len(ids) == length for ids in encoded))
    sources = [ids for ids in encoded if len(ids) == length]
    assert len(sources) > 2
    assert find(torch.tensor(sources), 40) == [find(torch.tensor([ids]), 40)[0] for ids in sources]
