"""The choice of layer and head, and soft links, on a model whose attention is known, without any real one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from align import Aligner, Cell, Choice, Direction, Pair, Place, Search, Settings, translate, two_way
from align.core.choice import Calibration
from align.core.types import Batch, CrossAttention, TextWarning
from align.evaluation.sweep import sweep
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


class GuidedRecorder(KnownRecorder):
    """A head of the last layer is right too, in the step that predicts, as where a model was trained to align."""

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        copies = (batch.target.unsqueeze(2) == batch.source.unsqueeze(1)).float()
        for attention in super().record(batch, layers):
            if attention.layer == self.layers:
                attention.weights[:, 0] = torch.nn.functional.pad(copies, (0, 0, 0, 1)) + 1e-3
            yield attention


def test_a_head_of_the_last_layer_that_was_trained_to_align_is_found_beside_another() -> None:
    settings = replace(plain(), position="both")
    _, (choice,) = align_and_choose(Aligner(Direction(GuidedRecorder(), settings)), pairs(60))
    assert choice.place == Place(RIGHT, Cell(3, 1))


@pytest.mark.parametrize(("settings", "cell"), [(plain(layer=2), Cell(2, 3)), (plain(head=3), Cell(2, 3))])
def test_what_is_fixed_stays_fixed(settings: Settings, cell: Cell) -> None:
    _, (choice,) = align_and_choose(Aligner(Direction(KnownRecorder(), settings)), pairs(60))
    assert choice.place == Place(cell)


def test_a_first_buffer_of_blank_lines_decides_nothing() -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain()), buffer=60)
    found, (choice,) = align_and_choose(aligner, [("", "")] * 60 + pairs(60))
    assert len(found) == 120
    assert choice.place == Place(RIGHT)


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


class ChangingRecorder(KnownRecorder):
    """The right head is another one, of the first layer, where words are numbers from 50."""

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        other = (batch.source.amax(1) >= 60)[:, None, None]
        copies = (batch.target.unsqueeze(2) == batch.source.unsqueeze(1)).float()
        copies = torch.nn.functional.pad(copies, (0, 0, 1, 0)) + 1e-3
        uniform = torch.ones_like(copies)
        for attention in super().record(batch, layers):
            if attention.layer == 1:
                attention.weights[:, 0] = torch.where(other, copies, uniform)
            if attention.layer == RIGHT.layer:
                attention.weights[:, 2] = torch.where(other, uniform, attention.weights[:, 2])
            yield attention


def test_a_sweep_and_an_aligner_choose_by_the_same_pairs() -> None:
    later = [(" ".join(map(str, range(50, 60))), " ".join(map(str, range(59, 49, -1))))] * 900
    aligner = Aligner(Direction(ChangingRecorder(), plain("weight")))
    _, (choice,) = align_and_choose(aligner, [*pairs(1000), *later])
    assert choice.place == Place(RIGHT)
    _, (choice,) = align_and_choose(aligner, [*later, *pairs(1000)])
    assert choice.place == Place(Cell(1, 1))
    for text, expected in ((pairs(1000) + later, RIGHT), (later + pairs(1000), Cell(1, 1))):
        swept = sweep(aligner, [Pair(tuple(s.split()), tuple(t.split()), n) for n, (s, t) in enumerate(text, 1)])
        assert swept.cells[int(swept.consistency[0, 0].argmax())] == expected


def test_a_thousand_pairs_choose_layer_and_head() -> None:
    recorder = CountingRecorder()
    aligner = Aligner(Direction(recorder, plain()))
    _, (choice,) = align_and_choose(aligner, pairs(1100))
    assert choice.reason == "by lexical consistency over 1,000 pairs"
    assert (recorder.in_all, recorder.in_one) == (1000, 1100)


def test_a_choice_made_before_is_where_it_reads() -> None:
    before = Choice(Place(Cell(1, "all")), "as before")
    aligner = Aligner(Direction(KnownRecorder(), plain(), choice=before))
    text = [("1 2", "2 1")] * 60
    found, (choice,) = align_and_choose(aligner, text)
    assert choice == before
    asked = Aligner(Direction(KnownRecorder(), plain(layer=1, head="all")))
    assert [alignment.links for alignment in found] == [alignment.links for alignment in asked(text)]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (plain(), Place(Cell(4, 1))),
        (plain(), Place(Cell(1, 4))),
        (plain(), Place(Cell(1, 1), Cell(1, 1))),
        (plain(), Place(output=Cell(1, 1))),
        (plain(position="output"), Place(Cell(1, 1))),
        (plain(layer=2), Place(Cell(1, 1))),
        (plain(head="all"), Place(Cell(1, 1))),
        (plain(position="both"), Place(Cell(1, 1))),
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
        rf"the source goes better with the target one line {where} \(lexical consistency (\d\.\d\d) against "
        r"(\d\.\d\d)\): is one of them shifted by a line\?",
        str(warning.message),
    )


def test_sentences_that_are_no_translations_are_doubted_once_for_each_model() -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain()), check=CHECK)
    for one, models in ((aligner, ["the model"]), (two_way(aligner, aligner), ["forward", "reverse"])):
        with pytest.warns(TextWarning) as found:
            _, choices = align_and_choose(one, moved(pairs(120), 7))
        for warning, model, choice in zip(found, models, choices, strict=True):
            assert model in str(warning.message)
            assert "links these sentences hardly more consistently than sentences that do not" in str(warning.message)
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


def test_batches_and_buffers_change_no_soft_score() -> None:
    settings = plain(layer=RIGHT.layer, head=RIGHT.head, threshold=0)  # whose attention is not random
    text = [("", ""), *pairs(40), ("1", "")]
    found = [alignment.scores for alignment in Aligner(Direction(KnownRecorder(), settings))(text)]
    some_options: list[dict[str, Any]] = [{"batch_tokens": 1}, {"batch_tokens": 60, "buffer": 9}]
    for options in some_options:
        again = [alignment.scores for alignment in Aligner(Direction(KnownRecorder(), settings), **options)(text)]
        assert again == [pytest.approx(scores, abs=1e-6) for scores in found]
    assert found[0] == found[-1] == {}


def test_a_threshold_leaves_the_choice_of_layer_and_head_alone() -> None:
    for threshold in (None, 0.4):
        aligner = Aligner(Direction(KnownRecorder(), plain(threshold=threshold)))
        found, (choice,) = align_and_choose(aligner, pairs(60))
        assert choice.place == Place(RIGHT)
        for alignment in found:
            source, target = alignment.pair.source, alignment.pair.target
            assert alignment.links == {(source.index(word), j) for j, word in enumerate(target) if word != "-"}


def test_two_directions_with_words_without_pieces() -> None:
    both = two_way(Aligner(Direction(KnownRecorder(), plain())), Aligner(Direction(KnownRecorder(), plain())))
    text = [("", ""), *pairs(60), ("- -", "1"), ("1", "-")]
    found, choices = align_and_choose(both, text)
    assert [choice.place for choice in choices] == [Place(RIGHT), Place(RIGHT)]
    for alignment in found:
        source, target = alignment.pair.source, alignment.pair.target
        words = {(source.index(word), j) for j, word in enumerate(target) if word != "-" and word in source}
        assert alignment.links == words
        assert all(score > 0.95 for score in alignment.scores.values())


WRONG_PAIRS: list[tuple[Any, type[Exception], str]] = [
    ("ab", TypeError, "pair 2 is 'ab', not a source and a target"),
    (None, TypeError, "pair 2 is None, not a source and a target"),
    ({"source": "1", "target": "1"}, TypeError, "pair 2 is {'source': '1', 'target': '1'}, not a source and a target"),
    (("1",), ValueError, r"pair 2 is \('1',\), not a source and a target"),
    (("1", "2", "3"), ValueError, r"pair 2 is \('1', '2', '3'\), not a source and a target"),
    ((None, "1"), TypeError, "the source of pair 2 is None, not a string or a sequence of words"),
    (("1", b"1"), TypeError, "the target of pair 2 is b'1', not a string or a sequence of words"),
    (("1", 7), TypeError, "the target of pair 2 is 7, not a string or a sequence of words"),
    (("1", iter("1")), TypeError, "the target of pair 2 is <.*iterator.*>, not a string or a sequence of words"),
    ((["1", 2], "1"), TypeError, "the source of pair 2: 2 is not a word: words are strings"),
    ((["1", ""], "1"), ValueError, "the source of pair 2: '' is not a word: words are not empty and have no space"),
    (("1", ["1 2"]), ValueError, "the target of pair 2: '1 2' is not a word"),
    (("1", ["1\t2"]), ValueError, r"the target of pair 2: '1\\t2' is not a word"),
    (("1", range(10_000)), TypeError, "the target of pair 2: 0 is not a word"),
    ((bytes(10_000), "1"), TypeError, r"the source of pair 2 is b'\\x00.{,80}…, not a string"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG_PAIRS)
def test_what_is_not_a_pair_is_refused_after_those_before_it(wrong: Any, error: type[Exception], message: str) -> None:
    found = []
    with pytest.raises(error, match=f"^{message}"):
        found.extend(Aligner(Direction(KnownRecorder(), BEST))([("1", "1"), wrong]))
    assert len(found) == 1


def test_sentences_and_pairs_may_be_arrays_of_words() -> None:
    aligner = Aligner(Direction(KnownRecorder(), BEST))
    (alignment,) = aligner(np.array([[["1", "2"], ["2", "1"]]]))
    assert str(alignment) == "0-1 1-0"


def test_translations_are_aligned_with_what_they_were_made_from() -> None:
    aligner = Aligner(Direction(KnownRecorder(), BEST), buffer=2)
    sentences: list[Any] = ["1 2 3", "", ["4", "-", "5"], Pair(("6",), ("not", "read"), 9)]
    for one in (aligner, two_way(aligner, aligner)):
        told: list[Any] = []
        found = list(translate(one, sentences, Search(beam=1), told.append))
        assert [alignment.pair for alignment in found] == [
            Pair(("1", "2", "3"), ("3", "2", "1"), 1),
            Pair((), (), 2),
            Pair(("4", "-", "5"), ("5", "4"), 3),
            Pair(("6",), ("6",), 9),
        ]
        assert [str(alignment) for alignment in found] == ["0-2 1-1 2-0", "", "0-1 2-0", "0-0"]
        assert len(told) == 1


@pytest.mark.parametrize("wrong", ["1 2 3", b"1 2 3"])
def test_one_sentence_in_place_of_several_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="'1 2 3' is one sentence: give a list of sentences"):
        list(translate(Aligner(Direction(KnownRecorder(), plain())), wrong))
    with pytest.raises(TypeError, match="sentence 2 is None, not a string or a sequence of words"):
        list(translate(Aligner(Direction(KnownRecorder())), ["1", None]))  # type: ignore[list-item]


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


class PrunedRecorder(KnownRecorder):
    """All heads but one of the right layer are pruned: all heads together score as that one does."""

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        for attention in super().record(batch, layers):
            pruned = [head for head in range(self.heads) if (attention.layer, head + 1) != (RIGHT.layer, RIGHT.head)]
            attention.weights[:, pruned] = 0.0
            yield attention


@pytest.mark.parametrize("stored", [RIGHT, Cell(RIGHT.layer, "all"), None])
def test_of_equal_cells_the_stored_one_is_chosen(stored: Cell | None) -> None:
    calibration: Calibration = {("weight", "input"): stored} if stored else {}
    settings = Settings(score="weight", position="input")
    _, (choice,) = align_and_choose(Aligner(Direction(PrunedRecorder(), settings, calibration=calibration)), pairs(80))
    assert choice.place == Place(stored or Cell(RIGHT.layer, "all"))
