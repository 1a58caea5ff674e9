"""`eval/run.py worth`: thresholds, reliability and parts of links, against counting by hand."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align import Gold, Pair
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

LINK = st.tuples(st.integers(0, 2), st.integers(0, 2))
SCORED = st.dictionaries(LINK, st.floats(0.01, 1))
TEXT = st.lists(st.tuples(SCORED, st.frozensets(LINK, min_size=1)), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def worth() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "eval"))
        yield importlib.import_module("worth")


@given(text=TEXT, least=st.floats(0.1, 1))
def test_the_other_measure_at_a_threshold_is_that_of_the_links_above_it(worth: Any, text: Any, least: float) -> None:
    scored = [links for links, _ in text]
    gold = [Gold(sure, sure) for _, sure in text]
    once = np.ones(len(text), np.int64)
    curve = worth.Curve(scored, gold)
    wanted = sum(len(sure) for _, sure in text)

    def shares(threshold: float) -> tuple[float, float]:
        kept = [{link for link, score in links.items() if score >= threshold} for links in scored]
        right = sum(len(some & sure) for some, (_, sure) in zip(kept, text, strict=True))
        return right / max(1, sum(map(len, kept))), right / wanted

    precision, threshold = curve.precision_at(least, once)
    thresholds = sorted({score for links in scored for score in links.values()})
    reaching = [one for one in thresholds if shares(one)[1] >= least]
    assert (threshold == max(reaching)) if reaching else np.isnan(threshold)
    assert not reaching or precision == pytest.approx(shares(threshold)[0])
    recall, threshold = curve.recall_at(least, once)
    keeping = [one for one in thresholds if shares(one)[0] >= least]
    assert (threshold == min(keeping)) if keeping else np.isnan(threshold)
    assert not keeping or recall == pytest.approx(shares(threshold)[1])


def test_a_sentence_drawn_twice_counts_twice(worth: Any) -> None:
    scored = [{(0, 0): 0.9, (1, 1): 0.4}, {(0, 0): 0.8}]
    gold = [Gold(frozenset({(0, 0)}), frozenset({(0, 0)})), Gold(frozenset({(1, 1)}), frozenset({(1, 1)}))]
    precision, recall = worth.Curve(scored, gold)(np.array([2, 1]))
    assert precision.tolist() == pytest.approx([1, 2 / 3, 2 / 5])
    assert recall.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3])


def test_word_classes(worth: Any) -> None:
    words = ("»", "Today", "the", "Council", "of", "2004", "voted", "n't", "–")
    found = [worth.word_class(words, place, frozenset({"the", "of", "today"})) for place in range(len(words))]
    classes = ["punctuation", "function word", "function word", "name", "function word", "number", "content word"]
    assert found == [*classes, "content word", "punctuation"]
    assert worth.word_class(("Council",), 0, frozenset()) == "content word"


def test_every_link_is_in_one_part_of_each_kind(worth: Any) -> None:
    pair = Pair(("a",) * 12, tuple("b1, Bb"), 1)
    for parts in worth.PARTS.values():
        for link in ((i, j) for i in range(12) for j in range(6)):
            assert sum(belongs(pair, frozenset("b"), link) for belongs in parts.values()) == 1


def test_tables_and_a_plot(data: Path, command: Callable[..., Result]) -> None:
    result = command("worth", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy")
    assert result.code == 0, result.err
    found = {}
    for name in ("worth", "worth.scores", "worth.parts"):
        sign, found[name] = read_table(data / "results" / f"toy.{name}.tsv")
        assert sign.startswith("# worth|")
        assert sign[2:] in result.out
    assert [row["system"] for row in found["worth"]] == ["one model"] * 2 + ["two models"] * 2
    counted = [row for row in found["worth.parts"] if row["kind"] == "words of the source"]
    assert sum(int(row["sure"]) for row in counted if row["system"] == "eflomal") == sum(
        len(line.split()) for line in (data / "gold.talp").read_text(encoding="utf-8").splitlines()
    )
    assert {path.name for path in (data / "results").iterdir()} >= {"toy.worth.png", "toy.worth.pdf"}
