"""Probes of layers find what was planted in them, and their measures are those of the definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from align.analysis.commands.questions import Layers
from align.analysis.data.chunks import Sentence, f1
from align.analysis.data.treebank import ROOT, Tree
from align.analysis.layers import (
    Probe,
    Task,
    chunk_task,
    expected_layer,
    predict,
    read_words,
    treebank_tasks,
)
from align.analysis.maps import SPECIAL, Encoded, Numbers, States, Tokens
from align.analysis.models.native import own_model
from align.core.errors import DataError
from align.core.types import Pair
from tests.analysis.made import MadeModel

TAGS = ("ADJ", "NOUN", "VERB")
SIZE = 6


class Planted(MadeModel):
    """A model of three layers above its embeddings: only those from `where` on tell a word's first letter.

    Each word has two pieces, of which one holds twice the word's vector, and the other nothing; `long` is too long.
    """

    def __init__(self, where: int) -> None:
        super().__init__([{}])
        self._where, self._random = where, np.random.default_rng(1)

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        return None if "long" in pair.source else Encoded(pair, None, (1, 0))

    def batch_states(self, batch: Sequence[Encoded]) -> Iterator[States]:
        for words in (one.pair.source for one in batch):
            vectors = self._random.normal(size=(4, len(words), SIZE))
            for n, word in enumerate(words):
                vectors[self._where :, n] += 8 * np.eye(SIZE)["anv".index(word[0])]
            pieces = np.repeat(vectors, 2, axis=1)
            pieces[:, ::2] *= 2
            pieces[:, 1::2] = 0
            layers = np.concatenate((np.ones((4, 1, SIZE)), pieces), 1).astype(np.float32)
            numbers = [SPECIAL, *(n for n in range(len(words)) for _ in range(2))]
            yield Tokens(tuple("x" * len(numbers)), tuple(numbers), words), layers


def trees(count: int = 60) -> list[Tree]:
    """Sentences whose tags, and whose relations, are those of the words' first letters."""
    random = np.random.default_rng(2)
    found = []
    for _ in range(count):
        letters = [str(letter) for letter in random.choice(list("anv"), 5)]
        tags = tuple(TAGS["anv".index(letter)] for letter in letters)
        relations = tuple(f"of-{letter}" for letter in letters)
        found.append(Tree(tuple(letters), tags, (ROOT, 0, 0, 1, 1), relations, 1))
    return found


OPTIONS = Layers(hidden=0, epochs=250)


def test_probes_find_the_layer_where_it_is() -> None:
    where = 2
    for task in treebank_tasks(Planted(where), trees(), 2, 1):
        told = predict(task, OPTIONS, lambda _: None)
        scores, _ = told.scores(1)
        assert scores[where] > 0.95
        assert scores[where - 1] < 0.6
        assert expected_layer(scores) == pytest.approx(where, abs=0.35)
        assert np.diff(scores).argmax() + 1 == where
        assert (told.shares[:, :where] < 0.25).all()
        assert (told.shares @ np.arange(4) > 1.5 + 0.3 * (where - 1)).all()
        assert told.shares.sum(1) == pytest.approx(1)


def test_tasks_are_of_the_words() -> None:
    sentences = trees(4)
    sentences[1] = sentences[1]._replace(words=("long", *sentences[1].words[1:]))
    tags, relations = treebank_tasks(Planted(1), sentences, 2, 1)
    assert tags.labels == TAGS
    assert sorted(set(tags.sentences)) == [0, 2, 3]
    assert [tags.labels[n] for n in tags.gold[:5]] == list(sentences[0].tags)
    assert relations.places[:4].tolist() == [[1, 0], [2, 0], [3, 1], [4, 1]]
    assert len(relations.gold) == 3 * 4
    assert relations.words[4].tolist() == [6, 5]
    assert tags.states.shape == (15, 4, SIZE)
    with pytest.raises(ValueError, match="5 parts need 5 sentences: the model can read 3: lower folds"):
        treebank_tasks(Planted(1), sentences, 5, 1)
    with pytest.raises(ValueError, match="there is no sentence that the model can read"):
        treebank_tasks(Planted(1), sentences[1:2], 2, 1)


def test_words_are_the_means_of_their_pieces() -> None:
    pieces: Numbers = np.random.default_rng(1).normal(size=(2, 5, 3)).astype(np.float32)
    side = Tokens(tuple("abcde"), (SPECIAL, 0, 0, 2, SPECIAL), ("x", "y", "z"))

    class Fixed(Planted):
        def batch_states(self, batch: Sequence[Encoded]) -> Iterator[States]:
            return ((side, pieces) for _ in batch)

    found, starts, read = read_words(Fixed(0), [("x", "y", "z"), ("long",), ("x", "y", "z")])
    assert (starts.tolist(), read) == ([0, -1, 3], [0, 2])
    assert found.dtype == torch.float16
    assert found[0].numpy() == pytest.approx(pieces[:, 1:3].mean(1), abs=1e-2)
    assert not found[1].any()  # no piece is its
    assert found[2].numpy() == pytest.approx(pieces[:, 3], abs=1e-2)
    assert torch.equal(found[3:], found[:3])


def test_chunks_are_scored_as_chunks() -> None:
    def sentence(letters: str, tags: str) -> Sentence:
        return Sentence(tuple(letters), tuple("X" * len(letters)), tuple(tags.split()))

    train = [sentence("anv", "B-NP I-NP O")] * 20
    test = [sentence("anva", "B-NP I-NP O B-NP"), sentence("n", "O"), Sentence(("long",), ("X",), ("O",))]
    task = chunk_task(Planted(0), train, test)
    ((_, predicted),) = task.folds
    assert predicted.tolist() == [60, 61, 62, 63, 64]
    best = task.gold.copy()
    assert task.count(best).tolist() == [[2, 2, 2], [0, 0, 0]]
    best[61] = task.labels.index("B-NP")  # a chunk of two words becomes two
    assert task.count(best).tolist() == [[1, 3, 2], [0, 0, 0]]
    assert f1(task.count(best).sum(0)) == pytest.approx(2 / 5)
    told = predict(task, OPTIONS, lambda _: None)
    assert told.scores(1)[0][0] == pytest.approx(4 / 5)  # the second sentence's word is always inside
    for part in ([], test[2:]):
        with pytest.raises(DataError, match=r"b\.txt: there is no sentence to score that the model can read"):
            chunk_task(Planted(0), train, part, ("a.txt", "b.txt"))
    with pytest.raises(DataError, match=r"a\.txt: there is no sentence to train on"):
        chunk_task(Planted(0), test[2:], train, ("a.txt", "b.txt"))
    with pytest.raises(DataError, match=r"a\.txt and b\.txt: there is no sentence that the model can read"):
        chunk_task(Planted(0), test[2:], test[2:], ("a.txt", "b.txt"))


def test_a_probe_is_what_the_paper_says() -> None:
    torch.manual_seed(1)
    probe = Probe(3, 2 * 4, 5, 7)
    with torch.no_grad():
        probe.mix.copy_(torch.tensor([0.3, -1.0, 2.0]))
        probe.gamma.fill_(1.7)
    x = torch.randn(6, 2, 3, 4)
    shares = np.exp([0.3, -1.0, 2.0]) / np.exp([0.3, -1.0, 2.0]).sum()
    mixed = 1.7 * sum(float(share) * x[:, :, layer] for layer, share in enumerate(shares))
    torch.testing.assert_close(probe(x), probe.classify(torch.as_tensor(mixed).flatten(1)))
    assert len(Probe(3, 8, 0, 7).classify) == 1


def test_expected_layer() -> None:
    scores = np.array([0.5, 0.6, 0.6, 0.8])
    assert expected_layer(scores) == pytest.approx((1 * 0.1 + 3 * 0.2) / 0.3)
    assert np.isnan(expected_layer(scores[::-1]))


def test_every_readable_sentence_is_predicted_once_and_never_trained_on() -> None:
    """Sentences that are too long have no part in the folds, which are as even as they can be."""
    bank = [tree._replace(words=("long", *tree.words[1:])) if n < 7 else tree for n, tree in enumerate(trees(15))]
    for task in treebank_tasks(Planted(1), bank, 4, 1):
        assert sorted(np.concatenate([test for _, test in task.folds])) == list(range(len(task.gold)))
        for train, test in task.folds:
            assert not set(task.sentences[train]) & set(task.sentences[test])
            assert len(train) + len(test) == len(task.gold)
            assert len(set(task.sentences[test])) == 2


def test_intervals_are_over_sentences() -> None:
    tags: Task = treebank_tasks(Planted(1), trees(12), 2, 1)[0]
    told = predict(tags, Layers(hidden=0, epochs=1), lambda _: None)
    always = replace(told, best=np.tile(tags.gold, (4, 1)))
    assert (always.scores(1)[1] == 1).all()
    scores, drawn = told.scores(1)
    assert drawn.mean(0) == pytest.approx(scores, abs=0.03)
    assert drawn.std(0).min() > 0


def test_vectors_of_translation_models(toy_recorder: Callable[..., object]) -> None:
    from align.analysis.models.translation import TranslationModel
    from tests import toy

    pairs = [Pair(("das", "haus", "ist"), (), 1), Pair((), ("old",), 2), Pair(("wir", "sehen", ",", "das"), (), 3)]
    for name in ("post-norm", "pre-norm", "wider encoder"):
        recorder = toy_recorder(toy.SHAPES[name])
        first, nothing, last = TranslationModel(recorder).states(pairs)  # type: ignore[arg-type]
        assert nothing is None
        for pair, states in ((pairs[0], first), (pairs[2], last)):
            assert states
            tokens, layers = states
            pieces = recorder.encode(pair)  # type: ignore[attr-defined]
            own = own_model(recorder)  # type: ignore[arg-type]
            ids = torch.tensor([pieces.source])
            with torch.no_grad():
                out = own.encoder(ids, torch.tensor([ids.shape[1]]), return_all_hiddens=True)
            hidden = [*out["encoder_states"][:-1], out["encoder_out"][0]]
            assert len(tokens) == ids.shape[1]
            torch.testing.assert_close(torch.tensor(layers), torch.cat(hidden, 1).transpose(0, 1), atol=1e-5, rtol=1e-4)
