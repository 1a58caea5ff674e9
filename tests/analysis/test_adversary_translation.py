"""Cross-attention that moves: as the model itself has it, with gradients, and only through queries and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from align.analysis import adversary_translation
from align.analysis.adversary_translation import forced, loss_of, moved, recorded, run, train
from align.analysis.commands.questions import AdversaryTranslation
from align.analysis.models.native import own_model
from align.core.scores import collate
from align.core.stream import cut, encode
from align.core.types import Gold, Pair
from align.evaluation.sweep import SCORES
from align.models.fairseq.architecture import attention_of
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.models.recorder import ModelRecorder
from tests import toy
from tests.corpora import unrelated, word_by_word

pytestmark = pytest.mark.usefixtures("one_thread")

MakeRecorder = Callable[..., ModelRecorder]


@pytest.mark.parametrize("shape", ["post-norm", "pre-norm", "wider encoder", "scaled parts"])
def test_attention_and_predictions_are_the_models_own(toy_recorder: MakeRecorder, shape: str) -> None:
    recorder = toy_recorder(toy.SHAPES[shape])
    model = own_model(recorder)
    pairs = unrelated(9, 3)
    batches = forced(recorder, pairs, 1000)
    groups = cut([encode(recorder, pair) for pair in pairs], 1000)
    for batch, (_, pieces) in zip(batches, groups, strict=True):
        with recorded(model) as attention, torch.no_grad():
            (said, weights_read), (again, shares_read) = (run(model, batch, attention, kind) for kind in SCORES)
        assert torch.equal(said, again)
        own = list(recorder.record(collate(pieces, recorder.pad), [1, 2]))
        weights = torch.cat([layer.weights for layer in own], 1)  # [B, L H, T, S]
        expected = weights.permute(0, 2, 1, 3)[batch.mask]  # [N, L H, S]
        np.testing.assert_allclose(weights_read.exp(), expected, atol=2e-6)
        vectors = [torch.einsum("bhsd,hdo->bhso", layer.values, layer.out_proj).norm(dim=-1) for layer in own]
        norms = weights * torch.cat(vectors, 1)[:, :, None]
        shares = (norms / norms.sum(-1, keepdim=True)).permute(0, 2, 1, 3)[batch.mask]
        np.testing.assert_allclose(shares_read.exp(), shares, atol=2e-5)
        lengths = (batch.source != recorder.pad).sum(1)
        with torch.no_grad():
            expected = model(batch.source, lengths, batch.steps)[0].log_softmax(-1)[batch.mask]
        np.testing.assert_allclose(said, expected, atol=2e-5)
    assert not model.decoder.layers[0].encoder_attn._forward_hooks


def test_what_is_read_and_predicted(toy_recorder: MakeRecorder) -> None:
    recorder = toy_recorder()
    pairs = [Pair(("das", "haus"), ("the", "house", "is"), 1), Pair(("alt",), ("old",), 2), Pair((), (), 3)]
    (batch,) = forced(recorder, pairs, 1000)
    of = recorder.encode(pairs[0]).target, recorder.encode(pairs[1]).target
    assert sorted(batch.steps.tolist()) == sorted([[2, *of[0]], [2, *of[1], 1, 1]])
    assert sorted(batch.target.tolist()) == sorted([[*of[0], 2], [*of[1], 2, 1, 1]])
    model = own_model(recorder)
    total = 0.0
    for pair in pairs[:2]:
        pieces = recorder.encode(pair)
        source, steps = torch.tensor([pieces.source]), torch.tensor([[2, *pieces.target]])
        with torch.no_grad():
            said = model(source, torch.tensor([len(pieces.source)]), steps)[0].log_softmax(-1)[0]
        total -= float(sum(said[n, piece] for n, piece in enumerate((*pieces.target, 2))))
    assert loss_of(model, [batch]) == pytest.approx(total / 6, rel=1e-5)


def test_only_queries_and_keys_learn(toy_recorder: MakeRecorder) -> None:
    recorder = toy_recorder()
    original = own_model(recorder)
    before = {name: weight.clone() for name, weight in original.named_parameters()}
    batches = forced(recorder, unrelated(40, 1), 100)
    model = train(original, batches, AdversaryTranslation(updates=5), 1.0)
    assert all(torch.equal(weight, before[name]) for name, weight in original.named_parameters())
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert all(".encoder_attn.q_proj." in name or ".encoder_attn.k_proj." in name for name in changed)
    assert {name.split(".")[2] for name in changed} == {"0", "1"}
    again = train(original, batches, AdversaryTranslation(updates=5), 1.0)
    assert all(torch.equal(weight, again.get_parameter(name)) for name, weight in model.named_parameters())
    pieces = [recorder.encode(pair) for pair in unrelated(3, 2)]
    moved = recorder.with_transformer(attention_of(model, "moved").transformer)
    (here,) = moved.record(collate(pieces, recorder.pad), [1])
    (there,) = recorder.record(collate(pieces, recorder.pad), [1])
    assert not np.allclose(here.weights, there.weights, atol=1e-3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ModelRecorder:
    """A model that translates word by word."""
    torch.set_num_threads(1)
    checkpoint: Path = toy.save_trained_model(tmp_path_factory.mktemp("trained"))
    return load_fairseq(find_model(str(checkpoint), ModelOptions()))


def test_how_far_attention_moves(trained: ModelRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    pairs = word_by_word(160)
    links = [frozenset((n, n) for n in range(len(pair.source))) for pair in pairs[:20]]
    asked = AdversaryTranslation(lambdas=(0.0, 20.0), updates=40)
    monkeypatch.setattr(adversary_translation, "RATE", 1e-2)
    finding = moved(
        trained, pairs[:120], pairs[120:], pairs[:20], [Gold(one, one) for one in links], asked, told.append
    )
    rows: list[Any] = list(finding.tables["models"].rows)
    assert [row["model"] for row in rows] == ["original", "adversary 0", "adversary 20"]
    assert rows[0]["js_weight"] is None
    assert rows[1]["js_weight"] < 0.01 < 0.1 < rows[2]["js_weight"]
    assert rows[1]["loss"] == pytest.approx(rows[0]["loss"], abs=0.01)
    assert rows[2]["norm"] >= rows[0]["norm"]
    assert rows[0]["weight_lowest"] <= rows[0]["weight"]
    layers = finding.tables["layers"].rows
    assert [row["layer"] for row in layers] == [1, 1, 1]
    assert layers[2]["js_norm"] == pytest.approx(rows[2]["js_norm"])
    assert len(told) == 3
    assert finding.figures["aer"]().axes
