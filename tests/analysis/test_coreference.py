"""Paragraphs of GAP's form, mentions in words, and heads that know whom pronouns mean."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.analysis.coreference import coreference, first, nearest, repeated, take, titled
from align.analysis.data.gap import COLUMNS, FEMININE, MASCULINE, Paragraph, cut_words, read_paragraphs
from align.analysis.maps import Encoded
from align.core.errors import DataError
from align.core.text import split_words
from align.core.types import Pair
from tests.analysis.made import MadeModel, random_maps, tokens

HEADER = "\t".join(COLUMNS)
TEXT = "Anna Berg met Clara's aunt; Berg knew that she (Clara) sang."


def row(text: str = TEXT, pronoun: str = "she", a: str = "Anna Berg", b: str = "Clara", **changed: str) -> str:
    """A line of GAP whose mentions are found in the text."""
    fields = {
        "ID": "made-1", "Text": text, "Pronoun": pronoun, "Pronoun-offset": str(text.find(f" {pronoun} ") + 1),
        "A": a, "A-offset": str(text.find(a)), "A-coref": "TRUE", "B": b, "B-offset": str(text.find(b)),
        "B-coref": "FALSE", "URL": "http://example.org/wiki/Clara_Schmidt_(singer)",
    }  # fmt: skip
    return "\t".join((fields | {name.replace("_", "-"): value for name, value in changed.items()}).values())


def read(*rows: str) -> list[Paragraph]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "gap")
        path.write_text("\n".join((HEADER, *rows)), encoding="utf-8")
        return read_paragraphs(str(path))


def test_words_are_cut_at_spaces_and_at_mentions() -> None:
    (found,) = read(row())
    assert found.words[:5] == ("Anna", "Berg", "met", "Clara", "'s")
    assert [found.words[slice(*span)] for span in (found.pronoun, *found.candidates)] == [
        ("she",), ("Anna", "Berg"), ("Clara",),
    ]  # fmt: skip
    assert (found.right, found.gender, found.line) == (0, FEMININE, 2)
    assert found.title == {"Clara", "Schmidt", "(singer)"}
    assert found.pair() == Pair(found.words, (), 2)


@given(st.text(alphabet="ab .\t\xa0é", min_size=1, max_size=30), st.data())
def test_mentions_have_the_words_of_their_characters(text: str, data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=6)))
    spans = list(zip(places[::2], places[1::2], strict=False))
    if any(not text[begin:end].strip(" \t") for begin, end in spans):
        with pytest.raises(ValueError, match="no word at characters"):
            cut_words(text, spans)
        return
    words, found = cut_words(text, spans)
    assert "".join(words) == text.replace(" ", "").replace("\t", "")
    for (begin, end), (one, other) in zip(spans, found, strict=True):
        assert words[one:other] == split_words(text[begin:end])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row().rpartition("\t")[0], "10 TAB-separated columns, but GAP has 11"),
        (row(Pronoun_offset="3"), "'she' does not stand at character 3"),
        (row(B_offset="9" * 5000), f"'Clara' does not stand at character {'9' * 39}… of the text"),
        (row(B_coref="TRUE"), "expected A-coref and B-coref TRUE or FALSE, one TRUE at most; got TRUE TRUE"),
    ],
)
def test_a_line_that_does_not_fit_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read(row(), line)
    assert "gap, line 3: " in str(error.value)
    assert message in str(error.value)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "gap.tsv"
    for text, message in (("a\tb\n", "line 1: expected the header ID Text"), (HEADER + "\n", "no paragraph")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            read_paragraphs(str(path))
    path.write_text("\n".join((HEADER, row(), "cut off")), encoding="utf-8")
    assert len(read_paragraphs(str(path), 1)) == 1


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 40))
def test_windows_hold_all_mentions_and_no_more_words_than_asked(before: int, behind: int, most: int) -> None:
    text = "x " * before + "Anna saw Eva , who smiled when she waved" + " x" * behind
    (found,) = read(row(text + " .", a="Anna", b="Eva"))
    window = found.window(most)
    core = max(found.pronoun[1], found.candidates[1][1]) - found.candidates[0][0]
    assert len(window.words) == core + min(most, len(found.words) - core)
    for one, other in zip(
        (found.pronoun, *found.candidates), (window.pronoun, *window.candidates), strict=True
    ):  # fmt: skip
        assert found.words[slice(*one)] == window.words[slice(*other)]
    assert found.window(len(found.words)) == found


def test_what_is_taken_without_a_model() -> None:
    (found,) = read(row())
    assert (first(found), nearest(found), repeated(found), titled(found)) == (0, 1, 1, 1)
    surname = row("Clara met Anna Berg; Berg knew that she won.", B_coref="FALSE")
    (found,) = read(surname)
    assert (first(found), nearest(found), repeated(found), titled(found)) == (1, 0, 0, 1)


def test_the_candidate_that_is_attended_to_by_its_best_word() -> None:
    (found,) = read(row())
    attention = np.zeros((2, len(found.words), len(found.words)), np.float32)
    pronoun = found.pronoun[0]
    attention[0, pronoun, [0, 1, 3]] = 0.1, 0.4, 0.3  # Anna Berg, Clara
    attention[1, [0, 1, 3], pronoun] = 0.2, 0.1, 0.3
    assert list(take(attention, found)) == [0, 0, 0, 1]


class Reads(MadeModel):
    """A model whose head 2-1 knows whom a pronoun means, and that reads no more words than it is told."""

    def __init__(self, meant: dict[int, Paragraph], longest: int) -> None:
        text = tokens("a </s>")
        super().__init__([{"encoder": random_maps(text, text)}])
        self._meant, self._longest = meant, longest

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        side = tokens(" ".join([*(f"w{n}" for n in range(len(pair.source))), "</s>"]))
        maps = random_maps(side, side, seed=pair.id)
        paragraph = self._meant[pair.id]
        name = paragraph.words[paragraph.candidates[paragraph.right or 0][0]]
        maps.weights[1, 0, pair.source.index("she"), pair.source.index(name)] = 2
        return Encoded(pair, {"encoder": maps}, (1, 0)) if len(pair.source) <= self._longest else None


def sample(count: int) -> list[Paragraph]:
    """Paragraphs of growing length, of which each third means neither candidate."""
    kinds = [("TRUE", "FALSE"), ("FALSE", "TRUE"), ("FALSE", "FALSE")]
    texts = ["x " * n + "Anna saw Eva before she left" + " x" * n for n in range(count)]
    return read(*(
        row(text, a="Anna", b="Eva", A_coref=kinds[n % 3][0], B_coref=kinds[n % 3][1]) for n, text in enumerate(texts)
    ))  # fmt: skip


@pytest.mark.parametrize(("count", "longest"), [(60, 1000), (30, 20)])
def test_a_head_that_knows_is_found(count: int, longest: int) -> None:
    """Paragraphs that are longer than the model reads are cut, and counted."""
    paragraphs = sample(count)
    tables = coreference(Reads({one.line: one for one in paragraphs}, longest), paragraphs).tables
    rows = {row["way"]: row for row in tables["pronouns"].rows}
    best, nearest = rows["most attended, a"], rows["the nearest"]
    assert (best["head"], best["right"]) == ("2-1 p>c", 100)
    assert (nearest["right"], rows["the first"]["right"]) == (50, 50)
    assert (nearest["gain"], best["gain"]) == (None, 50)
    assert (best[FEMININE], best[MASCULINE]) == (100, None)
    assert tables["heads"].rows[3]["weight p>c"] == 100
    cut = 14 if longest == 20 else 0
    assert tables["pronouns"].notes[3] == (
        f"{2 * count // 3} paragraphs, of which {cut} cut; left out: {count // 3} where neither candidate is meant, "
        "0 not readable"
    )
