"""`eval/run.py markup`: what is drawn is what gold allows, and what is right is counted so."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align import Gold, Pair
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@pytest.fixture(scope="module")
def markup() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "eval"))
        yield importlib.import_module("markup")


@given(links=LINKS)
def test_windows_are_runs_that_nothing_else_is_linked_with(markup: Any, links: frozenset[tuple[int, int]]) -> None:
    found = markup.windows_of(Gold(links, links), 5)
    for span in ((a, b) for a, b in product(range(5), range(1, 6)) if a < b):
        targets = {j for i, j in links if span[0] <= i < span[1]}
        sources = {i for i, j in links if j in targets}
        edges = {span[0], span[1] - 1} <= {i for i, _ in links}
        closed = bool(targets) and sources <= set(range(*span)) and len(targets) == max(targets) - min(targets) + 1
        assert (span in found) == (edges and closed)
        assert span not in found or found[span] == (min(targets), max(targets) + 1)


@given(links=LINKS)
def test_points_are_places_that_no_link_crosses(markup: Any, links: frozenset[tuple[int, int]]) -> None:
    found = markup.points_of(Gold(links, links), Pair(tuple("abcde"), tuple("vwxyz"), 1))
    for at in range(1, 5):
        places = [k for k in range(6) if all((i < at) == (j < k) for i, j in links)]
        assert (at in found) == bool(links and places)
        assert at not in found or found[at] == (places[0], places[-1])


def test_a_table_of_rules_and_one_of_systems(data: Path, command: Callable[..., Result]) -> None:
    result = command("markup", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy")
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.markup.tsv")
    assert sign.startswith("# markup|fairseq:de-en@")
    assert sign[2:] in result.out
    systems = list(dict.fromkeys((row["system"], row["rule"]) for row in rows))
    assert systems[0] == ("two models, soft scores", "window")
    assert len(systems) == 8
    eflomal = next(row for row in rows if row["system"].startswith("eflomal") and row["kind"] == "spans")
    assert float(eflomal["exact"]) > 80  # words are translated one by one, in order
    assert [row["p"] for row in rows[:5]] == ["n/a"] * 5
    assert read_table(data / "results" / "toy.markup_rule.tsv")[1]
