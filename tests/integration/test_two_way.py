"""Two directions symmetrised as they come: what an aligner for each gives, symmetrised by hand."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable
from math import nan
from typing import Any

import pytest

from align import Aligner, Alignment, Direction, Pair, PairError, Settings, load, two_way
from align.core.types import THRESHOLD, TextWarning
from align.evaluation.dialects import symmetrize
from align.models.text_check import ModelCheck
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


def test_links_are_the_words_whose_soft_score_is_above_the_threshold(recorders: Any) -> None:
    singles = [Aligner(Direction(one, FIXED)) for one in recorders]
    assert (join(singles).method, join(singles).threshold) == ("soft", THRESHOLD)
    pairs = with_gaps(40)
    with_all = list(join(singles, threshold=0)(pairs))
    for threshold in (THRESHOLD, 1):
        for alignment, of_all in zip(join(singles, threshold=threshold)(pairs), with_all, strict=True):
            assert alignment.scores == {link: score for link, score in of_all.scores.items() if score > threshold}


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


@pytest.mark.parametrize("buffers", [(2000, 2000), (25, 25), (60, 30)])
def test_layers_and_heads_are_chosen_as_apart(recorders: Any, buffers: tuple[int, int]) -> None:
    """The buffer is the forward aligner's, and one of under 50 pairs decides for the whole run, as in a run apart."""
    pairs = [*with_gaps(3), Pair((), (), 0), *with_gaps(150)]
    singles = [Aligner(Direction(one), buffer=buffers[0]) for one in recorders]
    given = (Aligner(Direction(one), buffer=buffer) for one, buffer in zip(recorders, buffers, strict=True))
    both, choices = align_and_choose(join(given, "union"), pairs)
    forward, forward_choice = align_and_choose(singles[0], pairs)
    reverse, reverse_choice = align_and_choose(singles[1], turned(pairs))
    assert choices == forward_choice + reverse_choice
    for alignment, scores in zip(both, by_hand([forward, reverse], "union"), strict=True):
        assert alignment.scores == pytest.approx(scores, abs=1e-5)


def test_one_direction_is_as_it_is(recorders: Any) -> None:
    pairs = with_gaps(40)
    for method, recorder in zip(("forward", "reverse"), recorders, strict=True):
        found = list(join((Aligner(Direction(one, FIXED)) for one in recorders), method)(pairs))
        alone = Aligner(Direction(recorder, FIXED))(pairs if method == "forward" else turned(pairs))
        for alignment, single in zip(found, alone, strict=True):
            links = {link if method == "forward" else link[::-1]: score for link, score in single.scores.items()}
            assert alignment.scores == pytest.approx(links, abs=1e-5)


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
        "is this side its source language" in m
        for m in messages
    )
    assert not any("of the source pieces" in m for m in messages)


def test_swapped_text_is_said_of_the_reverse_model_in_the_users_terms(recorder: Any) -> None:
    with pytest.warns(TextWarning, match="does it translate en to de"):
        both = two_way(
            Aligner(Direction(recorder, Settings(layer=1, head=3)), check=CHECK),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "grow"}, "one of soft, intersection, union, .*, forward, reverse; not 'grow'"),
        *(({"threshold": wrong}, f"the threshold is a number from 0 to 1; not {wrong}") for wrong in (-0.1, 1.5, nan)),
    ],
)
def test_options_that_are_refused(recorders: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        join((Aligner(Direction(one)) for one in recorders), **options)
