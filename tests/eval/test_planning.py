"""The simulation behind docs/planning.md, where it can be worked out by hand."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest

from tests.conftest import ROOT

ROWS, FILE_ROWS, FILES = 1_000_000, 10_000, 100


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "eval"))
    module = importlib.import_module("planning")
    monkeypatch.setattr(module, "ROWS", ROWS)
    return module


@pytest.fixture
def even(planning: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same without chance."""
    for name, value in {"SPEED": 0.0, "TEXT": 0.0, "BETWEEN": math.inf}.items():
        monkeypatch.setattr(planning, name, value)
    return planning


def test_one_worker_does_one_file_after_the_other(even: Any) -> None:
    times = even.simulate(even.Cost(row=0.01, file=2.0, start=5.0), "queue", 1, FILE_ROWS)
    assert times.work == pytest.approx(ROWS * 0.01)
    assert (times.start, times.files, times.again, times.idle) == (5.0, pytest.approx(FILES * 2.0), 0.0, 0.0)


@pytest.mark.parametrize(("dealt", "starts", "most"), [("queue", 8, 13), ("parts", 8, 13), ("10 parts", 80, 16)])
def test_workers_wait_for_the_last_one(even: Any, dealt: str, starts: int, most: int) -> None:
    """Of 100 files the busiest of 8 workers has 13, or where they come in 80 parts of one and two up to 16."""
    times = even.simulate(even.Cost(row=0.01, file=0.0, start=5.0), dealt, 8, FILE_ROWS)
    assert (times.start, times.again) == (starts * 5.0, 0.0)
    assert times.work == pytest.approx(ROWS * 0.01)
    end = times.all / 8
    assert 13 * FILE_ROWS * 0.01 + 5.0 <= end <= most * FILE_ROWS * 0.01 + starts * 5.0


def test_what_is_interrupted_is_done_again(planning: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = planning.Cost(row=0.01, file=2.0, start=5.0)
    often, never = [], []
    for between, found in ((400.0, often), (math.inf, never)):
        monkeypatch.setattr(planning, "BETWEEN", between)
        found.append(planning.simulate(cost, "queue", 4, FILE_ROWS))
    assert never[0].again == 0 < often[0].again
    assert often[0].files == never[0].files  # every file is finished once
    assert often[0].start > never[0].start


def test_parts_wait_for_the_slowest_machine(planning: Any) -> None:
    cost = planning.Cost(row=0.01, file=0.0, start=0.0)
    idle = {dealt: planning.simulate(cost, dealt, 8, 1000).idle for dealt in planning.DEALT}
    assert idle["queue"] < idle["10 parts"] < idle["parts"]
