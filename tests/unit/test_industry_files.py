"""Documents of several tools' styles: read, filled, and read back with translate-toolkit and lxml."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from align import transfer_markup
from align.core.errors import DataError
from align.transfer.documents import read_document
from align.transfer.inline import MOST, Inline
from align.transfer.markup import ANOTHER, CROSSING, MIXED, MOVED, ORDER, OTHERS, PART, REPEATED
from align.transfer.pages import KEPT, Page

TIKAL = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:okp="okapi-framework:xliff-extensions">
<file original="page.html" source-language="de" target-language="en" datatype="html" okp:inputEncoding="UTF-8">
<body>
<trans-unit id="tu1" resname='a &gt; b' xml:space="preserve">
<source xml:lang="de">Das <g id="1">Haus</g>, das <x id="2"/>ich sah &amp; kenne.</source>
<target xml:lang="en">The house that I saw &amp; know.</target>
<alt-trans match-quality="90"><source>Das <g id="1">Haus</g></source><target>The house</target></alt-trans>
</trans-unit>
<trans-unit id="tu2" translate="no"><source>Nicht <g id="1">das</g></source><target>Not that</target></trans-unit>
  <!-- <source>none</source> -->
<trans-unit id="tu3">
\t<source>Ein <g id="1">Baum</g></source>
</trans-unit>
<trans-unit id="tu4"><source>Ein <g id="1">Baum</g></source>
  <target  state = "new" /></trans-unit>
</body>
</file>
</xliff>
"""

MEMOQ = """\ufeff<?xml version="1.0" encoding="utf-8"?>\r
<xliff version="1.2" xmlns:mq="MQXliff" xmlns="urn:oasis:names:tc:xliff:document:1.2">\r
<file original="a.docx" source-language="de" target-language="en" datatype="x-docx"><body>\r
<trans-unit id="1" mq:status="Confirmed"><source xml:space="preserve">Die <bpt id="1" ctype="bold">{}</bpt>alte \
Datei<ept id="1">{}</ept> fehlt.</source>\r
<target xml:space="preserve">The old file is missing.</target></trans-unit>\r
</body></file></xliff>"""

SDL = """<?xml version="1.0" encoding="utf-8"?>
<xliff xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
<file original="a" source-language="de" target-language="en" datatype="x"><body><trans-unit id="u"><source>Ein \
<g id="5">Haus</g>. Ein Baum.</source><seg-source><mrk mtype="seg" mid="1">Ein <g id="5">Haus</g>.</mrk> \
<mrk mtype="seg" mid="2">Ein <g id="6">Baum</g>.</mrk></seg-source><target><mrk mtype="seg" mid="1">A house.</mrk> \
<mrk mtype="seg" mid="2">A <g id="6">tree</g>.</mrk></target><sdl:seg-defs><sdl:seg id="1"/></sdl:seg-defs>\
</trans-unit><trans-unit id="v"><source>A. B.</source><seg-source><mrk mtype="seg" mid="3">Ein <x id="7"/>.</mrk> \
<mrk mtype="seg" mid="4">Zwei.</mrk></seg-source></trans-unit></body></file></xliff>"""

TWO = """<?xml version="1.0"?>
<xliff version="2.0" srcLang="de" trgLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0"
 xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">
 <file id="f1"><unit id="1">
  <mtc:matches><mtc:match ref="#m"><source>Das <pc id="1">Haus</pc></source><target>A</target></mtc:match></mtc:matches>
  <originalData><data id="d1">&lt;b></data></originalData>
  <segment id="s1">
   <source><sc id="1" dataRef="d1"/>Heute ist <pc id="2">das <ph id="3"/> Haus</pc><ec startRef="1"/> alt.</source>
   <target>Today <pc id="2">the house</pc> is old.</target>
  </segment>
  <ignorable><source> </source></ignorable>
  <segment><source>Neu</source></segment>
 </unit>
 <group id="g" translate="no"><unit id="2"><segment><source>Ein <pc id="1">x</pc></source><target>A</target></segment>\
</unit></group></file>
</xliff>
"""

OMEGAT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx11.dtd">
<tmx version="1.1">
  <header creationtool="OmegaT" segtype="sentence" adminlang="EN-US" srclang="DE" datatype="plaintext"/>
  <body>
    <tu>
      <note>N</note>
      <tuv lang="DE">
       <seg><bpt i="0" x="0">&lt;a0&gt;</bpt>Das Haus<ept i="0">&lt;/a0&gt;</ept> ist <ph x="1">&lt;b/&gt;</ph>alt</seg>
      </tuv>
      <tuv lang="EN-US" changeid="me">
        <seg>The house is old</seg>
      </tuv>
    </tu>
    <tu><tuv lang="DE"><seg>Nur <hi x="1">eins</hi></seg></tuv></tu>
  </body>
</tmx>
"""

GETTEXT = r"""# Translations.
msgid ""
msgstr ""
"Project-Id-Version: x 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. Comment
#: src/a.c:12
#, c-format
msgctxt "menu"
msgid "Cannot open %s"
msgstr "Kann nicht öffnen"

#, fuzzy
#| msgid "Save %s"
msgid "Save %s now"
msgstr "Speichern"

msgid ""
"A long message about the file %s, which is wrapped by gettext because it does "
"not fit.\n"
msgstr ""
"Eine lange Meldung über die Datei, die gettext umbricht, weil sie nicht auf "
"eine Zeile passt.\n"

msgid "%d file in <b>%s</b>"
msgid_plural "%d files in <b>%s</b>"
msgstr[0] "Eine Datei in %s"
msgstr[1] "Dateien in %s"

msgid "Path \"C:\\%s\"\t"
msgstr "Pfad \"C:\\\"\t"

msgid "New"
msgstr ""

#~ msgid "Old %s"
#~ msgstr "Alt"
"""

FILES = {
    "tikal.xlf": TIKAL,
    "a.mqxliff": MEMOQ,
    "a.sdlxliff": SDL,
    "two.xliff": TWO,
    "omegat.tmx": OMEGAT,
    "weblate.po": GETTEXT,
    "crlf.po": GETTEXT.replace("\n", "\r\n"),
}


def fill(name: str, *links: str, text: str | None = None) -> str:
    """The file with its translations completed by links, given for each segment that lacks tags."""
    data = (text or FILES[name]).encode()
    document = read_document(data, name)
    remaining = [*links]
    targets: list[str | None] = []
    for segment in document.segments:
        inline = Inline(segment.source, segment.target or "", segment.tags)
        if segment.target is None or not inline.missing:
            targets.append(None)
            continue
        pairs = [tuple(map(int, link.split("-"))) for link in remaining.pop(0).split()]
        targets.append(inline.place({(i, j) for i, j in pairs})[0])
    assert not remaining
    return document.fill(targets).decode()


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_changes_is_the_same(name: str) -> None:
    data = FILES[name].encode()
    document = read_document(data, name)
    assert document.segments
    assert document.fill([None] * len(document.segments)) == data
    same = [segment.target for segment in document.segments]
    if name.endswith("po"):
        return
    assert document.fill(same) == data


def test_xliff_of_tikal() -> None:
    old = "The house that I saw &amp; know."
    new = '<target xml:lang="en">The <g id="1">house</g> that <x id="2"/>I saw &amp; know.'
    expected = TIKAL.replace(f'<target xml:lang="en">{old}', new)
    assert fill("tikal.xlf", "0-0 1-1 2-2 3-3 4-4 5-5 6-6") == expected
    units = _toolkit("tikal.xlf", expected)
    assert "house" in units[0]


def test_new_targets_of_xliff() -> None:
    document = read_document(TIKAL.encode(), "a.xlf")
    assert [segment.target is None for segment in document.segments] == [False, True, True]
    placed = [Page(segment.source, segment.tags).fill(['A <g id="1">tree</g>']) for segment in document.segments[1:]]
    text = document.fill([None, *placed]).decode()
    unit = '\t<source>Ein <g id="1">Baum</g></source>\n'
    assert unit + '\t<target>A <g id="1">tree</g></target>\n</trans-unit>' in text
    assert '  <target  state = "new">A <g id="1">tree</g></target></trans-unit>' in text
    assert "A <g" not in document.fill([None] * 3).decode()


def test_pairs_of_codes() -> None:
    text = fill("a.mqxliff", "0-0 1-1 2-2 3-3 3-4")
    bold = 'The <bpt id="1" ctype="bold">{}</bpt>old file<ept id="1">{}</ept> is missing.'
    assert text == MEMOQ.replace("The old file is missing.", bold)


def test_segments_of_sdl() -> None:
    expected = SDL.replace("A house.", 'A <g id="5">house</g>.')
    assert fill("a.sdlxliff", "0-0 1-1") == expected
    document = read_document(SDL.encode(), "a.sdlxliff")
    assert [segment.target for segment in document.segments] == ["A house.", 'A <g id="6">tree</g>.', None, None]
    text = document.fill([None, None, 'One <x id="7"/>.', "Two."]).decode()
    new = '<target><mrk mtype="seg" mid="3">One <x id="7"/>.</mrk> <mrk mtype="seg" mid="4">Two.</mrk></target>'
    assert text == SDL.replace("</seg-source></trans-unit>", f"</seg-source>{new}</trans-unit>")


def test_xliff_2_with_some_codes() -> None:
    text = fill("two.xliff", "0-0 1-3 2-1 3-2 4-4")
    target = '<sc id="1" dataRef="d1"/>Today <pc id="2">the <ph id="3"/> house</pc> is<ec startRef="1"/> old.'
    assert text == TWO.replace('Today <pc id="2">the house</pc> is old.', target)
    assert len(read_document(TWO.encode(), "a.xlf").segments) == 2


def test_tmx_of_omegat() -> None:
    text = fill("omegat.tmx", "0-0 1-1 2-2 3-3")
    codes = '<bpt i="0" x="0">&lt;a0&gt;</bpt>The house<ept i="0">&lt;/a0&gt;</ept> is <ph x="1">&lt;b/&gt;</ph>old'
    assert text == OMEGAT.replace("The house is old", codes)
    assert "The house" in _toolkit("a.tmx", text.replace(" lang=", " xml:lang="))[0]


@pytest.mark.parametrize("name", ["weblate.po", "crlf.po"])
def test_messages_of_gettext(name: str) -> None:
    text = fill(name, "0-0 1-1 1-2", "4-3 5-4 6-5", "0-1 1-2", "0-0 1-1", "0-0 1-1")
    lines = text.replace("\r\n", "\n")
    assert text.count("\r") == (text.count("\n") if name == "crlf.po" else 0)
    for new in (
        'msgstr "Kann nicht öffnen %s"',
        'msgstr[0] "Eine Datei in <b>%s</b>"',
        'msgstr "Pfad \\"C:\\\\%s\\"\\t"',
    ):
        assert new in lines, lines
    polib = pytest.importorskip("polib")
    before, after = ({entry.msgid: entry for entry in polib.pofile(file)} for file in (GETTEXT, lines))
    assert before.keys() == after.keys()
    assert after["Save %s now"].msgstr == "Speichern"
    assert after["New"].msgstr == ""
    assert "%d" not in after["%d file in <b>%s</b>"].msgstr_plural[0]
    assert after["%d file in <b>%s</b>"].msgstr_plural[1].count("%d") == 1
    assert max(map(len, lines.splitlines())) <= 80


MESSAGES = r"""msgid ""
msgstr "Plural-Forms: nplurals=2; plural=n != 1;\n"

#, c-format
msgid "\n%s: unknown host %s\n"
msgstr "\n%s: unbekannter Host\n"

#, c-format
msgid "%d file in %s"
msgid_plural "%d files in %s"
msgstr[0] "eine Datei"
msgstr[1] "Dateien"

#, c-format
msgid "%d page\n"
msgid_plural "%d pages\n"
msgstr[0] ""
msgstr[1] ""

msgid "Error:\n%s\n"
msgstr "Fehler:\n\n"
"""


def test_line_ends_that_both_sides_have_stay_outside() -> None:
    document = read_document(MESSAGES.encode(), "a.po")
    segments = document.segments
    assert [(segment.source, segment.target, segment.line_ends) for segment in segments] == [
        ("%s: unknown host %s", "%s: unbekannter Host", ("\n", "\n")),
        (" file in %2$s", "eine Datei", ("", "")),
        ("%d files in %s", "Dateien", ("", "")),
        ("%d page", None, ("", "\n")),
        ("%d pages", None, ("", "\n")),
        ("Error:\n%s", "Fehler:\n", ("", "\n")),
    ]
    filled = document.fill(["%s: Host %s", None, None, "%d Seite", "%d Seiten", "Fehler:\n%s"]).decode()
    for new in (r'"\n"' "\n" r'"%s: Host %s\n"', r'msgstr[0] "%d Seite\n"', r'"Fehler:\n"' "\n" r'"%s\n"'):
        assert new in filled


@pytest.mark.parametrize(
    ("targets", "refused"),
    [
        (["%s: Host %s", None, None, None, None, None], {}),
        (["%s %s\n", None, None, None, None, None], {}),  # two line ends at the end are one for msgfmt
        (["%d: Host %s", None, None, None, None, None], {0: "the message would have other arguments than its source"}),
        ([None, "eine Datei in %2$s", "%d Dateien in %s", None, None, None], dict.fromkeys((1, 2), "a valid C format")),
        ([None, None, "%d Dateien in %s", None, None, None], {}),
        ([None, None, "Dateien in %s", None, None, None], {2: "other arguments"}),
        ([None, None, None, "eine Seite", "%d Seiten", None], {}),
        ([None, None, None, "eine Seite", "Seiten", None], dict.fromkeys((3, 4), "lack an argument")),
        ([None, None, None, "eine Seite", None, None], {3: "another segment of its unit has no translation"}),
        ([None] * 5 + ["Fehler: %d"], {5: "other arguments"}),
    ],
)
def test_messages_that_msgfmt_would_refuse(targets: list[str | None], refused: dict[int, str]) -> None:
    found = read_document(MESSAGES.encode(), "a.po").refused(targets)
    assert found.keys() == refused.keys()
    assert all(reason in found[n] for n, reason in refused.items())


def test_a_message_that_is_refused_already_may_be_filled() -> None:
    text = MESSAGES.replace(r'unbekannter Host\n"', 'unbekannter Host"')
    document = read_document(text.encode(), "a.po")
    others = [None] * 5
    assert document.segments[0].line_ends == ("\n", "")
    assert document.refused(["%s: Host %s", *others]) == {}
    assert document.refused(["%s: Host", *others]) == {}
    assert "valid C format" in document.refused(["%s: Host % * s", *others])[0]


def test_the_first_of_several_plural_forms_may_be_for_many_numbers() -> None:
    rule = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
    document = read_document(MESSAGES.replace("nplurals=2; plural=n != 1;", rule).encode(), "a.po")
    assert [segment.source for segment in document.segments[1:5]] == ["%d files in %s"] * 2 + ["%d pages"] * 2


def test_units_of_xliff_are_whole() -> None:
    document = read_document(SDL.encode(), "a.sdlxliff")
    assert document.refused([None, None, 'One <x id="7"/>.', "Two."]) == {}
    assert document.refused([None, None, None, "Two."]) == {3: "another segment of its unit has no translation"}


def _toolkit(name: str, text: str) -> Sequence[str]:
    """The translations, as translate-toolkit reads them."""
    factory: Any = pytest.importorskip("translate.storage.factory")
    stream = io.BytesIO(text.encode())
    stream.name = name
    return [str(unit.target) for unit in factory.getobject(stream).units if unit.istranslatable()]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "windows-1252", "koi8-r", "us-ascii"])
def test_other_encodings(encoding: str) -> None:
    body = TIKAL.replace("UTF-8", encoding, 1)
    data = body.encode(encoding, "xmlcharrefreplace")
    document = read_document(data, "a.xlf")
    assert document.fill([None] * len(document.segments)) == data
    filled = document.fill(["日 ä é", None, None])
    assert filled == body.replace("The house that I saw &amp; know.", "日 ä é").encode(encoding, "xmlcharrefreplace")


def test_po_in_other_encodings() -> None:
    text = GETTEXT.replace("UTF-8", "ISO-8859-1")
    document = read_document(text.encode("latin-1"), "a.po")
    targets = ["ä %s", *[None] * (len(document.segments) - 1)]
    assert b'msgstr "\xe4 %s"' in document.fill(targets)
    with pytest.raises(DataError, match="'日' of a translation is not in ISO-8859-1"):
        document.fill(["日", *targets[1:]])
    with pytest.raises(DataError, match="the file is not utf-8"):
        read_document(b"\xff", "a.po")


XLIFF = '<xliff version="1.2"><file><body><trans-unit><source>{}</source></trans-unit></body></file></xliff>'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xlf", "<a>" * 300, "not well-formed XML: Excessive depth"),
        ("a.xlf", "<xliff>\n<file></a>", "line 2: not well-formed XML: Opening and ending tag mismatch"),
        ("a.tmx", "", "not well-formed XML: Document is empty"),
        ("a.tmx", "<html/>", "an element 'html', not xliff or tmx"),
        ("a.xlf", '<?xml version="1.0" encoding="x"?><xliff/>', "unknown encoding 'x'"),
        ("a.xlf", '<?xml version="1.0" encoding="punycode"?><xliff/>', "unknown encoding 'punycode'"),
        ("a.po", 'msgid ""\nmsgstr "charset=unicode_escape\\n"\n', "unknown encoding 'unicode_escape'"),
        ("a.po", 'msgid ""\nmsgstr "charset=undefined\\n"\n', "unknown encoding 'undefined'"),
        ("a.tmx", OMEGAT.replace("EN-US", "fr", 1).replace('"DE"><seg>Nur', '"it"><seg>Nur'), "in 2 languages"),
        ("a.tmx", OMEGAT.replace('srclang="DE"', 'srclang="*all*"'), "no source language"),
        ("a.po", 'msgid "a"\nmsgstr "b\n', "line 2: a string without its end"),
        ("a.po", 'msgid "a"\nmsgid "b"\n', "line 2: not a valid PO file"),
    ],
)
def test_hostile_files(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_document(text.encode(), name)


def test_entities_are_never_expanded() -> None:
    for entity in ('"aaaa"><!ENTITY b "&a;&a;"', 'SYSTEM "file:///etc/passwd"'):
        text = f"<!DOCTYPE x [<!ENTITY a {entity}>]>" + XLIFF.format("&a;")
        with pytest.raises(DataError, match="line 1: a document type with declarations"):
            read_document(text.encode(), "a.xlf")
    text = '<!DOCTYPE xliff SYSTEM "file:///etc/passwd">' + XLIFF.format("&secret;")
    assert [segment.source for segment in read_document(text.encode(), "a.xlf").segments] == ["&secret;"]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("<x/>" * (MOST + 1), "a", "more than 2,000 tags"),
        ("a", "<x/>" * (MOST + 1), "more than 2,000 tags"),
        ("<x/> a", "<![CDATA[a]]>", "a CDATA section"),
        ("<x/> a", "\U000f0000", "private use"),
    ],
)
def test_segments_that_are_left(source: str, target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Inline(source, target, "xml")


def test_messages_of_po_that_are_left_or_have_odd_characters() -> None:
    bytes_as_numbers = 'msgid "a\\303\\xBC %s"\nmsgstr "b"\n'
    assert not read_document(bytes_as_numbers.encode(), "a.po").segments
    text = '#Comment\n#,fuzzy\nmsgid "a"\nmsgstr "b"\n#: x\nmsgid "c\u2028\\\\0 %s"\nmsgstr "d\u0085"\n'
    document = read_document(text.encode(), "a.po")
    assert [(segment.source, segment.target, segment.line) for segment in document.segments] == [
        ("c\u2028\\0 %s", "d\u0085", 6)
    ]
    assert document.fill(["d\u0085 %s"]).decode() == text.replace("\u0085", "\u0085 %s")


@pytest.mark.parametrize(("name", "library"), [("a.tmx", "lxml"), ("a.po", "polib")])
def test_what_reads_documents_is_an_extra(monkeypatch: pytest.MonkeyPatch, name: str, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, "align.transfer.catalogs", raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"documents need {library}: pip install '.\[documents\]'"):
        read_document(b"", name)


def test_utf_16_without_a_mark() -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        data = TIKAL.replace("UTF-8", "utf-16", 1).encode(encoding)
        document = read_document(data, "a.xlf")
        assert document.fill([None] * len(document.segments)) == data


def test_segments_with_the_same_number_are_one() -> None:
    text = SDL.replace('mid="2"', 'mid="1"')
    segment, *_ = read_document(text.encode(), "a.sdlxliff").segments
    assert segment.source == 'Ein <g id="5">Haus</g>. Ein Baum.'
    assert segment.target == SDL.split("<target>")[1].split("</target>")[0].replace('mid="2"', 'mid="1"')


def test_elements_that_are_not_translated() -> None:
    protected = '<mrk mtype="protected">Das Haus</mrk>'
    (segment,) = Page(f"In {protected} ist", "xml").segments
    assert [token.text for token in segment.tokens if token.name == KEPT] == [protected]


PLACED: Sequence[tuple[str, str, set[tuple[int, int]], str]] = [
    (  # overlapping pairs
        '<bpt id="1">a</bpt>Das <bpt id="2">b</bpt>alte<ept id="1">c</ept> Haus<ept id="2">d</ept> ist',
        "The old house is",
        {(0, 0), (1, 1), (2, 2), (3, 3)},
        '<bpt id="1">a</bpt>The <bpt id="2">b</bpt>old<ept id="1">c</ept> house<ept id="2">d</ept> is',
    ),
    (  # the outer element is missing, or the inner one
        '<g id="1">Das <g id="2">alte Haus</g></g> da',
        'There <g id="2">old house</g>',
        {(0, 1), (1, 1), (2, 2), (3, 0)},
        'There <g id="1"><g id="2">old house</g></g>',
    ),
    (
        '<g id="1">Das <g id="2">alte Haus</g></g>',
        'The <g id="1">old house</g>',
        {(0, 0), (1, 1), (2, 2)},
        'The <g id="1"><g id="2">old house</g></g>',
    ),
    (  # other attributes, an end without its start
        'Das <bx id="1"/>Haus<ex id="2" rid="1"/> <x id="3" ctype="lb"/>',
        'The house<ex rid="1" id="2"/> <x id="3"/>',
        {(0, 0), (1, 1)},
        'The <bx id="1"/>house<ex rid="1" id="2"/> <x id="3"/>',
    ),
]


@pytest.mark.parametrize(("source", "target", "links", "expected"), PLACED)
def test_tags_that_some_are_missing_of(source: str, target: str, links: set[tuple[int, int]], expected: str) -> None:
    assert Inline(source, target, "xml").place(links)[0] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            'Die <bpt id="1">&lt;b&gt;</bpt>Datei<ept id="1">&lt;/b&gt;</ept> fehlt heute',
            'The <bpt id="1">&lt;b&gt;</bpt>file<ept id="1">&lt;/b&gt;</ept> is missing today',
        ),
        (
            'Die <sc id="1"/>Datei<ec startRef="1"/> fehlt heute',
            'The <sc id="1"/>file<ec startRef="1"/> is missing today',
        ),
        (
            'Die Datei <ph id="1">x <sub>y</sub></ph>fehlt heute',
            'The file <ph id="1">x <sub>y</sub></ph>is missing today',
        ),
    ],
)
def test_codes_in_lines(source: str, expected: str) -> None:
    links = {(0, 0), (1, 1), (2, 2), (2, 3), (3, 4)}
    assert transfer_markup(source, "The file is missing today", links).text == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "moved"),
    [
        (
            'Das große <g id="1">Haus ist</g> alt.',
            'The <g id="2">big house</g> is old.',
            {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)},
            True,
        ),
        (
            'Das große <g id="1">Haus</g> ist alt.',
            'The <mrk mtype="x">big house</mrk> is old.',
            {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)},
            True,
        ),
        (
            'Das große <g id="1">Haus</g> ist alt.',
            'The big <g id="2">house</g> is old.',
            {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)},
            False,
        ),
        (
            '<g id="1">große <g id="2">Haus</g> ist</g> alt',
            'The big <g id="2">house is old</g>.',
            {(0, 1), (1, 2), (2, 3), (3, 4)},
            True,
        ),
    ],
)
def test_elements_that_grow_around_others_are_doubtful(
    source: str, target: str, links: set[tuple[int, int]], moved: bool
) -> None:
    text, report = Inline(source, target, "xml").place(links)
    row = next(row for row in report if 'id="1"' in row.tag)
    assert (MOVED in row.remarks, row.confidence <= PART) == (moved, moved), text


@pytest.mark.parametrize(
    ("source", "target", "expected", "most"),
    [
        (
            '<g id="1">Das <g id="2">Haus</g></g> ist alt.',
            '<g id="1">The</g> house is old.',
            '<g id="1">The<g id="2"></g></g> house is old.',
            0.0,
        ),
        (
            '<g id="1">Das Haus <g id="2">ist alt</g></g>.',
            '<g id="1">The house is</g> old.',
            '<g id="1">The house <g id="2">is</g></g> old.',
            PART,
        ),
    ],
)
def test_elements_that_shrink_into_their_parents_are_doubtful(
    source: str, target: str, expected: str, most: float
) -> None:
    text, report = Inline(source, target, "xml").place({(0, 0), (1, 1), (2, 2), (3, 3)})
    (row,) = report
    assert (text, row.confidence <= most, MOVED in row.remarks) == (expected, True, True)


def test_tags_without_a_partner_make_those_of_their_name_doubtful() -> None:
    links = {(0, 0), (1, 1), (2, 2), (3, 3)}
    (row,) = Inline("Das <b>Haus ist</b> alt.", "The house</b> is old.", "html").place(links)[1]
    assert (row.confidence, row.remarks) == (0.0, (CROSSING,))
    (row,) = Inline("Das <b>Haus ist</b> alt.", "The house</i> is old.", "html").place(links)[1]
    assert row.confidence == 1.0


def code(n: int, letter: str) -> tuple[str, str]:
    return f'<bpt id="{n}">&lt;{letter}&gt;</bpt>', f'<ept id="{n}">&lt;/{letter}&gt;</ept>'


def test_pairs_of_codes_that_cross_or_meet_are_doubtful() -> None:
    (b1, e1), (b2, e2) = code(1, "b"), code(2, "i")
    links = {(0, 0), (1, 1), (2, 2)}
    text, report = Inline(f"{b1}Das {b2}Haus{e2}{e1} ist", f"{b1}The house{e1} is", "xml").place(links)
    (row,) = report
    crossed = text.index(e1) < text.index(e2)
    assert (CROSSING in row.remarks, row.confidence == 0.0) == (crossed, crossed)
    text, report = Inline(f'<g id="1">Das {b2}Haus{e2}</g> ist', '<g id="1">The</g> house is', "xml").place(links)
    assert f"{b2}{e2}" in text
    assert report[0].confidence == 0.0


def test_signs_that_an_element_loses_are_missed() -> None:
    text, report = Inline("<b>15 <i>%</i></b> da", "<b>15</b> % there", "html").place({(0, 0), (1, 1), (2, 2)})
    assert ("<i></i>" in text, report[0].confidence) == (True, 0.0)


def test_a_pair_of_codes_whose_closing_half_is_missing_is_doubtful_where_it_crosses_or_is_empty() -> None:
    (b1, e1), (b2, e2) = code(1, "b"), code(2, "i")
    inline = Inline(f"{b1}Das {b2}Haus{e2}{e1} ist", f"{b1}The {b2}house{e1} is", "xml")
    text, (row,) = inline.place({(0, 0), (1, 1), (2, 2)})
    crossed = text.index(e1) < text.index(e2)
    assert (CROSSING in row.remarks, row.confidence == 0.0) == (crossed, crossed)
    text, (row,) = Inline(f"Das {b2}Haus{e2} ist alt", f"The house is {b2}old", "xml").place({(n, n) for n in range(4)})
    assert f"{b2}{e2}" in text
    assert (row.remarks, row.confidence) == ((MOVED,), 0.0)


@pytest.mark.parametrize("own", [code(9, "u"), ('<g id="9">', "</g>")])
def test_pairs_of_codes_that_cross_what_the_translation_adds_are_doubtful(own: tuple[str, str]) -> None:
    begin, end = code(1, "b")
    inline = Inline(f"Das große {begin}Haus ist{end}", "The {}big house{} is".format(*own), "xml")
    (row,) = inline.place({(n, n) for n in range(4)})[1]
    assert (row.remarks, row.confidence) == ((CROSSING,), 0.0)


def test_an_element_or_point_that_passes_signs_is_doubtful() -> None:
    inline = Inline('<g id="1">Der Preis <g id="2">15 %</g></g> da', '<g id="1">The price 15</g> % there', "xml")
    text, (row,) = inline.place({(n, n) for n in range(5)})
    assert text.count('<g id="2">15</g>') == 1
    assert (row.remarks, row.confidence) == ((MOVED,), PART)
    (row,) = Inline('<g id="1">Preis % <x id="2"/></g> da', '<g id="1">price</g> % there', "xml").place(
        {(0, 0), (1, 1), (2, 2)}
    )[1]
    assert (row.remarks, row.confidence) == ((MOVED,), PART)
    (row,) = Inline("Das <b>Haus.</b> Ja", "The house<i>.</i> Yes", "html").place({(n, n) for n in range(3)})[1]
    assert row.confidence == 1.0


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("The house and the <b>dog</b> are", "The <b>house</b> and the <b>dog</b> are"),
        ("The <b>house</b> and the dog are", "The <b>house</b> and the <b>dog</b> are"),
    ],
)
def test_of_equal_elements_the_one_with_the_links_is_there(target: str, expected: str) -> None:
    source = "Das <b>Haus</b> und der <b>Hund</b> sind"
    text, (row,) = Inline(source, target, "html").place({(n, n) for n in range(6)})
    assert (text, row.remarks, row.confidence) == (expected, (), 1.0)
    text, (row,) = Inline(source, target, "html").place({(0, 0), (2, 2)})
    assert (REPEATED in row.remarks, row.confidence <= PART) == (True, True)


def test_of_equal_points_the_one_between_linked_words_is_there() -> None:
    links = {(n, n) for n in range(6)}
    text, (row,) = Inline("a b <br> c d <br> e f", "A B C D <br> E F", "html").place(links)
    assert text.split() == ["A", "B", "<br>", "C", "D", "<br>", "E", "F"]
    assert (row.remarks, row.confidence) == ((), 1.0)


def test_a_line_whose_translation_has_one_of_equal_tags_is_doubtful() -> None:
    links = {(n, n): 1.0 for n in range(4)}
    (row,) = transfer_markup("Das <b>Haus</b> und <b>Hund</b>", "The house and <b>dog</b>", links, tags="html").report
    assert (row.remarks, row.confidence) == ((REPEATED,), PART)


def test_tmx_codes_are_matched_by_x_and_get_a_number_that_is_free() -> None:
    def codes(i: int, x: int, letter: str) -> tuple[str, str]:
        return f'<bpt i="{i}" x="{x}">&lt;{letter}></bpt>', f'<ept i="{i}">&lt;/{letter}></ept>'

    links = {(n, n) for n in range(5)}
    (italic, off), (bold, end) = codes(1, 1, "i"), codes(2, 2, "b")
    own, own_end = codes(1, 2, "b")
    inline = Inline(f"Das {italic}Haus{off} und der {bold}Hund{end}", f"The house and the {own}dog{own_end}", "xml")
    new, new_end = codes(3, 1, "i")
    assert inline.place(links)[0] == f"The {new}house{new_end} and the {own}dog{own_end}"
    half = Inline(f"Das {italic}Haus{off} ist", f"The {codes(7, 1, 'i')[0]}house is", "xml")
    assert half.place({(n, n) for n in range(3)})[0] == "The {}house{} is".format(*codes(7, 1, "i"))
    plain = Inline('a <bpt i="1">x</bpt>b<ept i="1">y</ept>', "A B", "xml")
    assert plain.place({(0, 0), (1, 1)})[0] == 'A <bpt i="1">x</bpt>B<ept i="1">y</ept>'


@pytest.mark.parametrize("space", ["&nbsp;", "&#160;", "\u00a0", " "])
def test_equal_elements_are_found_behind_entities(space: str) -> None:
    source = f"Nach 5{space}km: <b>Haus</b> und <b>Hund</b>"
    links = {(n, n) for n in range(6)}
    for kept in ("<b>house</b> and dog", "house and <b>dog</b>"):
        text, (row,) = Inline(source, f"After 5 km: {kept}", "html").place(links)
        assert (text, row.remarks) == ("After 5 km: <b>house</b> and <b>dog</b>", ())


def test_equal_points_that_are_linked_nearly_as_well_are_doubtful() -> None:
    source, target = "a Haus %s b Hund %s c", "B dog and the A house %s c"
    scores = {(0, 4): 0.99, (1, 5): 0.999, (2, 0): 0.99, (3, 1): 0.99, (4, 6): 0.9987}
    syntax = "xml,placeholders"
    (row,) = Inline(source, target, syntax).place(scores)[1]
    assert (REPEATED in row.remarks, row.confidence <= PART) == (True, True)


def test_a_closing_code_without_its_other_half_is_matched_by_its_number() -> None:
    source = 'Das <bpt i="1" x="1">b</bpt>Haus<ept i="1">e</ept> ist'
    links = {(n, n) for n in range(3)}
    expected = 'The <bpt i="1" x="1">b</bpt>house<ept i="1">e</ept> is'
    assert Inline(source, 'The house<ept i="1">e</ept> is', "xml").place(links)[0] == expected
    other = 'The <bpt i="1" x="7">b</bpt>house<ept i="1">e</ept> is'  # no x in common
    assert Inline(source, other, "xml").missing == 0


def test_equal_elements_with_the_same_text_are_the_same() -> None:
    source = "Mit <code>git pull</code> holen, mit <code>git push</code> senden"
    target = "<code>git push</code> to send, git pull to get"
    wrong = {(1, 0): 1.0, (2, 1): 1.0, (5, 4): 1.0, (6, 5): 1.0}  # by position
    text, (row,) = Inline(source, target, "html").place(wrong)
    assert "<code><code>" not in text
    assert REPEATED in row.remarks


@pytest.mark.parametrize("tag", ["%d", "<br>"])
def test_points_that_touch_their_equal_are_doubtful(tag: str) -> None:
    text, (row,) = Inline(f"Seite {tag} von {tag}", f"Page {tag}", "html,placeholders").place({(0, 0)})
    assert f"{tag}{tag}" in text.replace(" ", "")
    assert (REPEATED in row.remarks, row.confidence) == (True, 0.0)
    text, (row,) = Inline(f"Seite {tag} {tag}", f"Page {tag}", "html,placeholders").place({(0, 0)})
    assert row.confidence != 0.0


def test_a_pair_of_the_translation_of_which_the_source_has_one_half_is_no_error() -> None:
    inline = Inline(
        '<bpt i="1">b</bpt>Das <g id="4">Haus</g> ist alt',
        'The house <x id="8"/> is <bpt i="1">b</bpt> really old<ept i="1">e</ept> now',
        "xml",
    )
    assert '<g id="4">house</g>' in inline.place({(0, 0), (1, 1), (2, 2), (3, 4)})[0]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Seite %d von %d", "Page %1$d of %2$d"),
        ("%s hat %s gelöscht", "%2$s was deleted by %1$s"),
        ("%1$s hat %2$s gelöscht", "%s has deleted %s"),
        ("%-20s wird gelesen", "%-25s is being read"),
        ("%5.1f Prozent, %i Dateien", "%.1f percent, %2d files"),
        ('Lesen Sie <a href="https://a.example/">die Hilfe</a>', "Read <a href='https://de.a.example/'>the help</a>"),
        ('<a href="?a=1&b=2" title="Hilfe">Hilfe</a>', '<a title="Help" href="?a=1&amp;b=2">Help</a>'),
        ('<img src="a.png" alt="Ein Hund"> Hund', '<img src="a.png" alt="A dog"> dog'),
        ("Das ist <b>alt</b> und <em>neu</em>", "This is <strong>old</strong> and <i>new</i>"),
        ('<a href="%s">Hilfe</a> von %s und %s', '<a href="%1$s">help</a> by %2$s and %3$s'),
        ('Das Haus von %s im <a href="%s">Dorf</a>', 'In the <a href="%2$s">village</a> the house of %1$s'),
        ('<img src="%1$s" alt="Haus"> von %2$s', '<img src="%s" alt="house"> of %s'),
        ('<a href="https://a.example/%s/">Haus</a> von %s', '<a href="https://a.example/%1$s/">house</a> of %2$s'),
        ("Siehe https://a.example/%s von %s", "See https://a.example/%1$s by %2$s"),
        ('<a href="/m%c3%bcnchen">München</a> von %s', '<a href="/munich">Munich</a> of %1$s'),
        ('Hier: <input type="submit" value="Suchen">', 'Here: <input type="submit" value="Search">'),
        ('<ulink url="https://de.a.example">A</ulink>', '<ulink url="https://en.a.example">A</ulink>'),
        ("<!-- %s --> von %s", "<!-- %s --> of %1$s"),
        ("Eins.<br>Zwei.<br/>Drei.", "One.<br />Two.<br>Three."),
    ],
)
@pytest.mark.parametrize("as_lines", [False, True])
def test_what_a_translator_has_adapted_is_not_missing(source: str, target: str, as_lines: bool) -> None:
    if as_lines:
        assert transfer_markup(source, target, {(0, 0)}, tags="html,placeholders") == (target, ())
    else:
        inline = Inline(source, target, "html,placeholders")
        assert (inline.missing, inline.extra, inline.place({(0, 0)})) == (0, (), (target, []))


def test_placeholders_get_numbers_beside_others_with_numbers() -> None:
    text, (row,) = Inline("Seite %d von %d in %s", "Page %1$d in %3$s of", "placeholders").place(
        {(0, 0), (1, 2), (2, 1)}
    )
    assert text.split() == ["Page", "%1$d", "in", "%3$s", "of", "%2$d"]
    assert row.tag == "%2$d"


def test_of_two_links_the_missing_one_is_found_though_the_other_one_is_adapted() -> None:
    source = '<a href="/hund">Hund</a> und <a href="/haus">Haus</a>'
    text, _ = Inline(source, 'dog and <a href="/en/house">house</a>', "html").place({(n, n) for n in range(3)})
    assert text == '<a href="/hund">dog</a> and <a href="/en/house">house</a>'


@pytest.mark.parametrize(
    ("source", "target", "links"),
    [
        ("Seite %d in %s", "in book page", {(0, 2), (1, 0)}),
        ("Seite {} in {:.2f}", "in book page", {(0, 2), (1, 0)}),
    ],
)
def test_placeholders_without_numbers_that_change_places_are_doubtful(
    source: str, target: str, links: set[tuple[int, int]]
) -> None:
    for report in (
        Inline(source, target, "placeholders").place(links)[1],
        transfer_markup(source, target, links, tags="placeholders").report,
    ):
        assert [(ORDER in row.remarks, row.confidence) for row in report] == [(True, 0.0)] * 2
    numbered = source.replace("%d", "%1$d").replace("%s", "%2$s").replace("{", "{a")
    assert not any(ORDER in row.remarks for row in Inline(numbered, target, "placeholders").place(links)[1])


def test_a_new_placeholder_before_one_of_the_translation_is_doubtful() -> None:
    source, target, links = "Seite %d in Buch %s", "in book %s page", {(0, 2), (1, 0), (2, 1)}
    (row,) = Inline(source, target, "placeholders").place(links)[1]
    assert (ORDER in row.remarks, row.confidence) == (True, 0.0)
    (row,) = transfer_markup(source, target, {(0, 3), (1, 0), (2, 1)}, tags="placeholders").report
    assert (ORDER in row.remarks, row.confidence) == (True, 0.0)
    (row,) = transfer_markup("%s auf Seite %d", "%s on page", {(0, 0), (1, 1)}, tags="placeholders").report
    assert ORDER not in row.remarks


def test_a_placeholder_beside_one_of_another_kind_is_doubtful() -> None:
    (row,) = Inline("Seite %d", "page %s", "placeholders").place({(0, 0)})[1]
    assert (OTHERS in row.remarks, row.confidence) == (True, 0.0)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ('<span class="icon"></span> Symbol im Haus', 'symbol in the <span class="nowrap">old house</span>'),
        ('<ph name="SAVE"/> klicken', 'click <ph name="OPEN"/>'),
        ('<img src="hund.png"> Hund', '<img src="haus.png"> house'),
        ('Siehe <a href="#hund">Hund</a>', 'See the <a href="#haus">house</a>'),
        ('<xref target="a"/> siehe', '<xref target="b"/> see'),
    ],
)
def test_other_elements_of_the_same_name_are_not_the_same(source: str, target: str) -> None:
    inline = Inline(source, target, "html,placeholders")
    assert inline.missing > 0
    rows = inline.place({(0, 0)})[1]
    assert (ANOTHER in rows[0].remarks, rows[0].confidence) == (True, 0.0)


def test_placeholders_in_tags_count_as_arguments() -> None:
    source, target = 'Das <a href="%s">Haus</a> von %s ist %s alt', 'The <a href="%1$s">house</a> of %2$s is old'
    text, rows = Inline(source, target, "html,placeholders").place({(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)})
    assert text == 'The <a href="%1$s">house</a> of %2$s is %3$s old'
    assert [row.remarks for row in rows] == [()]
    text, rows = Inline("von %s im <a href='%s'>Dorf</a>", "by %1$s in the village", "html,placeholders").place(
        {(2, 3)}
    )
    assert "<a href='%2$s'>village</a>" in text
    rows = Inline("Siehe <a href='%s'>Hilfe</a> von %s", "by see help", "html,placeholders").place({(1, 2), (2, 0)})[1]
    assert [ORDER in row.remarks for row in rows] == [True] * 2


@pytest.mark.parametrize(
    ("source", "target", "remark"),
    [("%1$s hat %2$s", "%s has", MIXED), ("Seite %d im Buch", "Page %s in the book", OTHERS), ("{}", "{0}", OTHERS)],
)
def test_placeholders_of_two_kinds_are_doubtful(source: str, target: str, remark: str) -> None:
    for row in (
        *Inline(source, target, "placeholders").place({})[1],
        *transfer_markup(source, target, {}, tags="placeholders").report,
    ):
        assert (remark in row.remarks, row.confidence) == (True, 0.0)


@pytest.mark.parametrize(("target", "missing"), [("One file of %2$s", []), ("One file of", ["%2$s"]), ("%s", [])])
def test_a_singular_without_its_number_keeps_the_numbers_of_other_arguments(target: str, missing: list[str]) -> None:
    lines = (
        *('msgid "%d Datei von %s"', 'msgid_plural "%d Dateien von %s"'),
        *(f'msgstr[0] "{target}"', 'msgstr[1] "%1$d files of %2$s"'),
    )
    for n, segment in enumerate(read_document("\n".join(lines).encode(), "a.po").segments):
        inline = Inline(segment.source, segment.target or "", segment.tags)
        assert [row.tag for row in inline.place({})[1]] == [missing, []][n]
        assert inline.extra == ()


BREAKS = [
    '<x id="1" ctype="lb"/>',
    '<x id="LINE_BREAK" equiv-text="&lt;br /&gt;"/>',
    '<ph id="1" type="fmt" subType="xlf:lb"/>',
    '<ph id="1">&lt;br/&gt;</ph>',
    '<ph x="1">\\n</ph>',
    '<x id="1" ctype="x-tab"/>',
]


@pytest.mark.parametrize("tag", BREAKS)
def test_a_line_break_ends_a_word(tag: str) -> None:
    links = {(n, n) for n in range(3)}
    inline = Inline(f"Montag{tag}Dienstag{tag.replace('1', '2')}Mittwoch", "Monday Tuesday Wednesday", "xml")
    assert inline.source_words == ("Montag", "Dienstag", "Mittwoch")
    text, rows = inline.place(links)
    assert text == f"Monday{tag} Tuesday{tag.replace('1', '2')} Wednesday"
    assert [row.remarks for row in rows] == [()] * 2
    inline = Inline(f"Montag{tag}<g id='7'>Dienstag</g>", f"Monday{tag}Tuesday", "xml")
    assert inline.source_words == ("Montag", "Dienstag")


def test_a_point_in_a_word_that_comes_outside_of_words_is_doubtful() -> None:
    (row,) = Inline('Haus<x id="1"/>tür auf', "open the door", "xml").place({(0, 1), (0, 2), (1, 0)})[1]
    assert ("inside a word" in row.remarks, row.confidence <= PART) == (True, True)
