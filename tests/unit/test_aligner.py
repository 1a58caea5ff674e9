"""The choice of layer and head, and soft links, on a model whose attention is known, without any real one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from align import Aligner, Cell, Choice, Direction, Place, Settings, two_way
from align.core.stream import Job, Pool
from align.core.types import Batch, CrossAttention, Pair, Pieces, TextWarning
from align.models.text_check import ModelCheck
from tests import naive
from tests.conftest import align_and_choose, plain
from tests.known import RIGHT, KnownRecorder

BEST = Settings(position="input", layer=RIGHT.layer, head=RIGHT.head, threshold=None)


def pairs(count: int) -> list[tuple[str, str]]:
    """Permutations of a few words, some lines with words without pieces, also as the last ones of the longest."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for n in range(count):
        words = torch.randperm(12, generator=generator)[: 3 + n % 5].tolist()
        order = torch.randperm(len(words), generator=generator).tolist()
        extra = " -" if n % 3 == 0 else ""
        found.append((" ".join(map(str, words)) + extra, " ".join(str(words[i]) for i in order) + extra * 4))
    return found


@pytest.mark.parametrize("score", ["weight", "norm"])
@pytest.mark.parametrize("batch_tokens", [1, 60, 2000])
def test_auto_finds_the_one_right_head_and_gives_the_first_buffer_its_links(score: str, batch_tokens: int) -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain(score)), batch_tokens=batch_tokens, buffer=80)
    text = pairs(200)
    found, (choice,) = align_and_choose(aligner, text)
    assert choice == Choice(Place(RIGHT), "by lexical consistency over 80 pairs")
    for (source, target), alignment in zip(text, found, strict=True):
        words = source.split(), target.split()
        expected = {(words[0].index(word), j) for j, word in enumerate(words[1]) if word != "-"}
        assert alignment.links == expected


@pytest.mark.parametrize("error", [ValueError, OSError, RuntimeError])
def test_results_come_a_buffer_at_a_time_and_before_an_error_of_the_input(error: type[Exception]) -> None:
    read = []

    def broken() -> Iterator[tuple[str, str]]:
        for pair in pairs(12):
            read.append(pair)
            yield pair
        raise error("line 13")

    aligner = Aligner(Direction(KnownRecorder(), plain()), buffer=5)
    for one in (aligner, two_way(aligner, aligner)):
        read.clear()
        results = one(broken())
        found = [next(results)]
        assert len(read) == 5
        with pytest.raises(error, match="line 13"):
            found.extend(results)
        assert len(found) == 12


class CountingRecorder(KnownRecorder):
    """Counts the pairs that it reads in every layer, and those in one only."""

    def __init__(self) -> None:
        self.in_all = self.in_one = 0

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        self.in_all += len(batch.source) if len(layers) == self.layers else 0
        self.in_one += len(batch.source) if len(layers) == 1 else 0
        return super().record(batch, layers)


@pytest.mark.parametrize("buffer", [2000, 150, 80])
def test_a_bounded_number_of_pairs_chooses_layer_and_head(buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("align.core.choice.CHOOSING_PAIRS", 60)
    recorder = CountingRecorder()
    aligner = Aligner(Direction(recorder, plain()), buffer=buffer)
    text = [("", ""), *pairs(50), ("", "1"), *pairs(150)]
    found, (choice,) = align_and_choose(aligner, text)
    assert choice == Choice(Place(RIGHT), "by lexical consistency over 60 pairs")
    assert (recorder.in_all, recorder.in_one) == (60, 200)
    assert [alignment.links for alignment in found] == [
        alignment.links for alignment in Aligner(Direction(KnownRecorder(), plain(layer=2, head=3)))(text)
    ]
    list(replace(aligner, forward=replace(aligner.forward, choice=choice))(text))
    assert (recorder.in_all, recorder.in_one) == (60, 400)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (plain(), Place(Cell(4, 1))),
        (plain(), Place(Cell(1, 1), Cell(1, 1))),
        (plain(), Place(output=Cell(1, 1))),
        (plain(position="output"), Place(Cell(1, 1))),
        (plain(layer=2), Place(Cell(1, 1))),
        (plain(position="both"), Place(Cell(1, 1), Cell(4, 1))),
    ],
)
def test_a_choice_that_the_settings_or_the_model_do_not_allow_is_refused(settings: Settings, place: Place) -> None:
    with pytest.raises(ValueError, match="no such place in known, or not as asked"):
        Aligner(Direction(KnownRecorder(), settings, choice=Choice(place, "x")))
    Aligner(Direction(KnownRecorder(), plain(position="both"), choice=Choice(Place(Cell(1, 1), Cell(2, "all")), "x")))


CHECK = ModelCheck("known", "source", "target")
"""Of a model of unknown languages."""


def test_each_text_is_chosen_for_and_warned_about_by_itself() -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain()), check=CHECK)
    for count in (80, 60):
        _, (choice,) = align_and_choose(aligner, pairs(count))
        assert choice.reason == f"by lexical consistency over {count} pairs"
    strange = [("-7 -7 -7", "-7 -7 -7")] * 60  # the unknown piece
    for one in (aligner, aligner, two_way(aligner, aligner)):
        with pytest.warns(TextWarning, match="are unknown to"):
            list(one(strange))


@pytest.mark.parametrize("layer", [RIGHT.layer, "auto"])
def test_where_the_layer_is_known_work_is_handed_out_before_the_text_is_judged(layer: Any) -> None:
    events: list[str] = []

    class Noting(KnownRecorder):
        def encode(self, pair: Pair) -> Pieces:
            events.append("encode")
            return super().encode(pair)

    class Elsewhere(Pool):
        def submit(self, task: str, *arguments: Any) -> Job:
            events.append("submit")
            return super().submit(task, *arguments)

    settings = plain(layer=layer, head=RIGHT.head)
    aligner = Aligner(Direction(Noting(), settings), check=CHECK, pool=Elsewhere)
    with pytest.warns(TextWarning, match="in the first 400 pairs" if layer != "auto" else "in the first 500 pairs"):
        first = next(aligner([("-7 -7", "-7 -7")] * 500, lambda choices: events.append("choice")))
    assert first.pair.id == 1
    assert (events.index("submit") < events.index("encode")) == (layer != "auto")
    assert events.index("choice") < len(events) - 1 - events[::-1].index("encode")  # and before the first slice


def moved(text: list[tuple[str, str]], by: int) -> list[tuple[str, str]]:
    """Each source with a target that stands so many lines below."""
    return [(source, text[(n + by) % len(text)][1]) for n, (source, _) in enumerate(text)]


@pytest.mark.parametrize(("by", "where"), [(-1, "further down"), (1, "further up")])
@pytest.mark.parametrize("count", [100, 300])
def test_a_text_that_is_shifted_by_a_line_is_recognised(count: int, by: int, where: str) -> None:
    with pytest.warns(TextWarning) as found:
        align_and_choose(Aligner(Direction(KnownRecorder(), plain()), check=CHECK), moved(pairs(count), by))
    (warning,) = found
    assert re.fullmatch(
        rf"the source fits the target one line {where} better \(lexical consistency (\d\.\d\d) against "
        r"(\d\.\d\d)\): one side may be shifted by a line",
        str(warning.message),
    )


def test_sentences_that_are_no_translations_are_doubted_once_for_each_model() -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain()), check=CHECK)
    for one, models in ((aligner, ["the model"]), (two_way(aligner, aligner), ["forward", "reverse"])):
        with pytest.warns(TextWarning) as found:
            _, choices = align_and_choose(one, moved(pairs(120), 7))
        for warning, model, choice in zip(found, models, choices, strict=True):
            assert model in str(warning.message)
            assert "links these sentences hardly more consistently than unrelated sentences" in str(warning.message)
            assert f"(lexical consistency {choice.consistency:.2f} against " in str(warning.message)


def test_nothing_is_doubted_where_nothing_can_be_known(recwarn: pytest.WarningsRecorder) -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain()), check=CHECK)
    for text in (pairs(300), moved(pairs(99), 1), [("1 2", "3 4")] * 300):  # related; too few; one pair again and again
        align_and_choose(aligner, text)
    align_and_choose(Aligner(Direction(KnownRecorder(), BEST), check=CHECK), moved(pairs(120), 1))  # told where to read
    assert not recwarn.list


@pytest.mark.parametrize("null", ["eos", "mask", "none"])
@pytest.mark.parametrize("score", ["norm", "weight"])
@pytest.mark.parametrize("threshold", [0, 0.3, 0.6, 1])
def test_a_threshold_links_all_words_above_it(threshold: float, score: Any, null: Any) -> None:
    settings = plain(score, layer=1, head=2, null=null, threshold=threshold)
    aligner = Aligner(Direction(KnownRecorder(), settings), batch_tokens=1)  # random attention is that of the batch
    count = most = 0
    for alignment in aligner(pairs(20)):
        source, target = alignment.pair.source, alignment.pair.target
        rows = naive.soft_scores(naive.sharpen(aligner.word_scores(source, target), null))
        expected = {(i, j): value for j, row in enumerate(rows) for i, value in enumerate(row) if value > threshold}
        assert alignment.scores == pytest.approx(expected, abs=1e-5)
        count += len(expected)
        most += sum(word != "-" for word in source) * sum(word != "-" for word in target)
    if threshold == 0:
        assert count == most
    else:
        assert 0 < count < most or (count == 0 and threshold > 0.5)


WRONG_PAIRS: list[tuple[Any, type[Exception], str]] = [
    ("ab", TypeError, "pair 2 is 'ab', not a source and a target"),
    (("1", "2", "3"), ValueError, r"pair 2 is \('1', '2', '3'\), not a source and a target"),
    ((["1", 2], "1"), TypeError, "the source of pair 2: 2 is not a word: words are strings"),
    ((["1", ""], "1"), ValueError, "the source of pair 2: '' is not a word: words are not empty and have no space"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG_PAIRS)
def test_what_is_not_a_pair_is_refused_after_those_before_it(wrong: Any, error: type[Exception], message: str) -> None:
    found = []
    with pytest.raises(error, match=f"^{message}"):
        found.extend(Aligner(Direction(KnownRecorder(), BEST))([("1", "1"), wrong]))
    assert len(found) == 1


def test_a_fixed_aligner_reads_all_texts_alike(recwarn: pytest.WarningsRecorder) -> None:
    aligner = Aligner(
        Direction(
            KnownRecorder(), Settings(position="input", threshold=None), calibration={("norm", "input"): Cell(1, 2)}
        )
    )
    for one in (aligner, two_way(aligner, aligner)):
        for sample in ((), pairs(49), pairs(60)):
            for each in (one, one.fixed(sample)):
                for text in (pairs(1), pairs(80)):
                    _, choices = align_and_choose(each, text)
                    assert {choice.place for choice in choices} == {Place(Cell(1, 2))}
        without = replace(aligner.forward, calibration={})
        chosen = replace(one, forward=without, reverse=one.reverse and without).fixed(pairs(60))
        _, choices = align_and_choose(chosen, pairs(1))
        assert {choice.place for choice in choices} == {Place(RIGHT)}
    assert not recwarn.list


def test_an_aligner_is_shown_in_a_line() -> None:
    recorder = KnownRecorder()
    one = Direction(recorder, Settings(position="input", threshold=None))
    name = recorder.name
    assert repr(one) == f"<Direction {name}, norm, layer auto>"
    assert repr(Aligner(one)) == f"<Aligner {name}, norm, layer auto>"
    fixed = replace(one, choice=Choice(Place(RIGHT), "as asked"))
    assert repr(Aligner(fixed)) == f"<Aligner {name}, norm, {RIGHT}>"
    both = f"{name}, norm, layer auto + {name}, norm, {RIGHT}"
    assert repr(Aligner(one, fixed, "union")) == f"<Aligner {both}; union>"
