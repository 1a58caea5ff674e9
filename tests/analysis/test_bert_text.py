"""What a BERT is trained on: where lines are cut, what is hidden, and that every line is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

from align.analysis.bert import IGNORED, cut, learn_tokenizer, make_example
from align.analysis.commands.questions import TrainBert

LINES = ["the old house is old .", "we see the house . it is old .", "the unseen houses are now big , and old", "now"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return learn_tokenizer(iter(LINES * 3), TrainBert(pieces=60, longest=40))


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
