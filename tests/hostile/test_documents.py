"""Any documents: unchanged ones come out byte for byte, others are read back by lxml, and damage is an error."""

from __future__ import annotations

from contextlib import suppress
from xml.sax.saxutils import escape

import polib
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from align.core.errors import DataError
from align.transfer.documents import read_document
from align.transfer.inline import Inline
from align.transfer.segments import Document

WORDS = st.text(st.sampled_from("ab \tß'\"&<>\u2028\x85"), max_size=12)
CODES = st.sampled_from(("g", "x", "bpt", "ph"))


def inline(content: str, code: str, number: int) -> str:
    """Return text with an inline element of XLIFF."""
    start = f'<{code} id="{number}">'
    return f"{start}{content}</{code}>" if code == "g" else f"{start}&lt;i></{code}>{content}"


TEXTS = st.recursive(
    WORDS.map(escape),
    lambda inner: st.lists(st.builds(inline, inner, CODES, st.integers(0, 99)), max_size=3).map(" <!-- <g> -->".join),
    max_leaves=6,
)
UNITS = st.lists(st.tuples(TEXTS, st.none() | st.just("") | WORDS.map(escape)), min_size=1, max_size=5)


def same(data: bytes, name: str) -> Document:
    """Read a document, which comes out as it is."""
    document = read_document(data, name)
    assert document.fill([None] * len(document.segments)) == data
    return document


@given(UNITS, st.sampled_from(("utf-8", "utf-16", "iso-8859-1")), st.sampled_from(("\n", "\r\n")))
def test_any_xliff(units: list[tuple[str, str | None]], encoding: str, line_end: str) -> None:
    elements = [
        f"<trans-unit id='{n}'><source>{source}</source>" + ("" if target is None else f"<target>{target}</target>")
        for n, (source, target) in enumerate(units)
    ]
    text = f"<?xml version='1.0' encoding='{encoding}'?>\n<xliff>{'</trans-unit>'.join(elements)}</trans-unit></xliff>"
    data = text.replace("\n", line_end).encode(encoding, "xmlcharrefreplace")
    document = same(data, "a.xlf")
    inlines = (Inline.of_segment(segment.source, segment.target or "", "xml") for segment in document.segments)
    placed = [inline.place({}).text for inline in inlines]
    root = etree.fromstring(document.fill(placed))
    for source, target, text in zip(root.iter("source"), root.iter("target"), placed, strict=True):
        codes = (sorted((e.tag, e.get("id")) for e in side.iter("g", "x", "bpt", "ph")) for side in (source, target))
        assert len({*map(tuple, codes)}) == 1
        assert etree.fromstring(f"<target>{text}</target>").xpath("string()") == target.xpath("string()")


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=40), st.text(max_size=90), st.booleans()), max_size=5),
    st.sampled_from((40, 78, 0)),
)
def test_any_po(messages: list[tuple[str, str, bool]], width: int) -> None:
    catalog = polib.POFile(wrapwidth=width)
    for n, (source, target, fuzzy) in enumerate(messages):
        entry = polib.POEntry(msgid=source, msgstr=target, msgctxt=str(n), flags=["fuzzy"] if fuzzy else [])
        catalog.append(entry)
    document = same(f"{catalog}\n".encode(), "a.po")
    wanted = [(source, target) for source, target, fuzzy in messages if not fuzzy]
    read = [(s.source.join(s.line_ends), (s.target or "").join(s.line_ends)) for s in document.segments]
    assert read == wanted
    again = read_document(document.fill([f"ä{s.target or ''}\tb" for s in document.segments]), "a.po")
    assert [s.target for s in again.segments] == [f"ä{s.target or ''}\tb" for s in document.segments]


@given(st.sampled_from(("a.xlf", "a.tmx", "a.po")), st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_anything(name: str, data: bytes) -> None:
    with suppress(DataError):
        same(data, name)
