"""`eval/run.py positions`: rates are those of the library's own aligners; heads are what they are said to be."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Pair, load
from align.core.batching import encode
from align.core.merging import collate
from align.core.settings import PositionChoice
from align.core.types import Cell
from tests import corpora
from tests.eval.conftest import Result, read_table
from tests.eval.test_variants import rate

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def heads(door: Any) -> Any:
    return importlib.import_module("positions_heads")


def recorded(recorder: Any, pairs: list[Pair], layer: int) -> torch.Tensor:
    batch = collate([encode(recorder, pair).pieces for pair in pairs], recorder.pad)  # type: ignore[misc]
    (attention,) = recorder.record(batch, [layer])
    weights: torch.Tensor = attention.weights
    return weights


def test_rates_are_the_library_s_own(data: Path, command: Callable[..., Result]) -> None:
    options = ("--data", data, "--config", data / "experiments.toml", "--experiment", "toy")
    result = command("positions", *options, "--models", "models/two", "--pairs", "100")
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.positions.tsv")
    assert sign.startswith("# positions|fairseq:de-en@")
    assert sign[2:] in result.out
    changes = ("", ", copied head", ", copied head alone", ", trained head")
    models = [*("one" + change for change in changes), *("back" + change for change in changes), "two"]
    texts = [("gold", "60"), *((f"run {n}", size) for size in ("100", "200") for n in (1, 2))]
    assert [(row["model"], row["text"], row["pairs"]) for row in rows] == [(m, *text) for m in models for text in texts]
    text = corpora.word_by_word(360)[:60]
    positions: tuple[PositionChoice, ...] = ("input", "output", "both")
    for row in (row for row in rows if row["text"] == "gold" and "," not in row["model"]):
        pairs = [Pair(pair.target, pair.source, pair.id) for pair in text] if row["model"] == "back" else text
        for position in positions:
            aligner = load(data / "models" / row["model"], position=position, device="cpu")
            assert row[f"aer_{position}"] == rate(aligner(pairs))
        highest = max(positions, key=lambda position: float(row[f"consistency_{position}"]))
        assert row[f"consistency_{row['auto']}"] == row[f"consistency_{highest}"]


def test_a_copied_head_predicts_as_another_reads(data: Path, heads: Any) -> None:
    recorder = load(data / "models" / "one", device="cpu").forward.recorder
    pairs = corpora.word_by_word(5)
    read = recorded(recorder, pairs, 1)[:, 1, 1:]
    last = recorded(recorder, pairs, recorder.layers)
    copied = recorded(heads.Copied(recorder, Cell(1, 2), alone=False), pairs, recorder.layers)
    assert torch.equal(copied[:, 0, :-1], read)
    assert torch.equal(copied[:, 1:], last[:, 1:])
    alone = recorded(heads.Copied(recorder, Cell(1, 2), alone=True), pairs, recorder.layers)
    assert torch.equal(alone[:, 0, :-1], read)
    torch.testing.assert_close(alone[:, 1:].amax(-1), alone[:, 1:].sum(-1) / (alone[:, 1:] > 0).sum(-1))


def test_a_trained_head_attends_to_what_it_was_shown(data: Path, heads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "EPOCHS", 200)
    recorder = load(data / "models" / "one", device="cpu").forward.recorder
    pairs = corpora.word_by_word(200)
    links = [frozenset((0, j) for j in range(len(pair.target))) for pair in pairs]
    before = recorded(recorder, pairs[:1], recorder.layers)
    heads.train_head(recorder, pairs, links)
    after = recorded(recorder, pairs[:1], recorder.layers)
    assert after[0, 0, :-1, 0].mean() > before[0, 0, :-1, 0].mean() + 0.2
    torch.testing.assert_close(after[0, 1:], before[0, 1:])
