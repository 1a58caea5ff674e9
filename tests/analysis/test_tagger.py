"""The tagger: against a naive layer, and on texts that only attention of some kind can tag."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from align.analysis.adversary import (
    NEVER,
    UNKNOWN,
    Learning,
    Probe,
    Tagger,
    Vocabulary,
    exclusive,
    learn,
    positions,
    read,
    shape_of,
    uniform,
)
from align.analysis.commands.questions import Adversary
from align.analysis.data.chunks import Sentence, count_chunks, f1

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = Learning(heads=2, width=16, epochs=6, drop=0.0)
WORDS = ["alpha", "beta", "gamma", "delta", "omega"]


def after_delta(count: int, seed: int) -> list[Sentence]:
    """Sentences in which a word is B-X if the one before it is "delta": no word's own form says so."""
    draw = random.Random(seed)
    texts = [tuple(draw.choices(WORDS, k=draw.randint(1, 7))) for _ in range(count)]
    return [
        Sentence(words, ("N",) * len(words), tuple("B-X" if word == "delta" else "O" for word in ("", *words[:-1])))
        for words in texts
    ]


TRAIN, TEST = after_delta(250, 1), after_delta(60, 2)


@pytest.mark.parametrize(
    ("word", "shape"),
    [("Rockwell", "Aa"), ("U.S.", "A.A."), ("1,234.5", "0,0.0"), ("'s", "'a"), ("...", "."), ("aB1aB1aB1", "aA0aA0")],
)
def test_shapes(word: str, shape: str) -> None:
    assert shape_of(word) == shape


def test_batches_hold_every_sentence_once() -> None:
    vocabulary = Vocabulary(TRAIN)
    batches = vocabulary.batches(TEST, 20)
    assert sorted(n for batch in batches for n in batch.numbers) == list(range(len(TEST)))
    assert all(batch.mask.numel() <= 20 for batch in batches)
    for batch in batches:
        assert batch.mask.sum(1).tolist() == [len(TEST[n].words) for n in batch.numbers]
        assert (batch.features[~batch.mask] == 0).all()
    unseen = vocabulary.batches([Sentence(("Zeta9",), ("N",), ("B-OTHER",))])[0]
    assert unseen.features.tolist() == [[[UNKNOWN] * 3]]
    assert unseen.tags.tolist() == [[0]]


def test_attention_against_loops() -> None:
    vocabulary = Vocabulary(TRAIN)
    torch.manual_seed(1)
    tagger = Tagger(vocabulary, SMALL).eval()
    (batch,) = vocabulary.batches(TEST[:3], 100)
    with torch.no_grad():
        found = tagger(batch)
        for b, n in enumerate(batch.numbers):
            t = len(TEST[n].words)
            x = tagger.embedding(batch.features[b : b + 1, :t])[0] + 2 * positions(t, 16)
            q, k = tagger.query(x).view(t, 2, 8), tagger.key(x).view(t, 2, 8)
            for h in range(2):
                for i in range(t):
                    scores = [float(q[i, h] @ k[j, h]) / math.sqrt(8) for j in range(t)]
                    weights = np.exp(scores) / np.exp(scores).sum()
                    np.testing.assert_allclose(found.attention[b, h, i, :t].exp(), weights, atol=1e-5)
    kept = batch.mask[:, None, None].expand_as(found.attention)
    assert (found.attention[~kept] < NEVER / 2).all()
    np.testing.assert_allclose(found.attention.exp().sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(found.tags.exp().sum(-1), 1, atol=1e-5)
    # given attention takes the place of the tagger's own
    even = uniform(batch, 2)
    with torch.no_grad():
        np.testing.assert_allclose(tagger(batch, found.attention).tags, found.tags)
        other = tagger(batch, even)
    assert other.attention is even
    assert not np.allclose(other.tags, found.tags)
    for b, t in enumerate(batch.mask.sum(1).tolist()):
        np.testing.assert_allclose(even[b, 1, 0].exp()[:t], 1 / t, rtol=1e-5)


def test_learns_what_needs_attention() -> None:
    """The tagger finds the word before; a probe does with the tagger's attention, and cannot without."""
    vocabulary = Vocabulary(TRAIN)
    train, test = vocabulary.batches(TRAIN, 60), vocabulary.batches(TEST, 60)
    learning = SMALL._replace(epochs=12, rate=1e-2)
    tagger = learn(Tagger, vocabulary, train, learning)
    outputs = [read(tagger, test)]
    for given in (
        [[one.attention for one in read(tagger, batches)] for batches in (train, test)],
        [[uniform(batch, 2) for batch in batches] for batches in (train, test)],
    ):
        probe = learn(Probe, vocabulary, train, learning, attention=given[0])
        outputs.append(read(probe, test, given[1]))
    tags = [vocabulary.best_tags(output, test) for output in outputs]
    own, guided, blind = (float(f1(count_chunks([one.tags for one in TEST], found).sum(0))) for found in tags)
    assert own > 0.9
    assert guided > 0.8
    assert blind < 0.5


def test_adversaries_move_away() -> None:
    """Lambda drives attention apart, and says so in the table; predictions hold for a small one."""
    told: list[str] = []
    options = Adversary(lambdas=(5.0, 0.0), other_seeds=(2,), threshold=0.1, epochs=40)
    finding = exclusive(TRAIN, TEST, options, told.append, SMALL._replace(rate=1e-2))
    models, probes = finding.tables["models"], finding.tables["probes"]
    assert [row["model"] for row in models.rows] == ["original", "seed 2", "uniform", "adversary 0", "adversary 5"]
    still, moved = (dict[str, Any](row) for row in models.rows[3:])
    assert moved["js"] > still["js"] + 0.3
    assert still["tvd"] < 0.1
    assert (still["side"], moved["side"]) == ("safe point", "beyond")
    assert models.rows[2]["ranks"] != models.rows[2]["ranks"]  # NaN, of rows that are all the same
    assert models.notes[-1].startswith("safe point: JSD 0.")
    assert models.notes[-1].endswith("of at most 0.100, as asked for")
    assert [row["attention"] for row in probes.rows] == ["uniform", "original", "adversary 0", "adversary 5"]
    assert len(told) == 5


def test_without_a_safe_point() -> None:
    options = Adversary(lambdas=(2.0,), other_seeds=(), threshold=0.0, epochs=1)
    models = exclusive(TRAIN, TEST, options, learning=SMALL).tables["models"]
    assert models.notes[-1] == "no safe point: no adversary has a TVD of at most 0.000, as asked for"
    assert models.rows[-1]["side"] == "beyond"
