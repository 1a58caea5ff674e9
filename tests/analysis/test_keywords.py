"""Key words by attention: planted heads are found, scores are right, fine-tuning learns a planted rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from align import load
from align.analysis.commands.questions import Keywords
from align.analysis.data.keyphrases import Corpus, Document
from align.analysis.keywords import (
    Encoder,
    Marker,
    Sentence,
    ablate,
    best_threshold,
    judge_marks,
    keywords,
    own_encoder,
    predict,
    ranking,
    read_corpus,
    read_sentences,
    received,
    score,
    sum_heads,
)
from align.analysis.maps import Maps, Tokens
from align.analysis.models.encoder import load_encoder
from align.analysis.models.native import own_model
from align.analysis.models.translation import TranslationModel
from align.core.types import Part
from align.models.engine.forward import Layout
from tests import hugging
from tests.analysis.made import MadeModel, made_documents, random_maps, tokens
from tests.hugging_encoders import save_encoder

OPTIONS = Keywords(samples=20, epochs=0)


def made_corpus(each: int = 4, sentences: int = 3) -> Corpus:
    """Documents whose key words are known."""
    return Corpus(
        [
            Document(one["split"], tuple(map(tuple, one["sentences"])), tuple((key,) for key in one["keyphrases"][:3]))
            for one in made_documents(each, sentences)
        ]
    )


def looking_at(corpus: Corpus, cell: tuple[int, int], share: float = 0.9) -> MadeModel:
    """A model in which one head looks at key words, and the others anywhere."""
    maps = list[Mapping[Part, Maps]]()
    start = 0
    for sentence in (one for document in corpus.documents for one in document.sentences):
        side = Tokens((*sentence, "</s>"), (*range(len(sentence)), -1), sentence)
        made = random_maps(side, side, seed=start)
        key = np.append(corpus.gold[start : start + len(sentence)], False)
        made.weights[cell] = (1 - share) / len(key) + share * key / key.sum()
        maps.append({"encoder": made})
        start += len(sentence)
    return MadeModel(maps)


def test_attention_that_words_receive() -> None:
    side = tokens("[CLS] key ##word is rest")
    maps = random_maps(side, side)
    values, there = received(maps)
    assert values.shape == (2, 3, 6)
    assert there.all()
    rows = maps.weights[1, 2]  # the cell numbered 5
    words = [rows[1:3].mean(0), rows[3], rows[4]]
    assert values[0, 0, 5] == pytest.approx(3 * np.mean([row[1] + row[2] for row in words]), rel=1e-5)
    norms = maps.norms[1, 2] / maps.norms[1, 2].sum(1, keepdims=True)
    words = [norms[1:3].mean(0), norms[3], norms[4]]
    assert values[1, 2, 5] == pytest.approx(3 * np.mean([row[4] for row in words]), rel=1e-5)


def test_measures_of_heads_on_known_attention() -> None:
    corpus = Corpus([Document("train", (("key", "word", "and", "rest"),), (("key", "word"),))])
    values = np.array([[[2, 2, 0, 0], [1, 1, 1, 1], [0, 0, 2, 2]]] * 2, float).transpose(0, 2, 1)  # [2, W, C]
    sums = sum_heads(corpus, values, np.ones(4, bool))
    assert sums.relative[0].tolist() == [[2, 0, -2]]
    assert sums.entropy[0, 0, :2] == pytest.approx([np.log(2), np.log(4)])  # the least, and that of even attention
    assert 20 < sums.entropy[0, 0, 2] < np.inf
    assert (sums.even.tolist(), sums.sentences.tolist()) == ([np.log(4)], [1])


def test_a_planted_head_is_found() -> None:
    corpus = made_corpus()
    model = looking_at(corpus, (1, 1))
    finding = keywords(model, corpus, OPTIONS)
    heads = {row["rank"]: (row["layer"], row["head"]) for row in finding.tables["heads"].rows}
    assert heads[1] == (2, 2)
    best = next(row for row in finding.tables["heads"].rows if row["rank"] == 1)
    # key words have a share of 0.9 / 3 each, ten words make an even share of 1; no others differ
    assert best["relative_weights"] == pytest.approx(10 * 0.3, abs=1e-4)
    found: dict[Any, Any] = {row["by"]: row for row in finding.tables["found"].rows}
    for name in ("gold words", "best head, weights", "all heads, weights"):
        assert found[name]["f1"] == 100
    assert found["first words"]["f1"] < 80
    assert list(finding.figures) == ["heads"]
    assert finding.figures["heads"]()


def test_sentences_that_are_not_read_have_no_key_words() -> None:
    corpus = made_corpus()
    model = looking_at(corpus, (0, 0))
    model._maps = [maps if n % 3 else {} for n, maps in enumerate(model._maps)]
    attention, read = read_corpus(model, corpus)
    assert read.reshape(-1, 10).all(1).tolist() == [n % 3 > 0 for n in range(36)]
    assert sum_heads(corpus, attention, read).sentences.tolist() == [2, 2, 2, 2]
    tables = keywords(model, corpus, OPTIONS).tables
    assert [row["unread"] for row in tables["data"].rows] == [40, 40, 40]
    best = next(row for row in tables["found"].rows if row["by"] == "best head, weights")
    assert (best["precision"], best["recall"]) == (100, pytest.approx(200 / 3))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_is_better(words: list[tuple[int, bool]]) -> None:
    scores, gold = np.array([one for one, _ in words], float), np.array([key for _, key in words])

    def f1(threshold: float) -> float:
        marks = scores >= threshold
        return float(2 * (marks & gold).sum() / (marks.sum() + gold.sum()))

    chosen = best_threshold(scores, gold)
    assert chosen in scores
    assert f1(chosen) == max(map(f1, scores))


def test_scores_are_those_of_scikit_learn() -> None:
    corpus, options = made_corpus(each=6), Keywords(samples=200)
    marks = np.random.default_rng(1).random(len(corpus.gold)) < 0.4
    words, phrases = judge_marks(corpus, marks, options)
    *scores, ends = words
    test = corpus.within("test")
    expected = precision_recall_fscore_support(corpus.gold[test], marks[test], average="binary")
    assert scores == pytest.approx([100 * value for value in expected[:3]])
    assert ends is not None
    assert ends.low < scores[2] < ends.high
    assert judge_marks(corpus, marks, options) == (words, phrases)
    assert judge_marks(corpus, corpus.gold, Keywords(samples=0))[0] == (100, 100, 100, None)
    assert score([(0, 0, 0)], 5, 1)[:3] == (0, 0, 0)


# Fine-tuning.


def test_vectors_of_words_are_means_of_their_pieces() -> None:
    table = torch.randn(10, 4)
    encoder = Encoder(
        torch.nn.Linear(1, 1), lambda words: None, lambda module, ids, kept: table[ids] * kept[..., None], 4, 0
    )
    marker = Marker(encoder)
    with torch.no_grad():
        logits, there = marker([Sentence([3, 4, 5, 6], [-1, 0, 0, 2], 0), Sentence([7, 8], [0, -1], 0)])
        assert there.tolist() == [[True, False, True], [True, False, False]]
        expected = [table[[4, 5]].mean(0), table[6], table[7]]
        assert torch.allclose(logits[there], marker.linear(torch.stack(expected))[:, 0], atol=1e-6)


@pytest.mark.parametrize("kind", ["fairseq", "marian"])
def test_an_encoder_gives_what_our_own_pass_gives(
    toy_recorder: Callable[..., Any], tmp_path: Path, kind: str, one_thread: None
) -> None:
    if kind == "fairseq":
        recorder: Any = toy_recorder()
    else:
        hugging.save_model(kind, tmp_path / "hf")
        recorder = load(str(tmp_path / "hf"), device="cpu").forward.recorder
    encoder = own_encoder(TranslationModel(recorder))
    texts = [("das", "haus", "ist", "alt"), ("wir",)]
    ids = [pieces for pieces, _ in filter(None, map(encoder.read, texts))]
    longest = max(map(len, ids))
    padded = torch.tensor([[*one, *[encoder.pad] * (longest - len(one))] for one in ids])
    kept = torch.tensor([[n < len(one) for n in range(longest)] for one in ids])
    with torch.no_grad():
        found = encoder.vectors(encoder.module.eval(), padded, kept)  # [B, S, D]
    assert found.shape[2] == encoder.size
    for n, one in enumerate(ids):
        layout = Layout.of(torch.ones(1, len(one), dtype=torch.bool))
        alone = layout.pad(recorder.transformer.encode(layout.flatten(torch.tensor([one])[..., None])[:, 0], layout))
        assert torch.allclose(found[n, : len(one)], alone[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["fairseq", "bert"])
def test_fine_tuning_learns_which_words_are_key_words(
    toy_recorder: Callable[..., Any], tmp_path: Path, kind: str, one_thread: None
) -> None:
    corpus = made_corpus(each=8)
    if kind == "bert":
        model: Any = load_encoder(save_encoder(tmp_path / "bert"))
        module = model.model
    else:
        model = TranslationModel(toy_recorder())
        module = own_model(model.recorder)
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    ranked = ranking(sum_heads(corpus, *read_corpus(model, corpus)))
    drawn = torch.get_rng_state()
    options = Keywords(samples=0, epochs=50, rate=0.01, random_orders=2)  # a toy BERT spells words by letters
    judged, tables, figure = ablate(model, corpus, ranked, options)
    f1 = judged[0][2]
    losses = [float(str(row["loss"])) for row in tables["tuning"].rows]
    assert losses[-1] < losses[0] / 2
    assert f1 > 85
    rows = tables["ablation"].rows
    assert [row["removed"] for row in rows] == ([0, 2, 4, 6, 8, 10, 12] if kind == "bert" else [0, 1, 3, 4, 5, 7, 8])
    assert rows[0]["worst"] == rows[0]["best"] == rows[0]["random"] == pytest.approx(f1)
    assert rows[-1]["worst"] == rows[-1]["best"] == rows[-1]["random"]
    assert figure()
    assert torch.equal(torch.get_rng_state(), drawn)
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, before[name]), name
    if kind == "bert":  # which takes long
        return
    assert ablate(model, corpus, ranked, options)[:2] == (judged, tables)


def test_words_that_are_not_read_are_unlikely(toy_recorder: Callable[..., Any]) -> None:
    encoder = own_encoder(TranslationModel(toy_recorder()))
    corpus = Corpus([Document("test", (("das", "haus"), ("alt",) * 100), ())])
    sentences = read_sentences(corpus, "test", encoder)
    assert [one.start for one in sentences] == [0]  # the other is longer than the model takes
    assert np.isfinite(predict(Marker(encoder), sentences, 102)).nonzero()[0].tolist() == [0, 1]
