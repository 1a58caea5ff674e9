"""`extract-align transfer` from the outside: tags, labels, links, a model, and bad input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from align.cli import transfer
from tests.cli.conftest import Result, Run, Write, failed, printed


@pytest.fixture
def run(run_main: Run) -> Run:
    def call(*arguments: object, stdin: bytes | str = b"") -> Result:
        return run_main(transfer.main, *arguments, stdin=stdin)

    return call


SOURCE = '<p>Das <b class="a  b">Haus</b>, ist <x/> alt.</p>\n\nR&amp;D <i>ja</i>\n'
TARGET = "The house, is old.\n\nyes R&amp;D\n"
LINKS = "0-0:0.9 1-1 2-2 3-3\n\n0-1 1-0\n"
EXPECTED = '<p>The <b class="a  b">house</b>, is <x/> old.</p>', "", "<i>yes</i> R&amp;D"


def test_links_from_a_file(run: Run, write: Write, tmp_path: Path) -> None:
    write(s=SOURCE, t=TARGET, l=LINKS)
    printed(run("-q", "--tags", "xml", "-s", "s", "-t", "t", "--links", "l", "--report", "r"), *EXPECTED)
    lines = [json.loads(line) for line in (tmp_path / "r").read_text(encoding="utf-8").splitlines()]
    assert [(line["id"], [tag["tag"] for tag in line["tags"]]) for line in lines] == [
        *((1, ["<p>", '<b class="a  b">', "<x/>"]), (2, []), (3, ["<i>"]))
    ]
    tag = {"tag": "<i>", "source": [1, 2], "target": [[0, 1]], "confidence": 1.0, "remarks": []}
    assert lines[2]["tags"] == [tag]
    both = "".join(f"{a} ||| {b}\n" for a, b in zip(SOURCE.splitlines(), TARGET.splitlines(), strict=True))
    result = run("--tags", "html", "--links", "l", stdin=both)
    assert result.out.decode() == "".join(f"{line}\n" for line in EXPECTED)
    assert result.err.startswith("extract-align transfer: 3 lines, 4 tags, ")


def test_the_text_without_tags(run: Run) -> None:
    printed(run("-q", "--tags", "xml", "--strip", stdin=SOURCE), "Das Haus, ist  alt.", "", "R&amp;D ja")
    printed(run("-q", "--tags", "placeholders", "--strip", stdin="a {0} b%s\n"), "a  b")


def test_a_model_aligns(run: Run) -> None:
    text = "Das <b>Haus</b> ist <i>alt</i> . ||| The house is old .\n ||| \n<b>Morgen</b> ||| \n"
    result = run("--tags", "xml", "--device", "cpu", "--threads", "1", stdin=text)
    assert result.out.decode() == "The <b>house</b> is <i>old</i> .\n\n<b></b>\n"
    assert "extract-align transfer: 3 lines, 3 tags, 1 no link, " in result.err
    assert "|threshold:0.01|" in result.err
    assert "|scorer:" not in result.err  # all soft scores are needed


TREE = """\
# sent_id = 1
1\tEU\t_\tPROPN\t_\t_\t_\t_\t_\tNER=B-ORG
2\tist\t_\tAUX\t_\t_\t_\t_\t_\t_

"""


def test_labels_of_words(run: Run, write: Write, tmp_path: Path) -> None:
    write(s=TREE, t="the EU is\n", l="0-0 0-1 1-2\n", b="EU\tPROPN\n")
    options = "-q", "--tags", "conll", "-s", "s", "-t", "t", "--links", "l"
    rest = "\t_" * 6
    words = ["1\tthe\t_\tPROPN", "2\tEU\t_\tPROPN", "3\tis\t_\tAUX"]
    result = run(*options, "--column", "upos", "--report", "r")
    printed(result, "# sent_id = 1", *(f"{word}{rest}" for word in words), "")
    tags = json.loads((tmp_path / "r").read_text())["tags"]
    where = {"source": [0, 1], "target": [[0, 1], [1, 2]]}
    assert tags[0] == {"tag": "PROPN", **where, "confidence": 1.0, "remarks": []}
    blank = "\t_" * 7
    expected = f"1\tthe{blank}\tNER=B-ORG", f"2\tEU{blank}\tNER=I-ORG", f"3\tis{blank}\t_", ""
    printed(run(*options), "# sent_id = 1", *expected)
    failed(run("-q", "--tags", "bio", "-s", "b", "-t", "t", "--links", "l"), "'PROPN'", "use --tags words")


ANNOTATED = """\
{"id": 1, "text": "EU ist alt,\\nja", "labels": [[0, 2, "ORG"], [3, 10, "X"]], "target": "old is the (EU)!"}

{"id": 2, "text": "Haus", "labels": [[0, 4, "Y"]], "target": ""}
"""


def test_labels_of_characters(run: Run, write: Write, tmp_path: Path) -> None:
    expected = (
        '{"id": 1, "text": "old is the (EU)!", "labels": [[12, 14, "ORG"], [0, 6, "X"]]}',
        "",
        '{"id": 2, "text": "", "labels": []}',
    )
    write(s=ANNOTATED, t="old is the (EU)!\n\n\n", l="0-3 1-1 2-0\n\n\n")
    printed(run("-q", "--tags", "spans", "--links", "l", "s"), *expected)
    printed(run("-q", "--tags", "spans", "--links", "l", "-s", "s", "-t", "t", "--report", "r"), *expected)
    lines = [json.loads(line)["tags"] for line in (tmp_path / "r").read_text(encoding="utf-8").splitlines()]
    assert [[(tag["tag"], tag["target"], tag["remarks"]) for tag in tags] for tags in lines] == [
        [("ORG", [[3, 4]], []), ("X", [[0, 2]], [])], [], [("Y", [], ["no link"])],
    ]  # fmt: skip
    printed(run("-q", "--tags", "spans", "--strip", "s"), "EU ist alt, ja", "", "Haus")
    line = '{"text": "Das Haus ist alt.", "label": [[4, 8, "X"]]}\n'
    translated = json.loads(run("-q", "--tags", "spans", "--translate", "--threads", "1", stdin=line).out)
    ((begin, end, _),) = translated["label"]
    assert translated["text"][begin:end] == "house"


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"s": "<b>a\n"}, ("s, line 1: not well-formed XML: mismatched tag", "--bad-lines blank treats such lines")),
        ({"l": "0-0\n0-0\n"}, ("t has 1 line, l has 2",)),
        ({"l": "0-9\n"}, ("l, line 1: link 0-9, and there are 1 and 1 words without the tags: links count from 0",)),
    ],
)
def test_bad_input_is_one_line(
    run: Run, write: Write, tmp_path: Path, files: dict[str, Any], parts: tuple[str, ...]
) -> None:
    write(**{name: text for name, text in ({"s": "<b>a</b>\n", "t": "x\n", "l": "0-0\n"} | files).items() if text})
    failed(run("--tags", "xml", "-s", "s", "-t", "t", "--links", "l", "-o", "out"), *parts)
    assert not (tmp_path / "out").exists()


def test_bad_lines_may_be_blank(run: Run, write: Write) -> None:
    write(l="\n0-0\n\n")
    text = "<b>a ||| x\n<b>a</b> ||| x\nno field\n"
    result = run("-q", "--tags", "xml", "--links", "l", "--bad-lines", "blank", stdin=text)
    assert (result.code, result.out) == (0, b"\n<b>x</b>\n\n")
    assert "2 unreadable lines treated as blank; the first: stdin, line 1: not well-formed XML" in result.err
    drop = ("--tags", "xml", "--links", "l", "--bad-lines", "drop")
    result = run(*drop, "-o", "out", stdin=text)
    assert (Path("out").read_bytes(), Path("out.kept").read_bytes()) == (b"<b>x</b>\n", b"2\n")
    assert "2 unreadable lines dropped; the first: " in result.err
    assert "extract-align transfer: 3 lines, 1 tag, 2 dropped, " in result.err
    Path("s").write_text("<b>a</b>\n")
    Path("t.kept").write_text("x\n")
    for arguments, why in (
        ((), "--bad-lines drop requires -o FILE"),
        (("-o", "/dev/null"), "--bad-lines drop needs an ordinary file, and /dev/null is not one"),
        (("-o", "v", "--report", "v.kept"), "this run writes v.kept itself: name another file"),
        (("-o", "t", "-s", "s", "-t", "t.kept"), "this run writes t.kept itself: name another file"),
    ):
        result = run(*drop, *arguments, stdin=text)
        assert (result.code, f"error: {why}\n" in result.err) == (2, True), result.err
    assert Path("t.kept").read_text() == "x\n"


def test_a_blank_translation_of_labels_is_dropped(run: Run, write: Write) -> None:
    write(s='{"text": "a", "labels": [[0, 1, "X"]]}\n' * 2, t="x\n\n", l="0-0\n\n")
    result = run("-q", "--tags", "spans", "-s", "s", "-t", "t", "--links", "l", "-o", "out", "--bad-lines", "drop")
    assert (result.code, Path("out.kept").read_bytes()) == (0, b"1\n"), result.err
    assert Path("out").read_text() == '{"text": "x", "labels": [[0, 1, "X"]]}\n'


def test_placeholders_of_the_target_stay_and_are_counted(run_main: Run, write: Write) -> None:
    write(source="File %s not found\nNo <b>%d</b>\n", target="Datei %s fehlt %d\nKein\n", links="0-0 2-2\n0-0\n")
    options = ("-s", "source", "-t", "target", "--links", "links", "--report", "report")
    result = run_main(transfer.main, "--tags", "html,placeholders", *options)
    assert (result.code, result.out) == (0, b"Datei %s fehlt %d\nKein <b>%d</b>\n")
    assert result.err.startswith("extract-align transfer: 2 lines, 1 tag, 1 in the target only, ")
    rows = [json.loads(line) for line in Path("report").read_text().splitlines()]
    assert [row.get("extra") for row in rows] == [["%d"], None]


def test_a_translated_line_keeps_its_blocks(run: Run) -> None:
    blocks = (
        "<title>Das alte Haus</title>",
        "<ul><li>Das Haus<li> </ul>",
        "<h1>Das alte Haus</h1>",
        "<p>Ein Hund.</p>",
    )
    lines = [*blocks, "", "<pre>Das Haus</pre> <hr>", "".join(blocks), "<b>"]
    result = run("--tags", "html", "--translate", "--threads", "1", stdin="\n".join(lines))
    title, items, heading, paragraph, *rest = result.out.decode().removesuffix("\n").split("\n")
    assert rest == ["", "<pre>Das Haus</pre> <hr>", title + items + heading + paragraph, "<b>"]
    for before, after in zip(blocks, (title, items, heading, paragraph), strict=True):
        assert after != before
        assert re.sub(">[^<]+<", "><", after) == re.sub(">[^<]+<", "><", before)
    assert "extract-align transfer: 8 lines, 0 tags, " in result.err


def test_what_is_not_translated_is_copied(run: Run, tmp_path: Path) -> None:
    lines = "Datei '%s' mit <code>apt  get</code> &amp; https://a.example.", "Der Zug <i translate=no>Uhr</i> fährt."
    result = run("-q", "--tags", "html,placeholders", "--translate", "--report", tmp_path / "r", stdin="\n".join(lines))
    first, second = result.out.decode().split("\n")[:2]
    for text in ("'%s'", "<code>apt  get</code>", "&amp; https://a.example."):
        assert first.count(text) == 1
    assert "<i translate=no>Uhr</i>" in second
    tags = [json.loads(line)["tags"] for line in (tmp_path / "r").read_text(encoding="utf-8").splitlines()]
    assert [tag["tag"] for tag in tags[0]] == ["%s", "<code>apt  get</code>", "https://a.example"]
    result = run("-q", "--tags", "html", "--translate", "--keep", "var", stdin="<code>Das Haus</code> ist alt")
    assert "Haus" not in result.out.decode()


@pytest.mark.parametrize(
    ("tags", "line", "kept"),
    [
        ("html", "Der <1><2>Hund</2></1> schläft <0/> jetzt.", r"<1><2>\w+</2></1> .*<0/>"),
        ("html", "<0>Der Hund</0> ist alt.", r"^<0>the dog</0> is old\.$"),
        ("html,placeholders", "Der <3>{{name}}</3> schläft.", r"<3>\{\{name\}\}</3> "),
        ("xml", 'Der <x id="START_B"/>Hund<x id="CLOSE_B"/> ist alt.', r'<x id="START_B"/>dog<x id="CLOSE_B"/> is'),
        ("xml", '<x id="START_B"/>Der<x id="CLOSE_B"/> Hund ist alt.', r'^<x id="START_B"/>the<x id="CLOSE_B"/> dog'),
        ("xml", 'Der Hund <x id="9">9</x> ist alt.', r'^the dog <x id="9">9</x> is old\.$'),
        ("xml", '<mrk type="mtc:match">Der <mrk type="term">Hund</mrk></mrk>.', '^the <mrk type="term">dog</mrk>.$'),
        ("placeholders", "Der %*s Hund und %<PRIu64> Katzen.", r" %\*s .* %<PRIu64> "),
        ("placeholders", "Der @:app.tier ist $t(alt, {'n': {{n}} }).", r" @:app\.tier .*\$t\(alt, {'n': {{n}} }\)\.$"),
    ],
)
def test_tags_of_translation_systems_are_copied(run: Run, tags: str, line: str, kept: str) -> None:
    result = run("-q", "--tags", tags, "--translate", "--threads", "1", stdin=line)
    assert re.search(kept, result.out.decode().strip())
    assert "&lt;" not in result.out.decode()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%1$sDie Katze%2$s ist jung.", r"%1\$sW W%2\$s W W\."),
        ("{0}Das Fenster{1} ist offen.", r"\{0\}W W\{1\} W W\."),
        ("%sHund suchen%s", r"%sW( W)*%s"),
        ("Der Hund ist **sehr jung**.", r"W( W)* \*\*W W\*\*\."),
        ("[Die Katze](https://a.example)", r"\[W W\]\(https://a\.example\)"),
        ("![Die Katze](a.png)", r"!\[W W\]\(a\.png\)"),
        (r"Erster Tag.\nZweiter Tag.", r"W W\.\\nW W\."),
        (r"Das ist \"neu\" und gut.", r"W( W)* \\\"W\\\" W W\."),
        ("Mit --all-lines und -o kann man --re=REGEX setzen.", "W --all-lines W -o,?( W)* --re=REGEX( W)*."),
        ("%d%% der Hunde und 100%% Haus", r"%d%% W( W)* 100%% W"),
        (r'Mit --dir="C:\Haus" das Tor', r'W --dir="C:\\Haus" W W'),
        ("Mit --[no-]color das Tor", r"W --\[no-\]color W W"),
        (r"Der \033[1mHund\033[0m ist jung.", r"W \\033\[1mW\\033\[0m W W."),
        ("  -n, --number=N   zeigt die Seite", "  -n, --number=N   W( W)*"),
    ],
)
def test_words_are_translated_next_to_marks_and_escapes(run: Run, line: str, expected: str) -> None:
    result = run("-q", "--tags", "placeholders", "--translate", stdin=line).out.decode()
    assert re.fullmatch(expected.replace("W", r"[a-z']+") + "\n", result), result
    assert not {*re.findall("Katze|Fenster|Hund|Tag", line)} & {*result.split()}


PAGE = (
    "<!DOCTYPE html>\r\n<html lang=de-AT><title>Haus</title>\n"
    "<p>Das <b>Haus</b>\nist alt.<img alt='Hund'>\n<pre>x\n</pre></p>\n"
)


def test_a_whole_page(run: Run, write: Write, tmp_path: Path) -> None:
    write(**{"p.html": PAGE, "t": "House\nThe house is old.\n", "l": "0-0\n0-0 1-1 2-2 3-3\n"})
    printed(run("-q", "--html-file", "p.html", "--strip"), "Haus", "Das Haus ist alt.")
    expected = PAGE.replace("Haus<", "House<", 1).replace("Das <b>Haus</b>\nist alt.", "The <b>house</b> is old.")
    for links in (["--links", "l"], []):
        result = run("-q", "--html-file", "p.html", "-t", "t", *links, "-o", "o.html")
        assert (result.code, result.out) == (0, b"")
        assert (tmp_path / "o.html").read_bytes().decode() == expected
    result = run("--html-file", "p.html", "--translate", "--attributes", "alt", "--report", "r")
    title, paragraph = re.fullmatch(
        r"<!DOCTYPE html>\r\n<html lang=en><title>(.+)</title>\n<p>(.+)<img alt='[^']+'>\n<pre>x\n</pre></p>\n",
        result.out.decode(),
    ).groups()  # type: ignore[union-attr]
    assert "Haus" not in title + paragraph
    assert paragraph.count("<b>") == 1
    assert len((tmp_path / "r").read_text(encoding="utf-8").splitlines()) == 3
    assert "3 lines, 1 tag, " in result.err


def test_pages_that_cannot_be_read(run: Run, write: Write) -> None:
    write(**{"p": b"<p>a\n<p>\xff", "t": "a\nb\nc\n", "q": "<p>a<p>b", "l": "0-0\n0-0\n0-0\n"})
    failed(run("--html-file", "p", "--strip"), "error: p, line 2: the page is not UTF-8: save it as UTF-8")
    blocks = "q (blocks, as --strip writes them)"
    failed(
        run("--html-file", "q", "-t", "t", "--links", "l"), f"{blocks} has 2 lines, t has 3: line 3 has no counterpart"
    )
    write(**{"t": "a\n\n", "l": "0-0\n\n"})
    page = ("--html-file", "q", "-t", "t", "--links", "l")
    failed(run(*page), "error: t, line 2: the translation of a block is blank")
    result = run(*page, "--bad-lines", "blank")
    assert (result.code, result.out) == (0, b"<p>a<p>")


OTHER_FILES: dict[str, tuple[str | bytes, str]] = {
    "arrays": (
        '<?xml version="1.0" encoding="utf-8"?>\n<!-- > -->\n<resources>\n  <string name="a">Ein Hund</string>\n',
        "XML of another kind",
    ),
    "plain": ('<resources>\n  <plurals name="a">', "XML of another kind"),
    "dict": (
        '<?xml version="1.0"?>\n<!DOCTYPE plist PUBLIC "x">\n<plist version="1.0">\n<dict>\n<key>Hund</key>',
        "XML of another kind",
    ),
    "feed": ('<?xml version="1.0"?>\n<rss><channel><title>Hund</title></channel></rss>', "XML of another kind"),
    "map": ('{\n  "dog": "Ein Hund"\n}\n', "JSON"),
    "line": ('{"dog": "Ein {n} Hund", "n": {"m": ["}"]}}\n', "JSON"),
    "lines": ('{"dog": "Ein Hund"}\n{"cat": 2}\n', "JSON"),
    "list": ('[{"dog": "Ein Hund"},\n {"cat": "x"}]\n', "JSON"),
    "keys": ('/* Haustier */\n"dog" = "Ein \\"Hund\\"";\n"cat" = "x";\n', "a .strings file"),
    "times": ("\ufeff17\n00:01:02,500 --> 00:01:04,000\nEin Hund.\n", "subtitles"),
    "web": ("WEBVTT\n\nNOTE Tiere\n\n01:02.500 --> 01:04.000\nEin Hund.\n", "subtitles"),
    "script": ("[Script Info]\nTitle: Hund\n", "subtitles"),
    "catalog": ('# Tiere\nmsgid ""\nmsgstr "Language: de\\n"\n', "a PO file"),
    "wide": ("Ein Hund\n".encode("utf-16"), "UTF-16"),
    "tmx": ('<tmx version="1.4"><body/></tmx>', "TMX, a document"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_files_that_are_not_read(run: Run, write: Write, name: str) -> None:
    content, kind = OTHER_FILES[name]
    crlf = content.replace("\n", "\r\n") if isinstance(content, str) else content
    for data in (content, crlf):
        write(**{name: data})
        for command in ((name,), ("--tags", "html", "--translate", name), ("--html-file", name, "--translate")):
            result = run(*command)
            message = (
                f"extract-align transfer: error: {name}: the file is {kind}: extract-align transfer reads lines of "
            )
            assert (result.code, result.out) == (1, b"")
            assert result.err.startswith(message)
            assert result.err.count("\n") == 1
        write(**{f"{name}.gz": gzip.compress(data if isinstance(data, bytes) else data.encode())})
        packed = run("--tags", "html", "--strip", f"{name}.gz")
        assert packed.err == result.err.replace(f"{name}: the", f"{name}.gz: the")
        piped = run("--tags", "html,placeholders", "--translate", stdin=data)
        assert piped.err == result.err.replace(f"{name}: the", "stdin: the")


@pytest.mark.parametrize("name", ["x.json", "values/strings.xml", "x.strings", "x.ARB", "x.docx", "x.vtt.gz", "x.yml"])
@pytest.mark.parametrize("option", [(), ("--tags", "html", "-s"), ("--translate", "--html-file"), ("--check",)])
def test_names_of_files_that_are_not_read(run: Run, name: str, option: tuple[str, ...]) -> None:
    result = run(*option, name)
    end = "strings.xml" if "xml" in name else name.removeprefix("x").removesuffix(".gz").lower()
    failed(result, f"error: {name}: the file is a {end} file: extract-align transfer reads", "XLIFF, TMX and PO files")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("name", [*OTHER_FILES])
def test_lines_that_begin_like_other_files(run: Run, write: Write, name: str) -> None:
    content = OTHER_FILES[name][0]
    if isinstance(content, str) and "xml" not in content and name not in ("plain", "tmx"):
        first, _, rest = content.lstrip("\ufeff").partition("\n")
        for text in (f"Ein {first}\n{rest}", f"{first} ist ein Hund\n", f"{first} ||| {first}\n"):
            assert run("-q", "--tags", "placeholders", "--strip", stdin=text).code == 0, text
        write(l="\n")
        bitext = f"{first} ||| {first}\n"
        assert run("-q", "--tags", "placeholders", "--links", "l", stdin=bitext).out.decode() == f"{first}\n"


def test_a_page_is_known_by_its_name(run: Run, write: Write) -> None:
    old = '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="x"><p>Der Hund<br/></p></html>\n'
    write(**{"a.html": PAGE, "a.HTM": PAGE, "a.xhtml": old, "t": "House\nThe house is old.\n", "b.html": "<p>\xfc"})
    for name in ("a.html", "a.HTM"):
        printed(run("-q", name, "--strip"), "Haus", "Das Haus ist alt.")
        assert run("-q", name, "-t", "t").out == run("-q", "--html-file", name, "-t", "t").out
    assert run("-q", "a.xhtml", "--translate").out.decode() == old.replace("Der Hund", "the dog")
    write(**{"b.html": "<p>\xfc".encode("latin-1"), "c.html": "<p>Haus".encode("utf-16")})
    failed(run("b.html", "--strip"), "b.html, line 1: the page is not UTF-8: save it as UTF-8")
    failed(
        run("c.html", "--strip"), "c.html: the file is UTF-16 or UTF-32: extract-align transfer reads lines of UTF-8"
    )


def test_targets_of_a_careless_translator(run: Run, tmp_path: Path) -> None:
    lines = "Das <b>Haus</b> [id0]ist[id1] {name} alt. ||| The < b >house is [ID0]{ Name } old <i>.\n[[x]] a ||| b\n"
    options = ("--tags", "html,placeholders", "--placeholder", r"\[id[0-9]+\]")
    result = run(*options, "--repair", "--report", tmp_path / "r", stdin=lines)
    first, second = result.out.decode().splitlines()
    assert second == "b"
    assert re.sub(r"\[id1\]|</b>| ", "", first) == "The<b>houseis[id0]{name}old."
    assert [first.count(text) for text in ("[id0]", "[id1]", "<b>", "</b>", "{name}")] == [1] * 5
    report = json.loads((tmp_path / "r").read_text(encoding="utf-8").splitlines()[0])
    assert (report["removed"], report["rewritten"]) == (["< b >", "<i>"], ["[ID0]", "{ Name }"])
    assert ", 1 like placeholders, left as text, 2 removed, 2 rewritten, " in result.err


SEVERAL = [
    ("«a» und ##b", ("«\\w+»", "##\\w"), "«a» and ##b"),
    ("[1] und [x]", (r"\[\d\]|\[y\]", r"\[x\]|\[z\]"), "[1] and [x]"),  # each with branches of its own
    ("=aa= und ~bb~", (r"=(\w)\1=", r"~(\w)\1~"), "=aa= and ~bb~"),  # and its own groups
    ("XX1 und yy", ("(?i)xx[0-9]", "(?P<n>y)(?P=n)"), "XX1 and yy"),  # and flags
    ("<<n>> und nn", ("nn", "<<n>>", "<<n>>"), "<<n>> and nn"),
]


@pytest.mark.parametrize(("source", "patterns", "expected"), SEVERAL)
@pytest.mark.parametrize("step", [1, -1])
def test_all_patterns_of_placeholders_count(
    run: Run, write: Write, source: str, patterns: tuple[str, ...], expected: str, step: int
) -> None:
    write(l="0-0\n")
    options = [word for pattern in patterns[::step] for word in ("--placeholder", pattern)]
    result = run("-q", "--tags", "placeholders", *options, "--links", "l", stdin=f"{source} ||| and\n")
    assert sorted(result.out.decode().split()) == sorted(expected.split())
    removed = run("-q", "--tags", "placeholders", *options, "--repair", stdin=f"und ||| {expected}\n")
    assert removed.out.decode().split() == ["and"]


def test_lists_go_on_where_an_option_is_repeated(run: Run) -> None:
    page = '<p title="Haus" alt="Haus">Haus <kbd>Haus</kbd> <samp>Haus</samp></p>'
    lists = "--attributes", "title", "--attributes", "lang,alt", "--keep", "kbd", "--keep", "samp"
    result = run("-q", "--tags", "html", "--translate", *lists, stdin=page)
    expected = '<p title="house" alt="house">house <kbd>Haus</kbd> <samp>Haus</samp></p>\n'
    assert result.out.decode() == expected


def test_a_line_that_cannot_be_repaired_stays(run: Run, tmp_path: Path) -> None:
    lines = [
        "Ein <b>Haus</b> hier ||| A <b>house</b here",
        "Das %s Haus, %d alt ||| The % house, % old",
        "<b>Das Haus</b> ||| The <i house is {old",
        "Das Haus ||| The house %s",
    ]
    options = ("--tags", "html,placeholders", "--repair", "--report", tmp_path / "r", "--review", tmp_path / "v")
    result = run(*options, stdin="\n".join(lines) + "\n")
    expected = ["A <b>house</b> here", *(line.partition(" ||| ")[2] for line in lines[1:])]
    assert (result.code, result.out.decode().splitlines()) == (0, expected)
    rows = [json.loads(line) for line in (tmp_path / "r").read_text(encoding="utf-8").splitlines()]
    lists = [{name: texts for name, texts in row.items() if name not in ("id", "tags")} for row in rows]
    assert lists == [
        {"rewritten": ["</b"]},
        {"unrepaired": ["%s", "%d"]},
        {"unrepaired": ["<b>", "</b>"]},
        {"extra": ["%s"]},
    ]
    assert [row["tags"] for row in rows] == [[]] * 4
    assert [line.split("\t")[0] for line in (tmp_path / "v").read_text(encoding="utf-8").splitlines()] == ["2", "3"]
    assert ", 4 not repaired, 1 rewritten" in result.err


def test_doubtful_lines_are_listed(run: Run, write: Write, tmp_path: Path) -> None:
    write(
        s="<b>Das Haus</b> ist alt.\nEin <i>Wort</i>\tda\nnichts\n<b>Q</b> x\n",
        t="The house is old.\na word here\nnothing\nR y\n",
        l="0-0 1-1 2-2 3-3\n0-0 1-0 1-2 2-1\n0-0\n1-1\n",
    )
    result = run("--tags", "html", "-s", "s", "-t", "t", "--links", "l", "--review", "r")
    assert result.out.decode().splitlines()[0] == "<b>The house</b> is old."
    line, unlinked = (tmp_path / "r").read_text(encoding="utf-8").splitlines()
    assert unlinked.split("\t")[:3] == ["4", "0.00", "no link"]
    number, confidence, remarks, source, target = line.split("\t")
    assert (number, remarks, source) == ("2", "", "Ein <i>Wort</i> da")
    assert 0 <= float(confidence) < 0.9
    assert target == result.out.decode().splitlines()[1]


JAPANESE = "本が好きだ。"


def test_words_without_spaces(run: Run, write: Write) -> None:
    html = f"我<b>爱</b>&amp;书。 ||| {JAPANESE}\n"
    write(l="0-0 1-2 1-3 3-0 4-5\n")
    words = "-q", "--words", "characters", "--links", "l"
    printed(run(*words, "--tags", "html", stdin=html), "本が<b>好き</b>だ。")
    record = json.dumps({"text": "我爱&书。", "labels": [[1, 2, "V"], [3, 4, "N"]], "target": JAPANESE})
    printed(
        run(*words, "--tags", "spans", stdin=record), '{"text": "本が好きだ。", "labels": [[2, 4, "V"], [0, 1, "N"]]}'
    )
    write(s="我\tO\n爱&\tB-V\n书。\tO\n", t=JAPANESE + "\n")
    printed(
        run(*words, "--tags", "bio", "-s", "s", "-t", "t"),
        *("本\tO", "が\tO", "好\tB-V", "き\tI-V", "だ\tO", "。\tO", ""),
    )
    write(l="0-0 1-6\n")
    failed(run(*words, "--tags", "html", stdin=html), "error: l, line 1: link 1-6, and there are 5 and 6 words")


@pytest.mark.parametrize("words", ["characters", "pieces"])
def test_a_model_aligns_text_without_spaces(run: Run, words: str) -> None:
    html = "Das <b>Haus</b>, 10&nbsp;m<sup>2</sup>.&amp; ||| The house, 10 m2.\n" * 40
    result = run("--tags", "html", "--words", words, stdin=html)
    assert result.out.decode().splitlines() == ["The <b>house</b>, 10 m<sup>2</sup>."] * 40
    assert f"words:{words}" in result.err
