"""The log-probabilities of the search are those of fairseq and transformers, step by step."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Search, TextWarning, load
from align.analysis.models.native import log_probabilities, own_model
from align.core.types import Pair
from align.models.engine.forward import Padded
from tests import hugging, toy
from tests.conftest import example_pairs

pytestmark = pytest.mark.usefixtures("one_thread")


def forced(recorder: Any, sources: Sequence[Sequence[int]], target: Sequence[int]) -> torch.Tensor:
    """Log-probabilities of the search at each step of a translation of sources of one length `[B, T+1, V]`."""
    model = recorder.translator(Search(), 1000).find.model
    logits, states, kept = model.begin(torch.tensor(sources))
    steps = [logits]
    for step, piece in enumerate(target, 1):
        logits, states = model.advance(torch.full((len(sources),), piece), step, states, kept)
        steps.append(logits)
    return torch.stack(steps, 1).log_softmax(-1)


def assert_same(recorder: Any, module: Any, sources: Sequence[Sequence[int]], target: Sequence[int]) -> None:
    ids, steps = torch.tensor(sources), torch.tensor([[*recorder.start, *target]] * len(sources))
    expected = log_probabilities(
        module, *(Padded(side, torch.ones_like(side, dtype=torch.bool)) for side in (ids, steps))
    )
    found = forced(recorder, sources, target)
    torch.testing.assert_close(found, expected[:, len(recorder.start) - 1 :], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["de-en", "en-de"])
def test_log_probabilities_of_bundled_models_are_fairseqs(name: str) -> None:
    recorder: Any = load(name, device="cpu").forward.recorder
    pairs = [pair if name == "de-en" else Pair(pair.target, pair.source, pair.id) for pair in example_pairs()[:5]]
    for pieces in (recorder.encode(pair) for pair in pairs):
        assert_same(recorder, own_model(recorder), [pieces.source], pieces.target)


@pytest.mark.parametrize("shape", toy.SHAPES)
def test_log_probabilities_of_any_shape_are_fairseqs(shape: str, toy_recorder: Callable[..., Any]) -> None:
    recorder = toy_recorder(toy.SHAPES[shape])
    assert_same(recorder, own_model(recorder), [[4, 7, 5, 2], [6, 4, 4, 2]], [5, 8, 4, 4])


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_log_probabilities_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    module = hugging.save_model(kind, tmp_path)
    recorder: Any = load(tmp_path, options=hugging.options(kind)).forward.recorder
    sources = [recorder.encode(Pair(tuple(line.split()), (), 1)).source for line in ("das haus", "haus das")]
    assert_same(recorder, module.requires_grad_(False), sources, [7, 9, 5, 5, 11])


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_generation_settings(name: str, tmp_path: Path) -> None:
    """Single pieces that are never generated are followed; another search is told of."""
    hugging.save_model("marian", tmp_path)
    (tmp_path / "generation_config.json").unlink()

    def ids_with(**settings: Any) -> list[int]:
        path = tmp_path / name
        path.write_text(json.dumps({**(json.loads(path.read_text()) if name == "config.json" else {}), **settings}))
        recorder: Any = load(tmp_path).forward.recorder
        source = recorder.encode(Pair(("das", "haus"), (), 1)).source
        (ids,) = recorder.translator(Search(max_len_b=5), 1000).find(torch.tensor([source]), 5)
        return list(ids)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, *_ = ids_with(num_beams=4, no_repeat_ngram_size=0, bad_words_ids=None)
        for banned in ({"bad_words_ids": [[first]]}, {"suppress_tokens": [first], "bad_words_ids": None}):
            assert first not in ids_with(**banned)
    with pytest.warns(TextWarning, match=rf"{name}: no_repeat_ngram_size, bad_words_ids is not followed here"):
        ids_with(no_repeat_ngram_size=3, bad_words_ids=[[1, 2]], suppress_tokens=None)
