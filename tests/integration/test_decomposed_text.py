"""Other spellings of letters and hyphens change no link, and offsets are those of the line as it was given."""

import re
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from align import Aligner, Alignment, load
from align.io.reader import read_bitext
from tests.conftest import EXAMPLES, example_pairs

Change = Callable[[str], str]


def decompose(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def insert(character: str) -> Change:
    """Make what puts a character into each longer word."""
    return lambda text: re.sub(r"[^\W\d_]{4,}", lambda word: f"{word[0][:2]}{character}{word[0][2:]}", text)


CHANGES = {"decomposed": decompose, "decomposed, soft hyphens": lambda text: decompose(insert("\xad")(text))}


def scores_of(alignments: Iterator[Alignment]) -> list[dict[tuple[int, int], float]]:
    return [dict(alignment.scores) for alignment in alignments]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_examples_keep_their_links(both_models: Aligner, change: Change) -> None:
    lines = EXAMPLES.read_text(encoding="utf-8").split("\n")[:-1]
    assert any(change(line) != line for line in lines)
    for aligner in (load("de-en"), both_models):
        changed = read_bitext(map(change, lines), "examples")
        assert scores_of(aligner(changed)) == scores_of(aligner(example_pairs()))


HYPHENS = [
    ("die E-Mail zur U-Bahn - Linie kostet -5 Euro .", "the e-mail on the under-ground line costs -5 euros ."),
    ("-", "-"),
]


@pytest.mark.parametrize("hyphen", "\u2010\u2011\u2212")
def test_all_hyphens_have_the_same_links(both_models: Aligner, hyphen: str) -> None:
    changed = [(source.replace("-", hyphen), target.replace("-", hyphen)) for source, target in HYPHENS]
    for aligner in (load("de-en", layer=1), both_models):
        expected, found = ([*aligner(text)] for text in (HYPHENS, changed))
        assert scores_of(iter(found)) == scores_of(iter(expected))
        assert [(" ".join(one.pair.source), " ".join(one.pair.target)) for one in found] == changed
