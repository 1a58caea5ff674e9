"""Pages cut into segments and put together again, and translations of segments with stand-ins."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.types import Alignment, Pair
from align.models.sentences import split_sentences
from align.models.translate import CopyingPair
from align.transfer.pages import Page, Segment
from align.transfer.standins import Passage
from align.transfer.tags import KINDS, Syntax
from tests.hostile.test_tags import WORDS, tagged

PARTS = """<p> </p> <li> <b> </b> <b/> <a\nhref="x"> </a> <br> <img alt="ein Bild" title="Haus"> <!--a--> <script>a<b</script> <pre>x</pre>
<code>ls -l</code> <i translate=no>Wort</i> Haus &nbsp; &amp; 42 . %s {name} https://a.example/b?c=%20d. /etc/apt, {n,plural,one{#&amp;{x}}other{a<b>#</b>}}
{n,select,a{b} < > " ' # \U000f0000""".replace("\n", " ").split(" ")  # noqa: E501
PAGES = st.lists(st.sampled_from([*PARTS, " ", "\n", "\t", ""]), max_size=14).map("".join)


@pytest.mark.parametrize("tags", KINDS)
@given(text=PAGES)
def test_a_page_of_its_own_segments_is_the_page(tags: str, text: str) -> None:
    for translated in ((), ("alt", "title")):
        try:
            page = Page(text, tags, translated=translated)
        except ValueError:
            assert tags.startswith("xml")
            return
        filled = page.fill([segment.text for segment in page.segments])
        assert filled == text
        assert all(any(map(str.isalpha, segment.text)) for segment in page.segments)


def shout(segment: Segment) -> str:
    """Translate text by capital letters."""
    return "".join(token.text.upper() if token.kind == "text" else token.text for token in segment.tokens)


PAGE = """<!DOCTYPE html>
<title>Haus</title><script>var a = "Haus";</script>
<ul><li>Zurück<li> <a href="w.html"> Weiter</a> </ul>
<p translate="no">Haus</p><p>siehe <code>ls</code> und <b>x</b>.<!-- ja --> <img alt="ein &quot;Bild&quot;" src=b></p>
<div><p><b>Hallo</b> Welt <img src=c></div><a><h1>Ende</h1></a> 42 <td>12</td><pre>Haus
</pre><p class="x notranslate">Haus<p><span class=notranslate>Haus</span> ab</body>"""


def test_blocks_are_segments_and_all_else_stays() -> None:
    page = Page(PAGE, "html", translated=["alt"])
    assert [(segment.line, segment.text) for segment in page.segments] == [
        *((2, "Haus"), (3, "Zurück"), (3, "Weiter"), (4, "siehe <code>ls</code> und <b>x</b>.")),
        *((4, "ein &quot;Bild&quot;"), (5, "<b>Hallo</b> Welt"), (5, "Ende")),
        (6, "<span class=notranslate>Haus</span> ab"),
    ]
    filled = page.fill([shout(segment) for segment in page.segments])
    expected = PAGE
    words = "Zurück|Weiter|siehe| und|>x|ein|Bild|Hallo|Welt|Ende| ab|title>Haus"
    for word in words.split("|"):
        expected = expected.replace(word, word.upper(), 1)
    assert filled.replace("ein &QUOT;BILD&QUOT;".upper(), "EIN &quot;BILD&quot;") == expected.replace(
        "TITLE>", "title>"
    )


def test_texts_inside_icu_messages_are_segments() -> None:
    text = (
        "Es {n, plural, =0 {ist nichts} one {ist <b>#</b> Datei} other {sind # {dir}}} da, {g,select,a{er}other{sie}}"
    )
    page = Page(text, "html,placeholders")
    texts = [segment.text for segment in page.segments[:-1]]
    assert "|".join(texts) == "ist nichts|ist <b>#</b> Datei|sind # {dir}|er|sie"
    assert [token.text for token in page.segments[2].tokens if token.kind == "point"] == ["#", "{dir}"]
    assert page.fill([shout(segment) for segment in page.segments]) == (
        "ES {n, plural, =0 {IST NICHTS} one {IST <b>#</b> DATEI} other {SIND # {dir}}} DA, {g,select,a{ER}other{SIE}}"
    )


def test_attributes_follow_their_tags() -> None:
    text = "Ich habe das <i title='das Haus'>rote</i> <b title='der Hund'>gesehen</b>."
    page = Page(text, "html", translated=["title"])
    *_, sentence = (segment.text for segment in page.segments)
    first, second = re.findall("<[ib] [^>]*>", sentence)
    swapped = f"I {second}saw</b> the {first}red</i> {first}one</i>."
    assert page.fill(["the house", "the dog", swapped]) == (
        "I <b title='the dog'>saw</b> the <i title='the house'>red</i> <i title='the house'>one</i>."
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "siehe https://a.example/b?c=d%20e. Und (www.a.example/x), a.b@c.example!",
            "https://a.example/b?c=d%20e www.a.example/x a.b@c.example",
        ),
        ("in /etc/apt/sources.list, ~/.bashrc und C:\\Temp\\x.", "/etc/apt/sources.list ~/.bashrc C:\\Temp\\x"),
        ("src/main.c und/oder 3/4 km/h a/b 1/2.", "src/main.c"),
        ("<b>nichts</b> &amp; 12:30 a:b.", ""),
        ("siehe https://a.example/b?c=1&amp;d=2e im <b>Haus</b>", "https://a.example/b?c=1&amp;d=2e"),
        (
            "&produkt; von &uuml;ber {{a.b}} {%if%} <%=x%> ⟦1⟧, {{x &amp;&amp; y}}",
            "&produkt; {{a.b}} {%if%} <%=x%> ⟦1⟧ {{x &amp;&amp; y}}",
        ),
    ],
)
def test_addresses_paths_and_templates_are_kept(text: str, kept: str) -> None:
    (segment,) = Page(text, "html").segments
    assert " ".join(token.text for token in segment.tokens if token.name == "kept") == kept


@pytest.mark.parametrize("tags", ["xml", "html"])
@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("mehr unter &quot;https://a.example/&quot;!", "https://a.example/"),
        ("mehr unter &lt;https://a.example/?b=1&amp;c=&amp;&gt;.", "https://a.example/?b=1&amp;c=&amp;"),
        ("mehr unter &#39;www.a.example&#x27;, C:\\a&#160;da", "www.a.example C:\\a"),
        ("mit --file=&lt;Name&gt;.", "--file=&lt;Name&gt;"),
        ("mit &quot;--a=b&quot; oder --a=&quot;b&quot;.", "--a=b --a=&quot;b&quot;"),
        ("mit --file=gr&uuml;n&eacute;.", "--file=gr&uuml;n&eacute;"),
    ],
)
def test_no_entity_is_cut(tags: str, text: str, copied: str) -> None:
    (segment,) = Page(text, tags).segments
    assert " ".join(token.text for token in segment.tokens if token.name == "kept") == copied


@pytest.mark.parametrize(
    "text",
    [
        "[ siehe " + "[a](b) " * 400,
        "--a=x," * 4000,
        "1." * 200_000 + "%",
        f"<a{' a= b' * 4000} c='>",
        "<a'" * 40_000 + " b='>",
    ],
)
def test_a_long_line_is_soon_read(text: str) -> None:
    program = "import sys; from align.transfer.pages import Page; Page(sys.stdin.read(), 'html,placeholders')"
    subprocess.run([sys.executable, "-c", program], input=text, text=True, check=True, timeout=60)


def test_comments_and_instructions_stay_in_lines() -> None:
    for tags, point in (("xml", "<?pi x?>"), ("xml,placeholders", "<?pi %s?>"), ("html", "<?pi x>")):
        text = f"das <!-- note --> Haus ist {point} alt."
        assert carried(text, tags, capitals) == f"DAS <!-- note --> HAUS IST {point} ALT."


def test_a_cdata_section_is_text() -> None:
    (segment,) = Page("<a><![CDATA[der <b> & Hund]]> schläft</a>", "xml").segments
    passage = Passage(segment, "de")
    assert [pair.source for pair in passage.pairs] == [("der", "<b>", "&", "Hund", "schläft")]
    assert passage.place(translated(passage, capitals))[0] == "DER &lt;B&gt; &amp; HUND SCHLÄFT"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("{n, plural, one {Es gibt ein '{Haus}'.} other {#}}", "{n, plural, one {ES GIBT EIN '{Haus}'.} other {#}}"),
        (
            "{n, plural, one {a} x {m, plural, one {b} other {# c}}",
            "{N, PLURAL, ONE {a} X {m, plural, one {B} other {# C}}",
        ),
        (
            "{n, plural, one {{g, select, m {er} f {sie}}} other {# da {g, select, m {in} f {zu}}}}",
            "{n, plural, one {{g, select, m {ER} f {SIE}}} other {# DA {g, select, m {IN} f {ZU}}}}",
        ),
        ("{n, plural, other {l''{x} d''un '{a''b}'}}", "{n, plural, other {L''{x} D''UN '{a''b}'}}"),
    ],
)
def test_messages_within_messages_and_quotes(message: str, expected: str) -> None:
    page = Page(message, "placeholders")
    texts = [(passage := Passage(segment, "de")).place(translated(passage, capitals))[0] for segment in page.segments]
    assert page.fill(texts) == expected


def translated(passage: Passage, translate: Callable[[Sequence[str]], tuple[str, ...]]) -> list[Alignment]:
    """Translate each word by itself, in the same order; a sentence that loses a number is replaced."""
    alignments = []
    for pair in passage.pairs:
        while isinstance(pair, CopyingPair) and not pair.is_copied_by(translate(pair.source)):
            pair = pair.otherwise
        words = translate(pair.source)
        links = {(n, n): 1.0 for n in range(len(words))}
        alignments.append(Alignment(Pair(pair.source, words, pair.id), links))
    return alignments


def capitals(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.upper() for word in words)


def test_what_is_copied_stays_attached_and_is_restored() -> None:
    text = 'Die Datei "%s" (%d%%) fehlt in <code>a b</code>-Paketen &lt; 3! Siehe <i>{x}{y}</i>, 100{z}.'
    (segment,) = Page(text, "html,placeholders").segments
    passage = Passage(segment, "de")
    assert [" ".join(pair.source) for pair in passage.pairs] == [
        'Die Datei "417" (428) fehlt in 439-Paketen < 3!',
        "Siehe 461, 100.",
    ]
    assert [pair.copied for pair in passage.pairs if isinstance(pair, CopyingPair)] == [("417", "428", "439"), ("461",)]
    filled, report = passage.place(translated(passage, capitals))
    assert filled == 'DIE DATEI "%s" (%d%%) FEHLT IN <code>a b</code>-PAKETEN &lt; 3! SIEHE <i>{x}{y}</i>, 100{z}.'
    assert [(one.tag, one.source, one.target) for one in report[:3]] == [
        *(("%s", (2, 3), ((2, 3),)), ("%d%%", (3, 4), ((3, 4),)), ("<code>a b</code>", (6, 7), ((6, 7),)))
    ]


def test_one_of_two_numbers_lost_counts_as_lost() -> None:
    (segment,) = Page("von %s nach %s", "placeholders").segments
    passage = Passage(segment, "de")
    (pair,) = passage.pairs
    assert isinstance(pair, CopyingPair)
    for lost in pair.copied:

        def lose(words: Sequence[str], lost: str = lost) -> tuple[str, ...]:
            return tuple("x" if word == lost else word for word in words)

        (alignment,) = translated(passage, lose)
        assert not set(pair.copied) & set(alignment.pair.source)
        assert passage.place([alignment])[0] == "von %s nach %s"


@pytest.mark.parametrize("character", ["\U000f0001", "\U000f0100", "&#xF0100;"])
def test_a_text_may_have_the_characters_that_mark_what_is_copied(character: str) -> None:
    (segment,) = Page(f"ein {character} Haus <code>x</code> da", "html").segments
    passage = Passage(segment, "de")
    expected = f"EIN {unescape(character)} HAUS <code>x</code> DA"
    assert passage.place(translated(passage, capitals))[0] == expected


@given(
    text=tagged([*WORDS, *("%s", "{0}", "<code>a <b>b</b></code>") * 3]),
    lost=st.sampled_from(["", "4", "5", "46", "123456789"]),
)
def test_every_tag_and_placeholder_comes_once(text: str, lost: str) -> None:
    page = Page(text, "html,placeholders")
    texts = []
    for segment in page.segments:
        passage = Passage(segment, "de")

        def lose(words: Sequence[str]) -> tuple[str, ...]:
            return tuple("x" if word[0] in lost else word for word in words)

        texts.append(passage.place(translated(passage, lose))[0])
    before, after = (
        Counter(token.text for token in Syntax.of("html,placeholders").parse(side) if token.kind != "text")
        for side in (text, page.fill(texts))
    )
    assert before == after


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Das ist z. B. gut.|Am 3. Oktober kam Dr. Müller.|Was?|„Ja.“|Gut", "de"),
        ("See Fig. 3 for e.g. this.|Version 2.0.|It works... maybe.|J. Smith!", "en_GB"),
        ("Это так.|И т. д.", "ru"),
        ("Ein Satz.|Ein anderer.", "xx"),
        ("", "de"),
    ],
)
def test_sentences(text: str, language: str) -> None:
    words = text.replace("|", " ").split()
    sentences = "|".join(" ".join(words[slice(*bounds)]) for bounds in split_sentences(words, language))
    assert sentences == text


def carried(text: str, tags: str, translate: Callable[[Sequence[str]], tuple[str, ...]]) -> str:
    """Translate a page word by word."""
    page = Page(text, tags)
    passages = [Passage(segment, "de") for segment in page.segments]
    return page.fill([passage.place(translated(passage, translate))[0] for passage in passages])


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("%1$sDer Baum%2$s blüht.", "417 Der Baum 428 blüht."),
        ("{0}Das Tor{1} war zu", "417 Das Tor 428 war zu"),
        ("Hier %slesen%s!", "Hier 417 lesen 428!"),
        ("Wort{a}um{b}Wort", "Wort 417 um 428 Wort"),
        ("[ über %dMB ]", "[ über 417 MB ]"),
        ("{name}s Baum, der {n}te", "417 s Baum, der 428 te"),
        ("名前{0}は", "名前417は"),
    ],
)
def test_placeholders_glued_to_words_stand_apart_for_the_model(text: str, source: str) -> None:
    (segment,) = Page(text, "placeholders").segments
    assert " ".join(word for pair in Passage(segment, "de").pairs for word in pair.source) == source
    assert carried(text, "placeholders", tuple) == text
    assert carried(text, "html,placeholders", tuple) == text


def test_angle_brackets_are_glued_as_they_were() -> None:
    def part(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(re.findall(r"[<>]|[^\s<>]+", " ".join(words)))

    for text in ("siehe &lt;https://a.example/x&gt; da", "da &lt; https://a.example/x &gt; ja"):
        (segment,) = Page(text, "html").segments
        passage = Passage(segment, "de")
        (alignment,) = translated(passage, part)
        assert passage.place([replace(alignment, scores={})])[0] == text


def test_words_are_glued_on_the_side_where_they_were() -> None:
    order = {"417": 2, "ja": 0, "428": 3, "nein": 1, ".": 4}

    def mix(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(words, key=order.__getitem__))

    assert carried("%sja %snein .", "placeholders", mix) == "ja nein %s %s ."
    assert carried("ja%s nein%s .", "placeholders", mix) == "ja nein%s %s ."
    assert carried("<b>%s</b>%s <i>ja</i>%s", "html,placeholders", tuple) == "<b>%s</b>%s <i>ja</i>%s"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Der **alte Baum**.", "Der alte Baum."),
        ("Ein _alter_ und ~~kahler~~ ***Baum***, *ja*", "Ein alter und kahler Baum, ja"),
        ("**Halt:** so __nicht hier__!", "Halt: so nicht hier!"),
        ("[Der Baum](https://a.example/b_(c)) blüht", "Der Baum blüht"),
        ('![Baum](baum.png), [**alt**][2] und [rot]({url} "x")', "Baum, alt und rot"),
        ("[![Baum](a/b.png)](../c.md#d)", "Baum"),
        ("der <u>[alte](x)</u> *<b>Baum</b>*", "der alte Baum"),
        ("nimm `git log` und ``a b``!", "nimm 417 und 428!"),
        ("**{0} Tore** und `%s`", "417 Tore und 428"),
        ("- [x] **Baum** fällen", "Baum fällen"),
        ("### Der Baum", "Der Baum"),
        # no marks, or no pairs
        ("3 * 4 und (*) [a] (siehe [1])", "3 * 4 und (*) [a] (siehe [1])"),
        ("C# und #1 - ja, 'so' `da`", "C# und #1 - ja, 'so' 417"),
        ("max_size, a_b und __n__", "417, 428 und 439"),
        ("Preis* und *ohne", "Preis* und *ohne"),
        ("l`eau d`un `x' `y'", "l`eau d`un `x' `y'"),
        ("2*3*4 ~5 m_ _ x", "2*3*4 ~5 m_ _ x"),
    ],
)
def test_pairs_of_marks_are_tags(text: str, source: str) -> None:
    (segment,) = Page(text, "html,placeholders").segments
    assert " ".join(word for pair in Passage(segment, "de").pairs for word in pair.source) == source
    assert carried(text, "html,placeholders", tuple) == text


def test_marks_follow_their_words() -> None:
    def turn(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(reversed(words))

    (segment,) = Page("rot **Baum und** [Tor](x.md) da", "placeholders").segments
    passage = Passage(segment, "de")
    (alignment,) = translated(passage, turn)
    alignment = replace(alignment, scores={(n, 4 - n): 1.0 for n in range(5)})
    assert passage.place([alignment])[0] == "da [Tor](x.md) **und Baum** rot"


@pytest.mark.parametrize(
    ("text", "sources", "expected"),
    [
        (r"Der Baum.\nDas Tor.", ["Der Baum.", "Das Tor."], r"DER BAUM.\nDAS TOR."),
        (r"\tBaum:\r\n\r\n- Tor \\n x", ["Baum:", "Tor", "x"], r"\tBAUM:\r\n\r\n- TOR \\n X"),
        ("ein Baum\n  und ein Tor\n", ["ein Baum", "und ein Tor"], "EIN BAUM\n  UND EIN TOR\n"),
        (r"Der \"Baum\" l\'a", ["Der \"Baum\" l'a"], r"DER \"BAUM\" L\'A"),
        (r'"so": "ein \"Baum\""', ['"so": "ein "Baum""'], r'"SO": "EIN \"BAUM\""'),
        (r"mit --x=y\tBaum", ["mit 417", "Baum"], r"MIT --x=y\tBAUM"),
        (r"gr\u00fcn wie B\xe4ume", ["grün wie Bäume"], "GRÜN WIE BÄUME"),
        (r"3\u00a0km zum\u00a0Tor", ["3 km zum Tor"], r"3\u00a0KM ZUM\u00a0TOR"),
        (r"Tor\\Baum \x41 \/ \*ja\*", ["Tor 417 Baum 428 439 450 ja 461"], r"TOR\\BAUM \x41 \/ \*JA\*"),
        (r"C:\neu\tor und \\host\neu\, da", ["417 und 428, da"], r"C:\neu\tor UND \\host\neu\, DA"),
        (r"{n, plural, one {\"a\" b\nc} other {# **c**}}", [], r"{n, plural, one {\"A\" B\nC} other {# **C**}}"),
    ],
)  # fmt: skip
def test_escapes_stay(text: str, sources: list[str], expected: str) -> None:
    page = Page(text, "placeholders")
    if sources:
        assert [" ".join(pair.source) for segment in page.segments for pair in Passage(segment, "de").pairs] == sources
    assert carried(text, "placeholders", capitals) == expected
    assert carried(text, "placeholders", tuple) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("mit --all-trees, -nv, -v/-x oder (--re=A.*B).", "--all-trees -nv -v --re=A.*B"),
        ("mit --color[=WHEN] --n=%d --pfad=/etc/x; -O2", "--color[=WHEN] --n= --pfad=/etc/x -O2"),
        (r"mit --pfad=C:\neu\tor, --x=y da", r"--pfad=C:\neu\tor --x=y"),
        ("Haus--Tor -- ja, Ein- und -ausgabe, 5 - 3, er/-in --Ja -Du", ""),
    ],
)
def test_options_are_kept(text: str, kept: str) -> None:
    (segment,) = Page(text, "placeholders").segments
    assert " ".join(token.text for token in segment.tokens if token.name == "kept") == kept


def test_a_column_of_options_stays() -> None:
    text = "  -n, --name=NAME FILE    nennt den Baum\n  -h\tzeigt das\n"
    assert carried(text, "placeholders", capitals) == text.replace("nennt den Baum", "NENNT DEN BAUM").replace(
        "zeigt das", "ZEIGT DAS"
    )


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ('<html lang="de">', '<html lang="en">'),
        ("<HTML class='de' xml:lang='de-AT' LANG=de>", "<HTML class='de' xml:lang='en' LANG=en>"),
        ('<html data-lang="de" lang="den">', '<html data-lang="de" lang="den">'),
        ("<html lang='fr'>", "<html lang='fr'>"),
        ("<html>", "<html>"),
    ],
)
def test_the_language_of_the_root_follows_the_translation(root: str, expected: str) -> None:
    page = Page(f"<!-- <html lang='de'> -->\n{root}<script>'<html lang=de>'</script><p lang='de'>Baum", "html")
    page.name_language("de", "en")
    assert (
        page.fill(["tree"])
        == f"<!-- <html lang='de'> -->\n{expected}<script>'<html lang=de>'</script><p lang='de'>tree"
    )


@pytest.mark.parametrize("name", ["style", "script", "textarea", "math", "svg"])
def test_elements_of_xml_are_text_whatever_their_names(name: str) -> None:
    text = f"der <{name} id='1'>Baum</{name}> da"
    assert carried(text, "xml", capitals) == f"DER <{name} id='1'>BAUM</{name}> DA"
    assert "Baum" in carried(text, "html", capitals)


GLUED = r"""%s %1$s {0} {{x}} \n \t \" \' \\ \u00a0 \x41 \u00fc ** * _ ~~ [ ](x.png) ](https://a.example) ![ ` `ls`
--opt=X -o C:\neu\t max_size Baum alt der Tor. ß s ( ) , " ' # - $X""".replace("\n", " ").split(" ")


def mixed(parts: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw a text of parts that may touch each other."""
    pairs = st.tuples(st.sampled_from(parts), st.sampled_from(["", " "]))
    return st.lists(pairs, min_size=1, max_size=9).map(lambda drawn: "".join(map("".join, drawn)).strip())


@given(text=mixed(GLUED))
def test_a_text_that_is_its_own_translation_comes_back(text: str) -> None:
    """Spaces at the edges of a link's text, and next to an escaped space, may be lost."""
    spaces = re.compile(r"(?<=\[) +|(?<=\\u00a0) +| +(?=\\u00a0|\](?:\(|\[))")
    for tags in ("placeholders", "html,placeholders"):
        assert spaces.sub("", unescape(carried(text, tags, tuple))) == spaces.sub("", text)


TRANSLATORS: dict[str, Callable[[Sequence[str]], tuple[str, ...]]] = {
    "reversed": lambda words: tuple(reversed(words)),
    "with a loss": lambda words: tuple(word for n, word in enumerate(words) if n % 3),
    "empty": lambda words: (),
    "another": lambda words: tuple(word if word.isdecimal() else "x\xa0&nbsp;\"'" for word in words),
}


@given(
    text=mixed([*GLUED, "<b>", "</b>", "<br>", "&uuml;", "\n", "{n, plural, one {\\n**a**} other {#}}"]),
    name=st.sampled_from([*TRANSLATORS]),
)
def test_whatever_a_model_does_all_tokens_come_back(text: str, name: str) -> None:
    for tags in ("placeholders", "html,placeholders"):
        result = carried(text, tags, TRANSLATORS[name])
        tokens = [token for segment in Page(text, tags).segments for token in segment.tokens if token.kind != "text"]
        counts = Counter(token.text for token in tokens if token.name != "icu")
        assert all(result.count(token) >= count for token, count in counts.items())
