"""Texts with keyphrases: which words belong to one, and files that are something else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.analysis.data.keyphrases import EXPECTED, Corpus, Document, find_phrases, read_keyphrases, runs
from align.core.errors import DataError
from tests.analysis.made import made_documents, write_documents

WORDS = st.lists(st.sampled_from(["a", "B", "c"]), min_size=1, max_size=8)
DOCUMENTS = st.builds(
    Document,
    st.just("test"),
    st.lists(WORDS.map(tuple), max_size=3).map(tuple),
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple), unique=True, max_size=4).map(tuple),
)


@given(DOCUMENTS)
def test_words_of_phrases_by_slow_code(document: Document) -> None:
    marks, found = find_phrases(document)
    expected, there = [], set()
    for sentence in document.sentences:
        words = [word.lower() for word in sentence]
        hit = set()
        for phrase in document.phrases:
            for start in range(len(words)):
                if all(words[start + n : start + n + 1] == [word] for n, word in enumerate(phrase)):
                    hit |= {start + n for n in range(len(phrase))}
                    there.add(phrase)
        expected += [n in hit for n in range(len(words))]
    assert marks.tolist() == expected
    assert found == there


def test_phrases_end_with_their_sentence() -> None:
    document = Document("test", (("An", "Old", "House"), ("House", "of", "Cards")), ())
    assert runs(document, np.array([1, 0, 1, 1, 0, 1], bool)) == {("an",), ("house",), ("cards",)}
    assert runs(document, np.array([0, 1, 1, 1, 1, 1], bool)) == {("old", "house"), ("house", "of", "cards")}
    assert runs(document, np.zeros(6, bool)) == set()


def test_scores_of_words_by_place_and_by_rarity() -> None:
    sentences = (("a", "b"), ("A",))
    corpus = Corpus(
        [Document("train", sentences, ()), Document("train", (("a",),), ()), Document("test", (("b", "a"),), ())]
    )
    assert corpus.position_scores().tolist() == [0, -1, -2, 0, 0, -1]
    common, rare = 1 + np.log(3 / 3), 1 + np.log(3 / 2)
    assert corpus.tf_idf_scores().tolist() == pytest.approx([2 * common, rare, 2 * common, common, rare, common])
    assert corpus.within("test").tolist() == [False] * 4 + [True] * 2


def test_a_file_is_read(tmp_path: Path) -> None:
    documents = made_documents(each=1)
    documents[0]["keyphrases"] = ["Das  HAUS", "das haus", "  nichts "]
    documents[0]["sentences"] = [["das", "Haus"], [], ["x"]]
    first, *rest = read_keyphrases(str(write_documents(tmp_path / "a", documents)), "a")
    assert first == Document("train", (("das", "Haus"), ("x",)), (("das", "haus"), ("nichts",)))
    assert [document.split for document in rest] == ["dev", "test"]
    assert Corpus([first]).found == [1]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"split": "train", "sent', EXPECTED),
        ('{"split": "all", "sentences": [], "keyphrases": []}', EXPECTED),
        ('{"split": "dev", "sentences": [["a"]], "keyphrases": [["a"]]}', EXPECTED),
        ('{"split": "dev", "sentences": [["a"]], "keyphrases": "a"}', EXPECTED),
        ('{"split": "dev", "sentences": ["abc"], "keyphrases": ["a"]}', EXPECTED),
        (r'{"split": "dev", "sentences": [["\ud800"]], "keyphrases": ["a"]}', EXPECTED),
    ],
)
def test_lines_that_are_something_else(tmp_path: Path, line: str, error: str) -> None:
    path = tmp_path / "a"
    path.write_text(json.dumps(made_documents(each=1)[0]) + "\n" + line + "\n")
    with pytest.raises(DataError, match=r"^a, line 2: ") as caught:
        read_keyphrases(str(path), "a")
    assert error in str(caught.value)


def test_a_part_of_the_data_is_missing(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "a", made_documents(each=1)[:2])
    with pytest.raises(DataError, match=r"^a: no document has the \"split\" 'test'$"):
        read_keyphrases(str(path), "a")
