"""`eval/run.py variants` and `calibration`: the reference is the library's own, and so are its numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Aligner, Alignment, Direction, Pair, Settings, load, two_way
from align.core.types import Gold
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import aer, count_all
from tests.conftest import plain
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def text(data: Path) -> list[Pair]:
    sides = [(data / f"gold.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")]
    lines = zip(*sides, strict=True)
    return [Pair(tuple(de.split()), tuple(en.split()), n) for n, (de, en) in enumerate(lines, 1)]


@pytest.fixture
def models(data: Path) -> tuple[Aligner, Aligner]:
    one, back = (
        load(data / "models" / name, position="input", threshold=None, device="cpu") for name in ("one", "back")
    )
    return one, back


def rate(alignments: Iterable[Alignment]) -> str:
    """AER in percent against links of each word to the one in its place, as tables show it."""
    found = list(alignments)
    links = [frozenset((i, i) for i in range(len(alignment.pair.source))) for alignment in found]
    counts = count_all([alignment.links for alignment in found], [Gold(some, some) for some in links])
    return f"{100 * float(aer(counts.sum(0))):.1f}"


def settings_at(cell: str) -> Settings:
    """Those that read a cell, out of its `str()`."""
    layer, head = cell.split(", ")
    head = head.removeprefix("head ")
    return plain(layer=int(layer.removeprefix("layer ")), head="all" if head == "all heads" else int(head))


def test_variants_that_the_library_has_are_its_own(
    data: Path, command: Callable[..., Result], text: list[Pair], models: tuple[Aligner, Aligner]
) -> None:
    result = command(
        "variants", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy", "--pairs", "100"
    )
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.variants.tsv")
    assert sign.startswith("# variants|fairseq:de-en@")
    assert sign[2:] in result.out
    rates = {(row["part"], row["variant"], row["threshold"]): row["aer_toy"] for row in rows}
    assert len(rates) == len(rows) == 98 + len(ALL_METHODS)
    ours = two_way(*models)
    assert rates["soft", "reference", "0.5"] == rate(ours(text))
    assert next(row["p"] for row in rows if row["variant"] == "reference") == "1.0000"
    for method in ALL_METHODS:
        assert rates["heuristics", method, ""] == rate(two_way(*models, method)(text))
    forward, reverse = (settings_at(cell) for cell in sign.split("|")[3].removeprefix("forward:").split(", reverse:"))
    directions = (models[0], forward), (models[1], reverse)
    changes: dict[tuple[str, str], Callable[[Settings], Settings]] = {
        ("score, the head chosen", "weight"): lambda settings: replace(settings, score="weight"),
        ("score, all heads", "norm"): lambda settings: replace(settings, head="all"),
        ("NULL", "mask"): lambda settings: replace(settings, null="mask"),
        ("NULL", "none"): lambda settings: replace(settings, null="none"),
    }
    for (part, variant), change in changes.items():
        one, two = (Aligner(Direction(model.forward.recorder, change(settings))) for model, settings in directions)
        assert rates[part, variant, "0.5"] == rate(two_way(one, two)(text)), variant
    for direction in ("", ", forward"):
        same = rates["both positions", f"output position of the next layer to the power of 0.5{direction}", "0.5"]
        assert rates["neighbours, both positions", f"eight, 0.1, to the power of 0.5{direction}", "0.5"] == same
    curve = read_table(data / "results" / "toy.variants.curve.tsv")[1]
    assert {row["links"]: row["aer"] for row in curve}["soft 0.5"] == rates["soft", "reference", "0.5"]


def test_a_reference_that_is_not_what_the_variants_change_is_refused(
    door: Any, text: list[Pair], models: tuple[Aligner, Aligner]
) -> None:
    variants = importlib.import_module("variants")
    scores = importlib.import_module("variants_scores")
    common = importlib.import_module("common")
    reference = list(two_way(*models)(text))
    shares = [scores.Way(models[0], text).shares(), scores.Way(models[1], common.swapped(text)).shares()]
    soft = scores.soft(*shares)
    variants.check_same(reference, soft)
    n = next(n for n, alignment in enumerate(reference) if alignment.scores)
    (i, j), _ = next(iter(reference[n].scores.items()))
    other = [words.clone() for words in soft]
    other[n][0, j, i] += 0.001
    with pytest.raises(ValueError, match=f"pair {n + 1}, link {i}-{j}"):
        variants.check_same(reference, other)
    more = [torch.ones_like(words) for words in soft]
    with pytest.raises(ValueError, match="the reference is not what the variants change"):
        variants.check_same(reference, more)


def test_calibration_draws_choose_and_are_judged(
    data: Path, command: Callable[..., Result], text: list[Pair], models: tuple[Aligner, Aligner]
) -> None:
    result = command(
        "calibration", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy", "--lines", "100"
    )
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.calibration.tsv")
    assert sign.startswith("# calibration|fairseq:de-en@")
    assert "|lines:100|seed:12345|v:" in sign
    assert sign[2:] in result.out
    rules = ["lexical consistency", "of both", "agreement"]
    assert [(row["lines"], row["rule"]) for row in rows] == [(size, r) for size in ("20", "50", "100") for r in rules]
    for row in rows[-3:]:  # all lines are drawn each time
        assert row["share"] == "100"
        assert row["mean"] == row["worst"]
        settings = map(settings_at, row["most"].split("; "))
        forward, reverse = (
            Aligner(Direction(model.forward.recorder, some)) for model, some in zip(models, settings, strict=True)
        )
        assert row["mean"] == rate(two_way(forward, reverse)(text))
