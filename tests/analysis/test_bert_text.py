"""What a BERT is trained on: where lines are cut, what is hidden, and that every line is read."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from align.analysis.bert.text import (
    CLS,
    HIDDEN,
    MASK,
    NOT_ASKED,
    SEP,
    SPECIAL,
    Example,
    Text,
    collate,
    cut,
    example,
    learn_tokenizer,
    number,
    split,
    training_batches,
)

LINES = ["the old house is old .", "we see the house . it is old .", "the unseen houses are now big , and old", "now"]
C, S, M = (SPECIAL.index(piece) for piece in (CLS, SEP, MASK))


@pytest.fixture(scope="module")
def text() -> Text:
    return number(iter(LINES), learn_tokenizer(iter(LINES * 3), 60, True))


def test_lines_are_cut_behind_sentences_or_between_words(text: Text) -> None:
    random = np.random.default_rng(1)
    line = text.line(1)
    assert {cut(line, text, random) for _ in range(50)} == {int(np.flatnonzero(text.ends[line])[0]) + 1}
    line = text.line(2)
    places = {cut(line, text, random) for _ in range(200)}
    assert all(text.begins[line[place]] for place in places)
    assert 0 not in places
    assert len(places) > 2


def test_examples_are_lines_pairs_and_stretches(text: Text) -> None:
    random = np.random.default_rng(1)
    seen = set()
    for _ in range(400):
        one = example(text, 1, 40, random)
        assert one.ids[0] == C
        assert one.ids[-1] == S
        assert (one.ids == S).sum() == 1 + (one.second != NOT_ASKED)
        assert len(one.ids) == len(one.segments) <= 40
        seen.add(one.second)
        inner = one.ids[one.ids >= len(SPECIAL)]
        if one.second == 0:
            assert np.array_equal(inner, text.line(1))
            first = np.flatnonzero(one.ids == S)[0]
            assert np.array_equal(one.segments, np.arange(len(one.ids)) > first)
        elif one.second == NOT_ASKED:
            assert not one.segments.any()
    assert seen == {0, 1, NOT_ASKED}
    assert len(example(text, 2, 16, random).ids) <= 16


def test_hidden_pieces_are_told_and_no_others() -> None:
    random = np.random.default_rng(1)
    ids = np.concatenate(([C], random.integers(len(SPECIAL), 90, 998), [S]))
    examples = [Example(ids, np.zeros_like(ids), NOT_ASKED), Example(ids[:300], np.zeros(300, np.int64), 1)]
    batch = collate(examples * 20, 90, random)
    asked = batch.pieces != NOT_ASKED
    kept = batch.unpadded.sum()
    assert kept == 20 * 1300
    assert not asked[~batch.unpadded].any()
    assert not asked[:, 0].any()
    assert asked.sum() / kept == pytest.approx(HIDDEN, abs=0.01)
    assert np.array_equal(batch.pieces[0][asked[0]], ids[asked[0]])
    assert np.array_equal(batch.ids[~asked & batch.unpadded], np.tile(ids, 40).reshape(40, -1)[~asked & batch.unpadded])
    assert (batch.ids[asked] == M).mean() == pytest.approx(0.8, abs=0.03)
    assert (batch.ids[asked] == batch.pieces[asked]).mean() == pytest.approx(0.1, abs=0.03)
    assert list(batch.second) == [NOT_ASKED, 1] * 20


def test_batches_are_the_same_for_a_seed_and_go_through_all_lines(text: Text) -> None:
    def first(seed: int) -> list[list[int]]:
        return [batch.ids.ravel().tolist() for batch in islice(training_batches(text, 40, 80, seed), 6)]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_the_last_lines_are_kept_to_validate(text: Text) -> None:
    train, valid = split(text, 1)
    assert (len(train), len(valid)) == (3, 1)
    assert np.array_equal(valid.line(0), text.line(3))
    assert np.array_equal(train.line(2), text.line(2))


def test_capitals_and_accents_are_kept_if_asked_for() -> None:
    lines = ["Élan vital"] * 3
    assert "elan" in learn_tokenizer(iter(lines), 100, True).encode("Élan").tokens
    assert "Élan" in learn_tokenizer(iter(lines), 100, False).encode("Élan").tokens
