"""Documents of several tools' styles: read, filled, and read back with translate-toolkit and lxml."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from align import transfer_markup
from align.core.errors import DataError
from align.evaluation.link_formats import parse_scored
from align.transfer.documents import read_document
from align.transfer.inline import Inline
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
        inline = Inline.of_segment(segment.source, segment.target or "", segment.tags)
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


@pytest.mark.parametrize(
    ("name", "links", "old", "new"),
    [
        (
            *("tikal.xlf", "0-0 1-1 2-2 3-3 4-4 5-5 6-6"),
            *("The house that I", 'The <g id="1">house</g> that <x id="2"/>I'),
        ),
        (
            *("a.mqxliff", "0-0 1-1 2-2 3-3 3-4", "The old file is"),
            'The <bpt id="1" ctype="bold">{}</bpt>old file<ept id="1">{}</ept> is',
        ),
        ("a.sdlxliff", "0-0 1-1", "A house.", 'A <g id="5">house</g>.'),
        (
            *("two.xliff", "0-0 1-3 2-1 3-2 4-4", 'Today <pc id="2">the house</pc> is old.'),
            '<sc id="1" dataRef="d1"/>Today <pc id="2">the <ph id="3"/> house</pc> is<ec startRef="1"/> old.',
        ),
        (
            *("omegat.tmx", "0-0 1-1 2-2 3-3", "The house is old"),
            '<bpt i="0" x="0">&lt;a0&gt;</bpt>The house<ept i="0">&lt;/a0&gt;</ept> is <ph x="1">&lt;b/&gt;</ph>old',
        ),
    ],
)
def test_tags_that_translations_lack(name: str, links: str, old: str, new: str) -> None:
    text = fill(name, links)
    assert text == FILES[name].replace(old, new)
    if name in ("tikal.xlf", "omegat.tmx"):
        assert "house" in _toolkit(name, text.replace(" lang=", " xml:lang="))[0]
    if name == "two.xliff":
        store: Any = pytest.importorskip("translate.storage.xliff2").Xliff2File.parsestring(text.encode())
        assert re.findall(r"{(\w+)}\(", repr(store.units[0].rich_target)) == ["sc", "pc", "ph", "ec"]


def test_new_targets_of_xliff() -> None:
    document = read_document(TIKAL.encode(), "a.xlf")
    assert [segment.target is None for segment in document.segments] == [False, True, True]
    placed = [Page(segment.source, segment.tags).fill(['A <g id="1">tree</g>']) for segment in document.segments[1:]]
    text = document.fill([None, *placed]).decode()
    unit = '\t<source>Ein <g id="1">Baum</g></source>\n'
    assert unit + '\t<target>A <g id="1">tree</g></target>\n</trans-unit>' in text
    assert '  <target  state = "new">A <g id="1">tree</g></target></trans-unit>' in text
    assert "A <g" not in document.fill([None] * 3).decode()


def test_segments_of_sdl() -> None:
    document = read_document(SDL.encode(), "a.sdlxliff")
    assert [segment.target for segment in document.segments] == ["A house.", 'A <g id="6">tree</g>.', None, None]
    text = document.fill([None, None, 'One <x id="7"/>.', "Two."]).decode()
    new = '<target><mrk mtype="seg" mid="3">One <x id="7"/>.</mrk> <mrk mtype="seg" mid="4">Two.</mrk></target>'
    assert text == SDL.replace("</seg-source></trans-unit>", f"</seg-source>{new}</trans-unit>")


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


def _toolkit(name: str, text: str) -> Sequence[str]:
    """The translations, as translate-toolkit reads them."""
    factory: Any = pytest.importorskip("translate.storage.factory")
    stream = io.BytesIO(text.encode())
    stream.name = name
    return [str(unit.target) for unit in factory.getobject(stream).units if unit.istranslatable()]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "koi8-r", "us-ascii"])
def test_other_encodings(encoding: str) -> None:
    body = TIKAL.replace("UTF-8", encoding.removesuffix("-le").removesuffix("-be"), 1)
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
    with pytest.raises(DataError, match="the file is not utf-8, and declares no other encoding"):
        read_document(b"\xff", "a.po")
    russian = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=  koi8-r\\n"\n\nmsgid "a"\nmsgstr "дом"\n'
    assert [segment.target for segment in read_document(russian.encode("koi8-r"), "a.po").segments] == ["дом"]
    with pytest.raises(DataError, match="the file is not utf-8, as it declares"):
        read_document(russian.replace("koi8-r", "utf-8").encode("koi8-r"), "a.po")


XLIFF = '<xliff version="1.2"><file><body><trans-unit><source>{}</source></trans-unit></body></file></xliff>'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xlf", "<a>" * 300, "not well-formed XML: Excessive depth"),
        ("a.xlf", "<xliff>\n<file></a>", "line 2: not well-formed XML: Opening and ending tag mismatch"),
        ("a.tmx", "", "not well-formed XML: Document is empty"),
        ("a.tmx", "<html/>", "an element 'html', not xliff or tmx"),
        ("a.xlf", '<?xml version="1.0" encoding="x"?><xliff/>', "unknown encoding 'x'"),
        ("a.po", 'msgid ""\nmsgstr "charset=unicode_escape\\n"\n', "unknown encoding 'unicode_escape'"),
        ("a.tmx", OMEGAT.replace("EN-US", "fr", 1).replace('"DE"><seg>Nur', '"it"><seg>Nur'), "in 2 languages"),
        ("a.tmx", OMEGAT.replace('srclang="DE"', 'srclang="*all*"'), "no source language"),
        ("a.po", 'msgid "a"\nmsgstr "b\n', "line 2: a string without its end"),
        ("a.po", 'msgid "a"\nmsgid "b"\n', "line 2: not a valid PO file"),
        ("a.po", 'msgid "a"\nmsgstr "b"\n\n#~ msgid "c"\nmsgstr "d"\n', "line 5: not a valid PO file"),
    ],
)
def test_hostile_files(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_document(text.encode(), name)


def test_entities_are_never_expanded() -> None:
    for entity in ('"aaaa"><!ENTITY b "&a;&a;"', 'SYSTEM "file:///etc/passwd"'):
        text = f"<!DOCTYPE x [<!ENTITY a {entity}>]>" + XLIFF.format("&a;")
        with pytest.raises(DataError, match="line 1: document types with declarations"):
            read_document(text.encode(), "a.xlf")
    text = '<!DOCTYPE xliff SYSTEM "file:///etc/passwd">' + XLIFF.format("&secret;")
    assert [segment.source for segment in read_document(text.encode(), "a.xlf").segments] == ["&secret;"]


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


def test_segments_with_the_same_number_are_one() -> None:
    text = SDL.replace('mid="2"', 'mid="1"')
    segment, *_ = read_document(text.encode(), "a.sdlxliff").segments
    assert segment.source == 'Ein <g id="5">Haus</g>. Ein Baum.'
    assert segment.target == SDL.split("<target>")[1].split("</target>")[0].replace('mid="2"', 'mid="1"')


def test_elements_that_are_not_translated() -> None:
    protected = '<mrk mtype="protected">Das Haus</mrk>'
    (segment,) = Page(f"In {protected} ist", "xml").segments
    assert [token.text for token in segment.tokens if token.name == KEPT] == [protected]


@pytest.mark.parametrize(("target", "missing"), [("One file of %2$s", []), ("One file of", ["%2$s"]), ("%s", [])])
def test_a_singular_without_its_number_keeps_the_numbers_of_other_arguments(target: str, missing: list[str]) -> None:
    lines = (
        *('msgid "%d Datei von %s"', 'msgid_plural "%d Dateien von %s"'),
        *(f'msgstr[0] "{target}"', 'msgstr[1] "%1$d files of %2$s"'),
    )
    for n, segment in enumerate(read_document("\n".join(lines).encode(), "a.po").segments):
        inline = Inline.of_segment(segment.source, segment.target or "", segment.tags)
        assert [row.tag for row in inline.place({})[1]] == [missing, []][n]
        assert inline.extra == ()


TABLE = (Path(__file__).parent.parent / "golden" / "tags.tsv").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize("line", [line for line in TABLE if line[:1] != "#"])
def test_placed_tags_and_their_remarks(line: str) -> None:
    """A row for each rule of what is placed where, and of what is doubtful; comments in the table name them."""
    place, tags, source, target, links, expected, report = line.split("\t")
    way: Any = (
        Inline.of_segment(source, target, tags).place
        if place == "document"
        else partial(transfer_markup, source, target, tags=tags)
    )
    text, rows = way(parse_scored(links))
    listed = [f"{row.tag} {row.confidence:.2f} {', '.join(row.remarks)}".rstrip() for row in rows]
    assert (text, " | ".join(listed)) == (expected, report)
