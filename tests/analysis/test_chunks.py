"""CoNLL-2000: its files, and F1 of chunks against cases worked out by hand as conlleval has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from align.analysis.data.chunks import Sentence, Span, count_chunks, f1, parse_sentences, read_sentences, spans
from align.core.errors import DataError
from tests.conftest import SHARED


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-NP I-NP O", ["0 2 NP"]),
        ("B-NP B-NP", ["0 1 NP", "1 2 NP"]),
        ("I-NP I-NP", ["0 2 NP"]),  # no B- where a chunk begins
        ("O I-VP O I-VP", ["1 2 VP", "3 4 VP"]),
        ("B-NP I-VP I-VP", ["0 1 NP", "1 3 VP"]),  # an I- of another kind
        ("B-NP I-NP B-VP I-NP", ["0 2 NP", "2 3 VP", "3 4 NP"]),
        ("B-NP-X I-NP-X", ["0 2 NP-X"]),
    ],
)
def test_spans(tags: str, expected: list[str]) -> None:
    wanted = {Span(int(start), int(end), kind) for start, end, kind in map(str.split, expected)}
    assert spans(tags.split()) == wanted


def test_f1_by_hand() -> None:
    gold = [["B-NP", "I-NP", "O", "B-VP"], ["B-PP", "B-NP"], ["O", "O"]]
    found = [["B-NP", "O", "O", "B-VP"], ["B-PP", "B-VP"], ["I-NP", "O"]]
    counts = count_chunks(gold, found)
    assert counts.tolist() == [[1, 2, 2], [1, 2, 2], [0, 1, 0]]
    assert f1(counts.sum(0)) == pytest.approx(2 * 2 / (5 + 4))  # precision 2/5, recall 2/4
    assert np.isnan(f1(count_chunks([["O"]], [["O"]]).sum(0)))
    assert f1(counts).tolist() == [0.5, 0.5, 0.0]


def test_count_refuses_other_lengths() -> None:
    with pytest.raises(ValueError, match="2 and 1 tags"):
        count_chunks([["O", "O"]], [["O"]])
    with pytest.raises(ValueError, match="zip"):
        count_chunks([["O"]], [])


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
        ("He PRP B-NP\n\nruns VBZ\n", "chunks, line 3: 2 fields, not 3: CoNLL-2000 has"),
        ("He PRP B-NP\nHe\n", "chunks, line 2: 1 field, not 3"),
        ("a b O d\n", "chunks, line 1: 4 fields, not 3"),
        ("a b NP\n", "chunks, line 1: 'NP' is no tag such as"),
        ("a b B-\n", "chunks, line 1: 'B-' is no tag such as"),
    ],
)
def test_refuses_other_lines(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        list(parse_sentences(text.splitlines(), "chunks"))
    assert str(error.value).startswith(message)


def test_refuses_files_without_sentences(tmp_path: Path) -> None:
    (tmp_path / "blank").write_text("\n\n")
    (tmp_path / "latin").write_bytes(b"caf\xe9 NN B-NP\n")
    with pytest.raises(DataError, match="blank: no sentence in it"):
        read_sentences(str(tmp_path / "blank"))
    with pytest.raises(DataError, match="latin, line 1: not UTF-8"):
        read_sentences(str(tmp_path / "latin"))


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
