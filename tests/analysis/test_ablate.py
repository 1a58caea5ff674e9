"""Masked models against saved ones, losses and importance against naive code, planted heads, and the statistics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from align import Aligner, Gold, Pair, load
from align.analysis.ablation import Ablation, bleu_scores, by_layer, loss_change, pruning_order, report, study
from align.analysis.models.heads import (
    AttentionBlock,
    AttentionHead,
    attention_blocks,
    gate_heads,
    masked,
    without_heads,
)
from align.analysis.models.native import own_model, sentence_losses
from align.analysis.recording import Inside
from align.core.scores import collate
from align.core.types import PARTS, Pieces, Search
from align.models.fairseq.architecture import attention_of
from tests import hugging, toy

TEXT = [("das haus ist alt", "the house is old"), ("wir sehen", "we see it"), ("haus und haus .", "house and house .")]
PAIRS = [Pair(tuple(a.split()), tuple(b.split()), n) for n, (a, b) in enumerate(TEXT, 1)]
GOLD = [Gold(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 2)})) for _ in TEXT]
HEADS = [AttentionHead("encoder", 1, 2), AttentionHead("decoder", 2, 3), AttentionHead("cross", 2, 1)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Aligner:
    return load(str(toy.save_trained_model(tmp_path_factory.mktemp("trained"))), device="cpu", too_long="blank")


def hugging_aligner(kind: str, folder: Path, **more: Any) -> Aligner:
    hugging.save_model(kind, folder, **more)
    return load(str(folder), device="cpu", options=hugging.options(kind))


def pieces_of(recorder: Any) -> list[Pieces]:
    return [recorder.encode(pair) for pair in PAIRS]


def naive_loss(recorder: Any, pieces: Pieces) -> float:
    """A sentence by itself, a step at a time."""
    module = own_model(recorder)
    of_fairseq = hasattr(module, "get_normalized_probs")
    end = 2 if of_fairseq else module.config.eos_token_id
    total = 0.0
    for n, wanted in enumerate([*pieces.target, end]):
        source, steps = torch.tensor([pieces.source]), torch.tensor([[*recorder.start, *pieces.target[:n]]])
        if of_fairseq:
            logits = module(source, torch.tensor([len(pieces.source)]), steps)[0]
        else:
            logits = module(input_ids=source, decoder_input_ids=steps, use_cache=False).logits
        total -= float(logits[0, -1].double().log_softmax(-1)[wanted])
    return total


@pytest.mark.parametrize("kind", ["fairseq", "marian", "mbart-50", "fsmt", "t5"])
def test_losses_are_those_of_each_step(kind: str, tmp_path: Path) -> None:
    aligner = load(str(toy.save_model(tmp_path))) if kind == "fairseq" else hugging_aligner(kind, tmp_path)
    found = sentence_losses(aligner.forward.recorder, pieces_of(aligner.forward.recorder))  # type: ignore[arg-type]
    expected = [naive_loss(aligner.forward.recorder, pieces) for pieces in pieces_of(aligner.forward.recorder)]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def assert_same_attention(one: Any, other: Any, recorder: Any) -> None:
    source, steps = recorder.padded(collate(pieces_of(recorder), recorder.pad))
    for found, expected in zip(
        Inside(one).record(source, steps, PARTS), Inside(other).record(source, steps, PARTS), strict=True
    ):
        assert (found.part, found.layer) == (expected.part, expected.layer)
        torch.testing.assert_close(found.weights, expected.weights)
        torch.testing.assert_close(found.vectors, expected.vectors)


@pytest.mark.parametrize("shape", ["post-norm", "pre-norm", "wider encoder", "scaled parts"])
def test_what_is_read_is_the_masked_module(shape: str, toy_recorder: Callable[..., Any]) -> None:
    recorder = toy_recorder(toy.SHAPES[shape])
    module, whole = own_model(recorder), recorder.transformer
    with masked(attention_blocks(module), HEADS):
        expected = toy_recorder(toy.SHAPES[shape], model=module).transformer
        if shape == "post-norm":
            assert_same_attention(attention_of(module, name="").transformer, expected, recorder)
    assert_same_attention(gate_heads(whole, HEADS), expected, recorder)
    with without_heads(recorder, attention_blocks(module), HEADS):
        assert_same_attention(recorder.transformer, expected, recorder)
        assert attention_blocks(module)[0].columns[:, 1].abs().max() == 0
    assert recorder.transformer is whole


@pytest.mark.parametrize("kind", ["marian", "t5"])
def test_what_is_read_is_the_masked_module_of_transformers(kind: str, tmp_path: Path) -> None:
    def fill(kind: str, model: Any) -> None:
        hugging.randomise(kind, model)
        for block in attention_blocks(model):
            for head in HEADS:
                if head[:2] == (block.part, block.layer):
                    block.columns[:, head.head - 1] = 0

    recorder: Any = hugging_aligner(kind, tmp_path / "whole").forward.recorder
    expected: Any = hugging_aligner(kind, tmp_path / "masked", fill=fill).forward.recorder
    assert_same_attention(gate_heads(recorder.transformer, HEADS), expected.transformer, recorder)


def test_importance_is_of_finite_differences(tmp_path: Path) -> None:
    aligner = hugging_aligner("marian", tmp_path)
    ablation = Ablation(aligner, PAIRS)
    own_model(ablation.recorder).double()
    step, expected = 1e-5, []
    for block in ablation.blocks:
        for n in range(block.heads):
            kept, losses = block.columns[:, n].clone(), []
            for gate in (1 + step, 1 - step):
                block.columns[:, n] = gate * kept
                each = [sentence_losses(ablation.recorder, [pieces]) for pieces in pieces_of(aligner.forward.recorder)]
                losses.append(torch.cat(each))
            block.columns[:, n] = kept
            expected.append(float((losses[0] - losses[1]).abs().sum() / (2 * step)) / ablation.pieces.sum())
    assert ablation.importance() == pytest.approx(expected, rel=1e-5)
    assert min(expected) > 1e-3


def test_a_head_that_does_nothing_is_pruned_first(tmp_path: Path) -> None:
    model, _ = toy.build_model({}, toy.SOURCE_WORDS, toy.TARGET_WORDS)
    idle = AttentionHead("cross", 1, 3)
    for block in attention_blocks(model):
        if (block.part, block.layer) == idle[:2]:
            block.columns[:, 2] = 0
    ablation = Ablation(load(str(toy.save_model(tmp_path, model=model)), device="cpu"), PAIRS, GOLD)
    ticks: list[tuple[int, int]] = []
    found = study(ablation, PARTS, lambda *of: ticks.append(of))
    n = found.heads.index(idle)
    assert found.importance[n] == 0
    assert np.array_equal(found.masked[n].losses, found.whole.losses)
    assert found.masked[n].counts is not None
    np.testing.assert_array_equal(found.masked[n].counts, found.whole.counts)
    assert found.importance[np.arange(len(found.heads)) != n].min() > 0
    assert found.curves["by importance"][0][0] == idle
    assert [head.part for head, _ in found.curves["cross"]] == ["cross"] * 6
    assert found.curves["cross"][0][0] == idle
    assert ticks[-1] == (len(ticks), len(ticks))
    # curves end with one head in each layer; measured again, all is as before
    assert {len(found.curves[name]) for name in ("by importance", "by effect")} == {18}
    head, measured = found.curves["by effect"][0]
    assert np.array_equal(measured.losses, found.masked[found.heads.index(head)].losses)
    again = ablation.measure()
    assert np.array_equal(again.losses, found.whole.losses)
    np.testing.assert_array_equal(again.counts, found.whole.counts)


def test_tables_of_a_worse_head(trained: Aligner) -> None:
    """Masked heads whose links lack half of the sure ones."""
    translator = trained.forward.recorder.translator(Search(beam=1), 100)
    ablation = Ablation(trained, [*PAIRS, Pair((), (), 4)], [*GOLD, GOLD[0]], translator, 2)
    found = study(ablation, [PARTS[2]])
    assert [len(one.translations) for one in (found.whole, *found.masked)] == [2] * 5
    assert found.whole.translations[0] == "the house is old"
    assert found.whole.counts is not None
    assert len(found.whole.counts) == 4
    right, worse = np.array([[2, 2, 2, 2]] * 30), np.array([[1, 1, 2, 2], [2, 2, 2, 2]] * 15)
    found.whole = found.whole._replace(counts=right)
    found.masked[0] = found.masked[0]._replace(counts=worse, rechosen=None)
    for n, measured in enumerate(found.masked[1:], 1):
        found.masked[n] = measured._replace(counts=right, rechosen=right)
    found.alone = [measured._replace(counts=right) for measured in found.alone]
    tables = report(ablation, found, 1000, 1).tables
    first, *others = tables["heads"].rows
    assert first["aer"] == pytest.approx(25)
    assert float(str(first["aer_p"])) < 0.01
    assert [row["aer"] for row in others] == [0] * len(others)
    assert first["anew"] is None
    assert "AER is higher (p < 0.05) without: cross 1.1" in tables["agreement"].notes


def blocks_of(*heads: int) -> list[AttentionBlock]:
    return [AttentionBlock("cross", n + 1, count, None) for n, count in enumerate(heads)]


def test_orders_of_pruning() -> None:
    order = pruning_order(blocks_of(2, 3), [1, 0, 5, 3, 4])
    assert [head[1:] for head in order] == [(1, 2), (2, 2), (2, 3)]  # each layer keeps one
    shares = by_layer(blocks_of(2, 1, 2), np.array([3.0, 4.0, 7.0, 0.0, 0.0]))
    assert shares.tolist() == pytest.approx([0.6, 0.8, 1, 0, 0])


def test_changes_of_loss() -> None:
    numbers = np.random.default_rng(1)
    whole, pieces = numbers.uniform(10, 20, 400), numbers.integers(5, 15, 400)
    noise = numbers.normal(0, 1, 400)
    value, ends = loss_change(whole + 0.5 * pieces + noise, whole, pieces, 2000, 1)
    assert value == pytest.approx((0.5 * pieces + noise).sum() / pieces.sum())
    error = 1.96 * np.sqrt(400) / pieces.sum()  # of the normal approximation
    assert ends == pytest.approx((value - error, value + error), abs=error / 5)
    assert loss_change(whole, whole, pieces, 0, 1) == (0, None)


def test_changes_of_bleu() -> None:
    references = [f"a b c d {n} e f" for n in range(30)]
    worse = [line.replace("e", "x") if n % 2 else line for n, line in enumerate(references)]
    score, ((same, _), (other, p)), sign = bleu_scores(references, [references, worse], references, 100)
    assert (score, same) == pytest.approx((100, 0))
    assert other < -5
    assert p is not None
    assert p < 0.05
    assert "bs:100" in sign
    assert "case:lc" in sign
    _, (plain,), _ = bleu_scores(references, [worse], references, 0)
    assert plain == (pytest.approx(other), None)
