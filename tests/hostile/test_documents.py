"""Any documents: unchanged ones come out byte for byte, others are read back by lxml, and damage is an error."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import polib
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from align.core.errors import DataError
from align.transfer.documents import read_document, refuse_unread
from align.transfer.inline import Inline
from align.transfer.lines import find_faults
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


MARKS = st.sampled_from(("{a}", "%s", "${b}", "{{c}}", "<br/>", "<i>", "<a href='x'>", "<!-- <b> -->"))


@given(st.lists(MARKS, max_size=6), st.data())
def test_what_is_missing_or_too_much_is_found_wherever_the_rest_is(marks: list[str], data: st.DataObject) -> None:
    """Each tag in any order is no fault; one that is left out or doubled is the only one."""
    elements = [f"{mark}Wort</{mark[1]}>" if mark[:2] in ("<i", "<a") else mark for mark in marks]
    source, target = (" und ".join(data.draw(st.permutations(elements))) for _ in range(2))
    assert find_faults(source, target, "xml,placeholders") == find_faults(source, target, "html,placeholders") == []
    codes = [mark for mark in elements if mark[:2] != "<!"]
    if codes:
        changed = data.draw(st.sampled_from(codes))
        tag = changed.partition("Wort")[0]
        found = find_faults(source, target.replace(changed, "", 1), "html,placeholders")
        assert found == [f"{tag} is missing"]
        found = find_faults(source, f"{target} {changed}", "html,placeholders")
        assert found == [f"{tag} is not in the source"]


LINE = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=9)
VALUES = st.recursive(
    LINE | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LINE, inner, max_size=3),
    max_leaves=6,
)
JSON = st.dictionaries(LINE, VALUES, min_size=1, max_size=4)


@example({"<!--": "/*", "*/": None}, None, False, "0")
@given(JSON, st.sampled_from((None, 2, "\t")), st.booleans(), LINE)
def test_any_json_is_known_unless_text_goes_on(
    tmp_path_factory: pytest.TempPathFactory,
    record: dict[str, object],
    indent: int | str | None,
    ascii: bool,
    text: str,
) -> None:
    path = tmp_path_factory.getbasetemp() / "unnamed"
    written = json.dumps(record, indent=indent, ensure_ascii=ascii)
    for content in (written, f"{written}\n{written}\n", f"[{written}]", written.replace("\n", "\r\n")):
        path.write_text(content, encoding="utf-8", newline="")
        if "|||" not in content.partition("\n")[0]:
            with pytest.raises(DataError, match="the file is JSON"):
                refuse_unread([str(path)])
    first = written.partition("\n")[0]
    for content in (f"{first} ist {text}", f"{text} {written}", f"{first} ||| {written}"):
        if indent is None or "|||" in content:
            path.write_text(content, encoding="utf-8")
            refuse_unread([str(path)])


WORD = st.text("abc äß'&%{}", min_size=1, max_size=9)
STRINGS = st.tuples(WORD, WORD).map(lambda pair: f'"{pair[0]}" = "{pair[1]}";\n')
TIMES = st.tuples(st.integers(0, 99), st.integers(0, 59), st.sampled_from(",."), WORD).map(
    lambda row: f"{row[0]}\n00:{row[1]:02}:07{row[2]}250 --> 00:59:59{row[2]}999\n<i>{row[3]}</i>\n\n"
)
ITEMS = st.tuples(st.sampled_from(("string", "plurals", "string-array")), WORD).map(
    lambda row: f'  <{row[0]} name="x">{escape(row[1])}</{row[0]}>\n'
)
MESSAGES = st.tuples(WORD, WORD).map(lambda pair: f'#. note\nmsgid "{pair[0]}"\nmsgstr "{pair[1]}"\n')


@given(st.sampled_from(((STRINGS, ""), (TIMES, ""), (ITEMS, "<resources>\n"), (MESSAGES, ""))), st.data())
def test_other_files_are_known_unless_their_first_line_is_text(
    tmp_path_factory: pytest.TempPathFactory, kind: tuple[st.SearchStrategy[str], str], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "unnamed"
    items, begin = kind
    content = begin + "".join(data.draw(st.lists(items, min_size=2, max_size=4)))
    mark, line_end = data.draw(st.sampled_from(("", "\ufeff"))), data.draw(st.sampled_from(("\n", "\r\n")))
    path.write_text(mark + content, encoding="utf-8", newline=line_end)
    with pytest.raises(DataError, match="the file is"):
        refuse_unread([str(path)])
    first, _, rest = content.partition("\n")
    for text in (f"Da: {content}", f"{first} da\n", f"{first} ||| {first}\n{rest}"):
        path.write_text(mark + text, encoding="utf-8", newline=line_end)
        if not (kind[0] is MESSAGES and " |" not in text):  # of which the first line is a comment
            refuse_unread([str(path)])


SUITES = os.environ.get("XLIFF_SUITES", "")
FILES = sorted(Path(SUITES).rglob("test-suite/**/*.xlf")) if SUITES else []
TAG = re.compile(r"""(<(?:[^<>"']|"[^"]*"|'[^']*')*>)""")


@pytest.mark.skipif(not SUITES, reason="needs $XLIFF_SUITES, a checkout of OASIS's repository of XLIFF")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_suites_of_oasis(path: Path) -> None:
    """Nothing is new but codes; only a file that is not valid may be an error."""
    try:
        document = read_document(path.read_bytes(), path.name)
    except DataError as error:
        if path.parent.name == "invalid" or "Namespace prefix" in str(error):  # which one of the valid files lacks
            return
        raise
    placed: list[str | None] = [None] * len(document.segments)
    for n, segment in enumerate(document.segments):
        with suppress(ValueError):
            inline = Inline.of_segment(segment.source, segment.target or "", segment.tags)
            if segment.target and inline.missing:
                words = range(min(len(inline.source_words), len(inline.target_words)))
                placed[n] = inline.place({(k, k) for k in words}).text
    filled = document.fill(placed)
    etree.fromstring(filled)
    before, after = TAG.split(document.text), TAG.split(filled.decode())
    assert "".join(before[::2]).split() == "".join(after[::2]).split()
    left = iter(after[1::2])
    added = [tag for own in before[1::2] for tag in iter(lambda: next(left), own)]
    assert all(re.match(r"</?(?:pc|ph|sc|ec|mrk|sm|em|cp)\b", tag) for tag in (*added, *left))
