"""Two directions symmetrised as they come: what an aligner for each gives, symmetrised by hand."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Iterator
from math import nan
from typing import Any

import pytest

from align import Aligner, Alignment, Direction, Pair, PairError, Settings, load, two_way
from align.core.symmetrize import METHODS
from align.core.types import THRESHOLD, TextWarning
from align.evaluation.dialects import symmetrize
from tests import naive, toy
from tests.conftest import align_and_choose, plain
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


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_both_aligners_apart_and_symmetrize(recorders: Any, method: str) -> None:
    pairs = with_gaps(40)
    found = list(join((Aligner(Direction(one, FIXED), buffer=15) for one in recorders), method)(pairs))
    apart = [
        list(Aligner(Direction(recorders[0], FIXED))(pairs)),
        list(Aligner(Direction(recorders[1], FIXED))(turned(pairs))),
    ]
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


@pytest.mark.parametrize("nulls", [("eos", "mask"), ("none", "eos")])
@pytest.mark.parametrize("score", ["norm", "weight"])
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


@pytest.mark.parametrize("threshold", [0.1, THRESHOLD, 0.75, 1])
def test_links_are_the_words_whose_soft_score_is_above_the_threshold(recorders: Any, threshold: float) -> None:
    singles = [Aligner(Direction(one, FIXED)) for one in recorders]
    pairs = with_gaps(40)
    with_all = join(singles, "soft", threshold=0)(pairs)
    for alignment, of_all in zip(join(singles, threshold=threshold)(pairs), with_all, strict=True):
        assert alignment.scores == {link: score for link, score in of_all.scores.items() if score > threshold}


def test_the_default_is_soft(recorders: Any) -> None:
    two_way = join(Aligner(Direction(one, FIXED)) for one in recorders)
    assert (two_way.method, two_way.threshold) == ("soft", THRESHOLD)


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


@pytest.mark.parametrize("method", ["soft", "grow-diag"])
def test_swapped_models_and_sides_turn_links_over(recorders: Any, method: str) -> None:
    forward, reverse = (Aligner(Direction(one, FIXED), buffer=15) for one in recorders)
    pairs = with_gaps(40)
    as_given = two_way(forward, reverse, method, threshold=0)(pairs)
    swapped = two_way(reverse, forward, method, threshold=0)(turned(pairs))
    for alignment, other in zip(as_given, swapped, strict=True):
        assert alignment.scores == pytest.approx({(i, j): score for (j, i), score in other.scores.items()}, abs=1e-5)


def test_heuristics_take_the_links_of_aligners_with_a_threshold(recorders: Any) -> None:
    pairs = with_gaps(40)
    singles = [
        Aligner(Direction(one, Settings(layer=2, head=3, threshold=0.45))) for one in recorders
    ]  # no share is near
    apart = [list(singles[0](pairs)), list(singles[1](turned(pairs)))]
    for method in ("union", "intersection"):
        for alignment, scores in zip(join(singles, method)(pairs), by_hand(apart, method), strict=True):
            assert alignment.scores == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("method", ["soft", "grow-diag-final-and", "forward"])
@pytest.mark.parametrize("buffers", [(2000, 2000), (60, 60), (25, 25), (60, 30), (30, 60)])
def test_layers_and_heads_are_chosen_as_apart(recorders: Any, buffers: tuple[int, int], method: str) -> None:
    """The buffer is the forward aligner's, and one of under 50 pairs decides for the whole run, as in a run apart."""
    pairs = [*with_gaps(3), Pair((), (), 0), *with_gaps(150)]
    singles = [Aligner(Direction(one), buffer=buffers[0]) for one in recorders]
    two_way = join(
        (Aligner(Direction(one), buffer=buffer) for one, buffer in zip(recorders, buffers, strict=True)), method
    )
    both, choices = align_and_choose(two_way, pairs)
    forward, forward_choice = align_and_choose(singles[0], pairs)
    reverse, reverse_choice = align_and_choose(singles[1], turned(pairs))
    assert choices == forward_choice + reverse_choice
    if method in METHODS:
        for alignment, scores in zip(both, by_hand([forward, reverse], method), strict=True):
            assert alignment.scores == pytest.approx(scores, abs=1e-5)


def test_either_model_chooses_on_a_bounded_number_of_pairs(recorders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("align.core.choice.CHOOSING_PAIRS", 60)
    pairs = [pair for pair in with_gaps(150) if not pair.blank]
    two_way = join(Aligner(Direction(one)) for one in recorders)
    blank = Pair((), (), 0)
    _, choices = align_and_choose(two_way, [blank, *pairs[:30], blank, *pairs[30:]])
    for choice, recorder, text in zip(choices, recorders, (pairs[:60], turned(pairs[:60])), strict=True):
        _, alone = align_and_choose(Aligner(Direction(recorder)), text)
        assert (choice,) == alone
        assert choice.reason == "by lexical consistency over 60 pairs"


def test_one_direction_is_as_it_is(recorders: Any) -> None:
    pairs = with_gaps(40)
    for method, recorder in zip(("forward", "reverse"), recorders, strict=True):
        found = list(join((Aligner(Direction(one, FIXED)) for one in recorders), method)(pairs))
        alone = Aligner(Direction(recorder, FIXED))(pairs if method == "forward" else turned(pairs))
        for alignment, single in zip(found, alone, strict=True):
            links = {link if method == "forward" else link[::-1]: score for link, score in single.scores.items()}
            assert alignment.scores == pytest.approx(links, abs=1e-5)


@pytest.mark.parametrize("method", ["soft", "union", "forward", "reverse"])
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


@pytest.mark.parametrize("error", [ValueError, OSError, RuntimeError])
def test_what_came_before_an_error_of_the_input_comes_out(recorders: Any, error: type[Exception]) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield "das haus", "the house"
        raise error("file, line 2")

    found = []
    with pytest.raises(error, match="file, line 2"):
        found.extend(join(Aligner(Direction(one, FIXED)) for one in recorders)(broken()))
    assert len(found) == 1


def test_results_come_a_buffer_at_a_time(recorders: Any) -> None:
    pairs = iter([("das haus", "the house")] * 12)
    results = join(Aligner(Direction(one, FIXED), buffer=5) for one in recorders)(pairs)
    next(results)
    assert len(list(pairs)) == 7
    assert len(list(results)) == 4


def test_warnings_name_the_model_and_the_users_side(recorders: Any) -> None:
    two_way = join(Aligner(Direction(one, FIXED)) for one in recorders)
    pairs = [("das haus ist alt", "x y z w")] * 60
    with pytest.warns(TextWarning) as caught:
        list(two_way(pairs))
    messages = [str(warning.message) for warning in caught]
    name = recorders[1].name
    assert any("100% of the target pieces in the first 60 pairs are unknown to the forward" in m for m in messages)
    assert any(
        f"100% of the target pieces in the first 60 pairs are unknown to the reverse model ({name}): "
        "is this side its source language" in m
        for m in messages
    )
    assert not any("of the source pieces" in m for m in messages)


def test_swapped_text_is_said_of_the_reverse_model_in_the_users_terms(recorder: Any) -> None:
    with pytest.warns(TextWarning, match="does it translate en to de"):
        both = two_way(
            Aligner(Direction(recorder, Settings(layer=1, head=3))),
            Aligner(Direction(recorder, Settings(layer=1, head=3))),
        )
    pair = ("wir haben heute leider keine zeit , um über den haushaltsplan zu sprechen .",
            "unfortunately , we do not have time today to speak about the budget .")  # fmt: skip
    with pytest.warns(TextWarning) as caught:
        list(both([pair] * 5))
    (message,) = [str(warning.message) for warning in caught]
    assert "is the source first, and does the reverse model (fairseq:de-en@" in message
    assert message.endswith("translate from the target?")


def test_languages_that_do_not_go_together_are_warned_about(recorders: Any) -> None:
    forward, reverse = (Aligner(Direction(one, FIXED)) for one in recorders)
    with pytest.warns(
        TextWarning, match=r"fairseq:de-en@\w+ translates de to en, but the reverse model is fairseq:de-en"
    ):
        two_way(forward, forward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two_way(forward, reverse)


def test_one_pair_is_a_text_of_one(recorders: Any) -> None:
    two_way = join(Aligner(Direction(one)) for one in recorders)
    assert str(two_way.align("das haus", "the house")) == str(next(two_way([("das haus", "the house")])))


def test_used_before_or_not_each_text_is_warned_about(recorders: Any) -> None:
    forward, reverse = (Aligner(Direction(one, FIXED)) for one in recorders)
    strange = [("x y z w", "x y z w")] * 60
    list(forward(strange))
    for _ in range(2):
        with pytest.warns(TextWarning) as caught:
            list(two_way(forward, reverse)(strange))
        assert len({str(warning.message) for warning in caught}) == 4  # either side of either model


def test_another_method_is_refused(recorders: Any) -> None:
    with pytest.raises(ValueError, match=r"one of soft, intersection, union, .*, forward, reverse; not 'grow'"):
        join((Aligner(Direction(one)) for one in recorders), "grow")


@pytest.mark.parametrize("threshold", [-0.1, 1.5, nan])
def test_thresholds_out_of_range_are_refused(recorders: Any, threshold: float) -> None:
    with pytest.raises(ValueError, match=f"the threshold is a number from 0 to 1; not {threshold}"):
        join((Aligner(Direction(one)) for one in recorders), threshold=threshold)
