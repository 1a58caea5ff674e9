"""Two directions symmetrised as they come: what an aligner for each gives, symmetrised by hand."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable
from typing import Any

import pytest

from align import Aligner, Alignment, Direction, Pair, PairError, Settings, load, two_way
from align.core.types import TextWarning
from align.evaluation.dialects import symmetrize
from align.models.text_check import ModelCheck
from tests import naive, toy
from tests.conftest import plain
from tests.corpora import turned, with_gaps

pytestmark = pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")

FIXED = plain(layer=2, head=3)


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A toy from German to English with room for 40 pieces, and one from English to German with room for 20."""
    folder = tmp_path_factory.mktemp("toys")
    short = {"max_source_positions": 20, "max_target_positions": 20}
    models = toy.save_model(folder / "de-en"), toy.save_reverse_model(folder / "en-de", short)
    forward, reverse = (load(str(model), device="cpu").forward.recorder for model in models)
    return forward, reverse


def join(aligners: Iterable[Aligner], *arguments: Any, **options: Any) -> Aligner:
    forward, reverse = aligners
    return two_way(forward, reverse, *arguments, **options)


def by_hand(apart: list[list[Alignment]], method: str) -> list[dict[tuple[int, int], float]]:
    """Links with their scores, out of the alignments of each direction."""
    expected = []
    for one_way, other_way in zip(*apart, strict=True):
        forward, reverse = dict(one_way.scores), {(i, j): score for (j, i), score in other_way.scores.items()}
        links = symmetrize(frozenset(forward), frozenset(reverse), method)
        expected.append({link: (forward.get(link, 0) + reverse.get(link, 0)) / 2 for link in links})
    return expected


@pytest.mark.parametrize(
    ("method", "settings"), [("union", Settings(layer=2, head=3, threshold=0.45)), ("grow-diag", FIXED)]
)  # no share is near the threshold
def test_heuristics_combine_the_links_of_both_aligners(recorders: Any, method: str, settings: Settings) -> None:
    pairs = with_gaps(40)
    found = list(join((Aligner(Direction(one, settings), buffer=15) for one in recorders), method)(pairs))
    texts = (pairs, turned(pairs))
    apart = [list(Aligner(Direction(one, settings))(text)) for one, text in zip(recorders, texts, strict=True)]
    assert [alignment.pair for alignment in found] == pairs
    for alignment, scores in zip(found, by_hand(apart, method), strict=True):
        assert alignment.scores == pytest.approx(scores, abs=1e-5)


def soft_by_hand(singles: list[Aligner], pair: Pair) -> dict[tuple[int, int], float]:
    """The soft scores of one pair that are above 0."""
    forward, reverse = singles
    if pair.blank:
        return {}
    f = naive.sharpen(forward.word_scores(pair.source, pair.target), forward.forward.settings.null)
    r = naive.sharpen(reverse.word_scores(pair.target, pair.source), reverse.forward.settings.null)
    rows = naive.soft_scores(f, r)
    return {(i, j): score for j, row in enumerate(rows) for i, score in enumerate(row) if score > 0}


@pytest.mark.parametrize(("score", "nulls"), [("norm", ("eos", "mask")), ("weight", ("none", "eos"))])
def test_soft_is_naive_loops_on_word_scores(recorders: Any, score: Any, nulls: tuple[Any, Any]) -> None:
    singles = [
        Aligner(Direction(one, Settings(score, layer=2, head=3, null=null)), buffer=15)
        for one, null in zip(recorders, nulls, strict=True)
    ]
    pairs = with_gaps(40)
    found = list(join(singles, threshold=0)(pairs))
    assert [alignment.pair for alignment in found] == pairs
    for alignment in found:
        assert alignment.scores == pytest.approx(soft_by_hand(singles, alignment.pair), abs=1e-5)


@pytest.mark.parametrize("method", ["soft", "union"])
def test_neither_batches_nor_buffers_nor_order_change_soft_scores(recorders: Any, method: str) -> None:
    pairs = with_gaps(60)

    def scores(some: list[Pair], **options: int) -> list[dict[tuple[int, int], float]]:
        aligners = Aligner(Direction(recorders[0], FIXED), **options), Aligner(Direction(recorders[1], FIXED))  # type: ignore[arg-type]
        found = list(join(aligners, method, threshold=0)(some))
        assert [alignment.pair for alignment in found] == some
        return [dict(alignment.scores) for alignment in found]

    expected = [pytest.approx(links, abs=1e-5) for links in scores(pairs)]
    assert scores(pairs, batch_tokens=1) == expected
    assert scores(pairs, batch_tokens=50, buffer=7) == expected
    assert scores(pairs, buffer=1) == expected
    order = random.Random(0).sample(range(60), 60)
    assert scores([pairs[n] for n in order]) == [expected[n] for n in order]


@pytest.mark.parametrize(("method", "passes"), [("soft", 2), ("union", 2), ("forward", 1), ("reverse", 1)])
def test_each_pair_is_reported_once_for_each_model_that_reads_it(recorders: Any, method: str, passes: int) -> None:
    pairs, counts = with_gaps(40), list[int]()
    aligner = join([Aligner(Direction(one, FIXED)) for one in recorders], method, threshold=0)
    list(aligner(pairs, on_batch=counts.append))
    assert sum(counts) == passes * sum(not pair.blank for pair in pairs)


def test_pairs_that_are_too_long_do_not_hide_the_choice(recorders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("align.core.aligner.JUDGED_PAIRS", 2)
    choices: list[Any] = []
    aligner = Aligner(Direction(recorders[0], FIXED), too_long="blank")
    list(aligner([*3 * [("das " * 30, "the")], ("das", "the")], choices.append))
    assert [str(choice.place) for of_text in choices for choice in of_text] == ["layer 2, head 3"]


@pytest.mark.parametrize("method", ["soft", "reverse"])
def test_what_is_too_long_for_one_model_is_skipped(recorders: Any, method: str) -> None:
    pairs = [("das haus", "the house"), ("das " * 30, "the"), ("das", "the " * 30), ("", "the"), ("alt", "old")]
    settings = Settings(layer=2, head=3, null="none")
    forward, reverse = (Aligner(Direction(one, settings), too_long="blank") for one in recorders)
    found = list(two_way(forward, reverse, method, threshold=0.1)(pairs))
    assert [alignment.skipped for alignment in found] == ["", "too long", "too long", "", ""]
    assert [bool(alignment.links) for alignment in found] == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("das " * 30, "the"), r"source has 31 pieces with </s>, the reverse model \(fairseq:en-de@\w+\) takes 20"),
        (("das", "the " * 20), r"target has 21 pieces with </s>, the reverse model \(fairseq:en-de@\w+\) takes 20"),
        (("das " * 40, "the"), r"source has 41 pieces with </s>, the forward model \(fairseq:de-en@\w+\) takes 40"),
    ],
)
def test_errors_name_the_line_the_users_side_and_the_model(recorders: Any, pair: Any, message: str) -> None:
    pairs = [("das haus", "the house"), ("", ""), pair, ("alt", "old")]
    found = []
    with pytest.raises(PairError, match="line 3: " + message):
        found.extend(join(Aligner(Direction(one, FIXED)) for one in recorders)(pairs))
    assert len(found) == 2


CHECK = ModelCheck("the models", "source", "target")
"""Of models of unknown languages."""


def test_warnings_name_the_model_and_the_users_side(recorders: Any) -> None:
    two_way = join(Aligner(Direction(one, FIXED), check=CHECK) for one in recorders)
    pairs = [("das haus ist alt", "x y z w")] * 60
    with pytest.warns(TextWarning) as caught:
        list(two_way(pairs))
    messages = [str(warning.message) for warning in caught]
    name = recorders[1].name
    assert any("100% of the target pieces in the first 60 pairs are unknown to the forward" in m for m in messages)
    assert any(
        f"100% of the target pieces in the first 60 pairs are unknown to the reverse model ({name}): "
        "check that this side is in its source language" in m
        for m in messages
    )
    assert not any("of the source pieces" in m for m in messages)


def test_languages_that_do_not_go_together_are_warned_about(recorders: Any) -> None:
    forward, reverse = (Aligner(Direction(one, FIXED)) for one in recorders)
    with pytest.warns(
        TextWarning, match=r"fairseq:de-en@\w+ translates de to en, but the reverse model is fairseq:de-en"
    ):
        two_way(forward, forward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two_way(forward, reverse)
