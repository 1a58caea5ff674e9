"""What a BERT is trained on: where lines are cut, what is hidden, and that every line is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

from align.analysis.bert.run import IGNORED, collator, cut, learn_tokenizer, make_example
from align.analysis.bert.settings import Settings

LINES = ["the old house is old .", "we see the house . it is old .", "the unseen houses are now big , and old", "now"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return learn_tokenizer(iter(LINES * 3), Settings(pieces=60, longest=40))


def test_lines_are_cut_behind_sentences_or_between_words() -> None:
    random = np.random.default_rng(1)
    assert {cut(LINES[1].split(), random) for _ in range(50)} == {5}
    assert {cut(LINES[2].split(), random) for _ in range(200)} == {3, 4, 5, 6}
    assert cut(["two", "words"], random) == 1


def test_examples_are_lines_pairs_and_stretches(tokenizer: Any) -> None:
    random, seen, lengths = np.random.default_rng(1), set(), set()
    whole = tokenizer(LINES[1], add_special_tokens=False).input_ids
    for _ in range(400):
        example = make_example(tokenizer, LINES, 1, random)
        text = tokenizer.convert_ids_to_tokens(example["input_ids"])
        label = example["next_sentence_label"]
        assert (text[0], text[-1]) == ("[CLS]", "[SEP]")
        assert text.count("[SEP]") == 1 + (label != IGNORED)
        assert len(text) <= 40
        seen.add(label)
        lengths.add(len(text))
        if label == 0:
            assert [n for n in example["input_ids"] if n >= 5] == whole
            first = text.index("[SEP]")
            assert example["token_type_ids"] == [int(n > first) for n in range(len(text))]
    assert seen == {0, 1, IGNORED}
    assert len(lengths) > 3  # stretches have random lengths


def test_hidden_pieces_are_told_and_no_others(tokenizer: Any) -> None:
    one = {**tokenizer(" ".join(LINES[:3]), return_special_tokens_mask=True), "next_sentence_label": IGNORED}
    two = {**tokenizer(LINES[0], LINES[1], return_special_tokens_mask=True), "next_sentence_label": 1}
    batch = collator(tokenizer, 1)([one, two] * 200)
    asked, special = batch["labels"] != IGNORED, batch["input_ids"] < 5
    assert asked.sum() / batch["attention_mask"].sum() == pytest.approx(0.15 * 0.9, abs=0.02)
    assert (batch["input_ids"][asked] == tokenizer.mask_token_id).float().mean() == pytest.approx(0.8, abs=0.03)
    assert not (asked & (batch["attention_mask"] == 0)).any()
    assert (batch["input_ids"][~asked & special] != tokenizer.mask_token_id).all()
    assert batch["next_sentence_label"].tolist() == [IGNORED, 1] * 200


def test_capitals_and_accents_are_kept_if_asked_for() -> None:
    for cased, piece in ((False, "elan"), (True, "Élan")):
        assert piece in learn_tokenizer(iter(["Élan vital"] * 3), Settings(cased=cased)).tokenize("Élan")
