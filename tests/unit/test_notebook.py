"""What a notebook shows of an alignment: HTML that is well-formed, has no script, and says what is linked."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.types import MAX_TABLE_WORDS, Alignment, Pair

ALLOWED = {"table", "tr", "th", "td"}


def shown(alignment: Alignment) -> ElementTree.Element:
    return ElementTree.fromstring(alignment._repr_html_())


def test_marked_cells_are_the_links() -> None:
    tree = shown(Alignment(Pair(("das", "Haus"), ("the", "old", "house"), 1), {(0, 0): 1.0, (1, 2): 0.5}))
    rows = [[cell.text or "" for cell in row] for row in tree.iter("tr")]
    assert rows == [["", "the", "old", "house"], ["das", "■", "", ""], ["Haus", "", "", "■"]]
    cells = [cell for cell in tree.iter("td") if cell.text]
    assert [cell.get("title") for cell in cells] == ["1.00", "0.50"]
    assert [(cell.get("style") or "").rpartition("background-color:rgba(46,120,214,")[2] for cell in cells] == [
        "1.00)", "0.50)"
    ]  # fmt: skip


@pytest.mark.parametrize(("score", "share"), [(0.0, "0.20"), (3.5, "1.00"), (-1.0, "0.20"), (float("nan"), "0.20")])
def test_every_link_is_visible_whatever_its_score(score: float, share: str) -> None:
    assert f"214,{share})" in Alignment(Pair(("a",), ("b",), 1), {(0, 0): score})._repr_html_()


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3), st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_whatever_words_hold_is_text(source: list[str], target: list[str]) -> None:
    tree = shown(Alignment(Pair((*source, "<script>"), tuple(target), 1), {(0, 0): 0.5}))
    assert {node.tag for node in tree.iter()} <= ALLOWED
    assert {name for node in tree.iter() for name in node.attrib} & {"onclick", "onload", "href", "src"} == set()
    words = [word.text for word in tree.iter("th")]
    assert len(words) == len(source) + 1 + len(target)
    assert all(word and word.isprintable() and len(word) <= 24 for word in words)


@pytest.mark.parametrize("words", [(), ("a",) * (MAX_TABLE_WORDS + 1)])
def test_without_words_or_with_many_it_is_the_line(words: tuple[str, ...]) -> None:
    links = {(0, 0): 1.0} if words else {}
    assert Alignment(Pair(words, ("x",), 1), links)._repr_html_() == f"<code>{'0-0' if words else ''}</code>"
