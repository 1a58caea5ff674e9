"""Embeddings out of files, and a model's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from align.analysis.maps import Encoded, States
from align.analysis.models.translation import TranslationModel
from align.analysis.models.vectors import own_vectors, read_vectors, vectors_of_file
from align.core.errors import DataError
from align.core.types import Pair
from tests.analysis.made import MadeModel, random_maps, tokens

FILE = ["haus 1 2 3", ". . 4 5 6", "alt -1e-2 .5 7 ", "other x y z"]


def test_vectors_of_the_words_that_are_wanted() -> None:
    found = read_vectors(FILE, "glove", {"haus", ". .", "alt", "unknown"})
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "haus": [1, 2, 3],
        ". .": [4, 5, 6],
        "alt": [pytest.approx(-0.01), 0.5, 7],
    }


def test_the_first_line_of_word2vec_is_passed_over() -> None:
    assert list(read_vectors(["4 3", *FILE], "word2vec", {"haus"})) == ["haus"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["haus 1 2 3", "alt 1 2"], "glove, line 2: expected a word and 3 numbers with spaces between; got 'alt 1 2'"),
        (["haus 1 x 3"], "glove, line 1: expected a word and 3 numbers"),
        (["other 1 2 3"], "glove: no word of the text has a vector"),
    ],
)
def test_a_file_of_something_else_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as error:
        read_vectors(lines, "glove", {"haus", "alt"})
    assert str(error.value).startswith(message)


def test_words_are_looked_up_as_they_are_then_in_lower_case(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    path.write_text("Haus 9 9\nhaus 1 2\nalt 3 4\n", encoding="utf-8")
    vectors, known = vectors_of_file(str(path), [["Haus", "Alt"], ["nichts"]])
    assert [one.tolist() for one in vectors] == [[[9, 9], [3, 4]], [[0, 0]]]
    assert known == pytest.approx(2 / 3)


def test_own_vectors_are_means_of_pieces(recorder: Any) -> None:
    pair = Pair(("Unwahrscheinlichkeit", "ist"), (), 1)
    (found,), whose = own_vectors(TranslationModel(recorder), [pair])
    assert whose == "the model's own"
    embedding = recorder.transformer.encoder.embedding
    table = embedding.pieces.float().numpy() * np.float32(embedding.scale)
    pieces = recorder.encode(pair)
    assert pieces.source_words.count(0) > 1
    for word in (0, 1):
        ids = [n for n, part_of in zip(pieces.source, pieces.source_words, strict=True) if part_of == word]
        np.testing.assert_allclose(found[word], table[ids].mean(0), atol=1e-6)


TEXT = tokens("[CLS] gut ##en tag [SEP]")


class Shown(MadeModel):
    """A model that shows its vectors."""

    def batch_states(self, batch: Sequence[Encoded]) -> Iterable[States]:
        return [(TEXT, np.arange(20, dtype=np.float32).reshape(2, 5, 2))] * len(batch)


def test_vectors_of_an_encoder_are_what_goes_into_its_first_layer() -> None:
    model = Shown([{"encoder": random_maps(TEXT, TEXT)}])
    (found,), whose = own_vectors(model, [Pair(("guten", "tag"), (), 1)])
    assert found.tolist() == [[3, 4], [6, 7]]
    assert whose == "the model's own, with positions"
