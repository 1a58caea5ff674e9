"""CoNLL-2000: its files, and F1 of chunks against cases worked out by hand as conlleval has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from align.analysis.data.chunks import Sentence, count_chunks, f1, read_sentences, spans
from align.core.errors import DataError
from tests.conftest import SHARED


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("B-NP B-NP", ["0 1 NP", "1 2 NP"]),
        ("I-NP I-NP", ["0 2 NP"]),  # no B- where a chunk begins
        ("O I-VP O I-VP", ["1 2 VP", "3 4 VP"]),
        ("B-NP I-VP I-VP", ["0 1 NP", "1 3 VP"]),  # an I- of another kind
        ("B-NP I-NP B-VP I-NP", ["0 2 NP", "2 3 VP", "3 4 NP"]),
        ("B-NP-X I-NP-X", ["0 2 NP-X"]),
    ],
)
def test_spans(tags: str, expected: list[str]) -> None:
    wanted = {(int(start), int(end), kind) for start, end, kind in map(str.split, expected)}
    assert spans(tags.split()) == wanted


def test_f1_by_hand() -> None:
    gold = [["B-NP", "I-NP", "O", "B-VP"], ["B-PP", "B-NP"], ["O", "O"]]
    found = [["B-NP", "O", "O", "B-VP"], ["B-PP", "B-VP"], ["I-NP", "O"]]
    counts = count_chunks(gold, found)
    assert counts.tolist() == [[1, 2, 2], [1, 2, 2], [0, 1, 0]]
    assert f1(counts.sum(0)) == pytest.approx(2 * 2 / (5 + 4))  # precision 2/5, recall 2/4
    assert np.isnan(f1(count_chunks([["O"]], [["O"]]).sum(0)))
    assert f1(counts).tolist() == [0.5, 0.5, 0.0]


def test_reads_sentences(tmp_path: Path) -> None:
    path = tmp_path / "chunks.txt"
    path.write_bytes(b"\nHe PRP B-NP\r\nruns\tVBZ\tB-VP\n\n \n\xc2\xa0 SYM O\nlast NN I-NP")
    assert read_sentences(str(path)) == [
        Sentence(("He", "runs"), ("PRP", "VBZ"), ("B-NP", "B-VP")),
        Sentence(("\xa0", "last"), ("SYM", "NN"), ("O", "I-NP")),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "He PRP B-NP\n\nruns VBZ\n",
            "line 3: expected a word, its part of speech and a tag such as B-NP, I-NP or O; got 'runs VBZ'",
        ),
        ("a b B-\n", "line 1: expected a word, its part of speech and a tag"),
        ("\n\n", "no sentence in it"),
    ],
)
def test_refuses_other_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "chunks"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_sentences(str(path))


def test_the_baseline_that_was_published() -> None:
    """The commonest tag of each part of speech: precision 72.58, recall 82.14, F1 77.07 (the shared task's README)."""
    if not (folder := SHARED / "analysis").is_dir():
        pytest.skip("needs analysis/conll2000-*.txt in the shared data (or $EXTRACT_ALIGN_DATA)")
    train, test = (read_sentences(str(folder / f"conll2000-{name}.txt")) for name in ("train", "test"))
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for speech, tag in zip(sentence.speech, sentence.tags, strict=True):
            tags[speech][tag] += 1
    common = {speech: counts.most_common(1)[0][0] for speech, counts in tags.items()}
    found = [[common[speech] for speech in sentence.speech] for sentence in test]
    counts = count_chunks([sentence.tags for sentence in test], found).sum(0)
    right, chunks, gold = counts
    assert (len(train), len(test)) == (8936, 2012)
    scores = right / chunks, right / gold, f1(counts)
    assert [round(100 * float(score), 2) for score in scores] == [72.58, 82.14, 77.07]
