"""Trees out of CoNLL-U, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.analysis.data.treebank import ROOT, Tree, read_conllu, read_treebank
from align.core.errors import DataError


def row(ordinal: object, word: str, head: object, relation: str = "dep", tag: str = "X") -> str:
    """A line of CoNLL-U."""
    return f"{ordinal}\t{word}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_"


GOOD = [
    "# text = Am See saß er.",
    row("1-2", "Am", "_", "_", "_"),
    row(1, "An", 3, "case", "ADP"),
    row(2, "dem", 3, "det", "DET"),
    row(3, "See", 4, "obl", "NOUN"),
    row("3.1", "was", "_", "_", "_"),
    row(4, "saß", 0, "root", "VERB"),
    row(5, "er selbst", 4, "nsubj", "PRON"),
    "",
]


def read(*lines: str) -> list[Tree]:
    return list(read_conllu(lines, "bank"))


def test_words_are_those_of_multiword_tokens_and_no_empty_nodes() -> None:
    (tree,) = read(*GOOD)
    assert tree.words == ("An", "dem", "See", "saß", "er\xa0selbst")
    assert tree.tags == ("ADP", "DET", "NOUN", "VERB", "PRON")
    assert tree.heads == (2, 2, 3, ROOT, 3)
    assert tree.relations == ("case", "det", "obl", "root", "nsubj")
    assert tree.line == 3
    assert tree.pair().source == tree.words


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("6\tword\t_", "3 TAB-separated columns"),
        (row(6, "word", "9" * 5000), "word 6: expected a form (FORM), the number of its head (HEAD) and DEPREL; got"),
        (row(6, "word", 7), "the heads of word 6 and of those above it do not lead to a root"),
    ],
)
def test_a_line_that_does_not_fit_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read(*GOOD[:-1], line, "")
    assert message in str(error.value)
    assert str(error.value).startswith("bank, line 9: ")


def test_a_file_that_is_cut_off_is_refused() -> None:
    with pytest.raises(DataError, match=r"bank, line 8: the file ends within a sentence.*is the file complete"):
        read(*GOOD[:-1])


def test_files_are_read_as_far_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "bank.conllu"
    path.write_text("\n".join((*GOOD, *GOOD, "damaged", "")) + "\n", encoding="utf-8")
    assert len(read_treebank(str(path), 2)) == 2
    with pytest.raises(DataError, match=r"bank.conllu, line 19: 1 TAB-separated columns"):
        read_treebank(str(path))
    path.write_bytes(b"")
    with pytest.raises(DataError, match="no sentence"):
        read_treebank(str(path))
