"""Tags along links: one sentence for each thing that a translator would look for."""

from __future__ import annotations

import re
import sys
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.evaluation.link_formats import parse_pharaoh
from align.transfer.inline import Inline, transfer_markup
from align.transfer.markup import CROSSING, DOUBTFUL, MOVED, PART, Placement
from align.transfer.repair import Repaired, repair_target
from align.transfer.tags import Syntax, halves, markup_of, parse_html, words_in

PRESS = "Zum Ende drücken Sie {}Eingabe{} dann.", "Then press Enter to finish."
PRESS_LINKS = parse_pharaoh("0-3 1-4 2-1 3-1 4-2 5-0")


def code(text: str) -> str:
    """Return a standalone code with a native one."""
    return f'<ph id="{len(text)}">{text.replace("<", "&lt;")}</ph>'


HALVES = [
    ('<x id="START_KEY"/>', '<x id="CLOSE_KEY"/>'),
    ('<x id="START_TAG_KBD_2" equiv-text="&lt;kbd>"/>', '<x id="CLOSE_TAG_KBD" equiv-text="&lt;/kbd>"/>'),
    ('<ph id="0" equiv="START_BOLD_TEXT_1"/>', '<ph id="1" equiv="CLOSE_BOLD_TEXT_1"/>'),
    (code("<u>"), code("</u>")),
    (code('<A href="x">'), code("</a>")),
    (code("<i><b>"), code("</b></i>")),
    (code("[url]"), code("[/url]")),
    (code("{1}"), code("{/1}")),
    ('<xlf:ph id="3"><![CDATA[<u>]]></xlf:ph>', '<xlf:ph id="4"><![CDATA[</u>]]></xlf:ph>'),
    ('<x id="a" equiv-text="&lt;em class=&quot;k&quot;>"/>', '<x id="b" equiv-text="&lt;/em>"/>'),
    ('<ph id="1" disp="&lt;1>"/>', '<ph id="2" disp="&lt;/1>"/>'),
    ('<it pos="begin" x="1"/>', '<it pos="end" x="2"/>'),
    ('<it id="1" pos="open" ctype="bold">\\b</it>', '<it id="2" pos="close" ctype="bold">\\b0</it>'),
]


@pytest.mark.parametrize(("one", "other"), [*HALVES, ("<0>", "</0>"), ("%1$s", "%2$s"), ("%s", "%s"), ("{a}", "{b}")])
def test_halves_enclose_what_they_did(one: str, other: str) -> None:
    tags = "xml" if (one, other) in HALVES else "html" if one == "<0>" else "placeholders"
    source, target = PRESS
    placed = Inline.of_segment(source.format(one, other), target, tags).place(PRESS_LINKS)
    assert placed.text == f"Then press {one}Enter{other} to finish."
    assert [(row.tag, row.confidence, row.remarks) for row in placed.report] == [(one, 1.0, ())]
    for text in (placed.text, f"Then {one}press{other} Enter to finish."):  # what is there stays
        assert Inline.of_segment(source.format(one, other), text, tags).place(PRESS_LINKS).text == text


WORDS = st.lists(st.sampled_from(["ab", "cd", "ef,", "gh.", "(ij)"]), min_size=1, max_size=6)


@given(WORDS, WORDS, st.data(), st.sampled_from([*HALVES, ("{a}", "{b}")]))
def test_standalone_halves_come_where_native_pairs_do(
    source: list[str], target: list[str], data: st.DataObject, halves_of: tuple[str, str]
) -> None:
    first = data.draw(st.integers(0, len(source) - 1))
    last = data.draw(st.integers(first, len(source) - 1))
    links = data.draw(st.sets(st.tuples(*(st.integers(0, len(side) - 1) for side in (source, target)))))
    marked = [*source]
    marked[first] = "‹" + marked[first].lstrip("(")
    marked[last] += "›"
    results = []
    for one, other in (('<bpt id="1"/>', '<ept id="1"/>'), halves_of):
        tags = "placeholders" if one == "{a}" else "xml"
        line = " ".join(marked).replace("‹", one).replace("›", other)
        placed = Inline.of_segment(line, " ".join(target), tags).place(links)
        report = [row._replace(tag="‹›" if other in row.tag else "‹") for row in placed.report]
        results.append((placed.text.replace(one, "‹").replace(other, "›"), report))
    assert results[0] == results[1]


def test_halves_without_the_other_and_parts_of_two_pairs_are_no_spans() -> None:
    for one, other in (("<b>", "</u>"), ("</b>", "<b>"), ("<br>", "</br>"), ("<b>x", "</b>"), ("<b></b>", "<b></b>")):
        tokens = Syntax.of("xml").parse(f'<ph id="1">{escape(one)}</ph>a<ph id="2">{escape(other)}</ph>')
        assert [token.kind for token in tokens] == ["point", "text", "point"]
    tokens = Syntax.of("xml").parse('<x id="START_DATE"/> bis <x id="END_DATE"/>')
    assert {token.kind for token in tokens} == {"point", "text"}


def test_a_closing_half_is_that_of_its_opening_one() -> None:
    first, second, end = (f'<x id="{name}"/>' for name in ("START_LINK", "START_LINK_1", "CLOSE_LINK"))
    inline = Inline.of_segment(f"{first}ja{end} und {second}nein{end}", f"{second}no{end} and yes", "xml")
    assert inline.place(parse_pharaoh("0-2 1-1 2-0")).text == f"{second}no{end} and {first}yes{end}"


def test_a_placeholder_of_a_span_comes_once_if_tags_are_split() -> None:
    links = parse_pharaoh("0-0 1-1 1-3 2-2")
    placed = transfer_markup("er %1$sgibt nicht%2$s", "he gives not up", links, tags="placeholders", split=True)
    assert sorted(re.findall(r"%\d\$s", placed.text)) == ["%1$s", "%2$s"]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ('<x id="7">7</x>', "The house", 'The <x id="7">7</x>house'),
        ('<bx id="1">a</bx>', "The house", 'The <bx id="1">a</bx>house'),
        ('<x id="7"><b>7</b></x>', "The house", 'The <x id="7"><b>7</b></x>house'),
    ],
)
def test_points_keep_their_content(text: str, target: str, expected: str) -> None:
    assert Inline.of_segment(f"Das {text}Haus", target, "xml").place({(0, 0), (1, 1)}).text == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "added"),
    [
        ('<mrk id="a" type="term">', "", True),
        ('<mrk id="a" type="term">', '<mrk id="b" type="term">', False),
        ('<mrk id="a" type="term">', '<mrk id="a" type="comment">', True),
        ('<mrk id="a" ref="#n=1" type="comment">', '<sm id="c" type="comment"/>', False),
        ('<mrk mtype="x-abbrev">', '<mrk mtype="x-abbrev" comment="c">', False),
        ('<mrk id="a" type="mtc:match">', "", False),
        ('<mrk id="a">', '<mrk id="b">', False),
        ('<mrk id="a" translate="no">', '<mrk id="b">', True),
        ('<mrk mtype="protected">', '<mrk mtype="term">', True),
        ('<sm id="a" type="term"/>', "", True),
        ('<sm id="a" type="term"/>', '<sm id="b" type="term"/>', False),
        ('<sm id="a" type="my:match"/>', "", False),
        ('<sm id="a" translate="no"/>', '<sm id="b"/>', True),
    ],
)
def test_annotations_of_the_target_are_its_own(ours: str, theirs: str, added: bool) -> None:
    def annotate(start: str, text: str) -> str:
        name = re.search(r'id="(\w)"', start)
        end = f'<em startRef="{name and name[1]}"/>' if start[:3] == "<sm" else "</mrk>" * bool(start)
        return f"{start}{text}{end}"

    inline = Inline.of_segment(f"Das {annotate(ours, 'Haus')} ist", f"The house {annotate(theirs, 'is')}", "xml")
    expected = f"The {annotate(ours, 'house') if added else 'house'} {annotate(theirs, 'is')}"
    assert inline.place({(0, 0), (1, 1), (2, 2)}).text == expected
    assert len(inline.missing) == 2 * added


HOUSE = "The house is old.", "0-0 1-1 2-2 3-3"


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        # a part of a word, which the target may write otherwise
        ("<b>Stable</b>-Suite nutzen", "use the stable suite", "0-2 0-3 1-0", "use the <b>stable</b> suite"),
        ("als /usr/x-<b>Fassung</b>.tar da", "as /usr/x-version.tar", "0-0 1-1", "as /usr/x-<b>version</b>.tar"),
        ("mit <b>Strg</b>+F2, dann", "with Ctrl+F2, then", "0-0 1-1 2-2", "with <b>Ctrl</b>+F2, then"),
        ("ein <b>Wort</b>s da", "a word's end", "0-0 1-1 2-2", "a <b>word's</b> end"),
        ("the <b>help</b> screen", "die Hilfe-Ansicht", "0-0 1-1 2-1", "die <b>Hilfe</b>-Ansicht"),
        ("the support <b>screen</b>", "die Hilfe-Ansicht", "0-0 1-1 2-1", "die Hilfe-<b>Ansicht</b>"),
        ("die Hilfe-<b>Ansicht</b>", "the support screen", "0-0 1-1 1-2", "the support <b>screen</b>"),
        ("die <b>Hilfe</b>-Ansicht", "the support screen", "0-0 1-1 1-2", "the <b>support</b> screen"),
        ("the <b>website</b> is", "веб-сайт это", "0-0 1-0 2-1", "<b>веб-сайт</b> это"),
        ("<b>Help</b> screen", "(-x", "0-0 1-0", "(<b>-x</b>"),
        # invisible characters go with the punctuation next to them
        ("das <b>Haus\u200b</b> ist", "the house\u200b is", "0-0 1-1 2-2", "the <b>house\u200b</b> is"),
        ("das \u200b(<b>Haus</b>) ist", "the \u2060(house) is", "0-0 1-1 2-2", "the \u2060(<b>house</b>) is"),
        # no character is split
        ("<b>राम</b> x", "रामाने y", "0-0 1-1", "<b>रामाने</b> y"),
        ("<b>Cafe</b> x", "Cafe\u0301 y", "0-0 1-1", "<b>Cafe\u0301</b> y"),
        ("<b>\U0001f1e9</b> x", "\U0001f1e9\U0001f1ea y", "0-0 1-1", "<b>\U0001f1e9\U0001f1ea</b> y"),
        # no tag breaks an entity
        ("Der <b>amp</b> ist", "R &amp; D", "1-0", "<b>R</b> &amp; D"),
        ("<b>foo</b>amp", "xxx&amp;yyy", "0-0", "<b>xxx&amp;yyy</b>"),
        ("Der <b>name</b> da", "The &product-name; command", "0-0 1-1", "The <b>&product-name;</b> command"),
        ("Das <b>Buch</b> da", '<a href="/Buch">book</a> there', "1-1 2-2", '<b><a href="/Buch">book</a></b> there'),
        ("<b>DATA</b> x", "<![CDATA[a DATA & b]]> y", "0-1 1-4", "a <b>DATA</b> &amp; b y"),
        ("DATA x", "<![CDATA[a DATA & b]]> y", "0-1 1-4", "<![CDATA[a DATA & b]]> y"),
        ("foo<b>;bar</b>", "foo&amp;bar", "0-0", "foo<b>&amp;bar</b>"),
        ("the <b>help screen</b>", "die Hilfe-Ansicht", "0-0 1-1 2-1", "die <b>Hilfe-Ansicht</b>"),
        # a whole word, not a part of one
        ("siehe <a><b>man</b>(1)</a>.", "(see man(1)).", "0-0 1-1", "(see <a><b>man</b>(1)</a>)."),
        ("<a>„<b>root</b>“</a> hier", "“root”. Here", "0-0 1-1", "<a>“<b>root</b>”</a>. Here"),
        ("<b>the house (old)</b> is", "das (alte) Haus ist", "0-0 1-2 2-1 3-3", "<b>das (alte) Haus</b> ist"),
        ("é <a>\xa0 </a>ja", "nbsp %% das", "0-0 1-1", "nbsp <a>%%</a> das"),
        # a point before a capital ends a sentence, that of an abbreviation does not
        ("das <b>Formular</b> nutzen. Da", "use the form. There", "0-1 1-2 2-0 3-3", "use the <b>form</b>. There"),
        ("das <b>Blatt</b> nutzen", "use the enc. Sheet", "0-1 1-2 2-0", "use the <b>enc.</b> Sheet"),
        ("die <b>Datei x.y</b> lesen", "read (file x.y).", "1-1 2-2 3-0", "read (<b>file x.y</b>)."),
    ],
)  # fmt: skip
def test_real_manuals(source: str, target: str, links: str, expected: str) -> None:
    assert transfer_markup(source, target, parse_pharaoh(links)).text == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("Das <b>Haus</b> ist alt.", *HOUSE, "The <b>house</b> is old."),
        ("<p>Das <b><i>Haus</i> ist</b> alt.</p>", *HOUSE, "<p>The <b><i>house</i> is</b> old.</p>"),
        ("<b>Heute</b> gehe ich", "I go today", "0-2 1-1 2-0", "I go <b>today</b>"),
        ("a <b>b c</b>", "x c y b z", "0-0 1-3 2-1", "x <b>c y b</b> z"),
        # punctuation of words is in a tag where it was
        ("Das <b>Haus</b>, ist alt.", "The house, is old.", "0-0 1-1 2-2 3-3", "The <b>house</b>, is old."),
        ("Das <b>Haus,</b> ist alt.", "The house, is old.", "0-0 1-1 2-2 3-3", "The <b>house,</b> is old."),
        ("Das Haus ist <b>alt</b>.", *HOUSE, "The house is <b>old</b>."),
        ("Das <b>Haus!\u200f</b>", "The house!", "0-0 1-1", "The <b>house!</b>"),
        ("Das <b>Haus</b>\u00ad.", "The house.", "0-0 1-1", "The <b>house</b>."),
        (
            "<b>alt</b> ist das Haus",
            "the house, which is (old).",
            "2-0 3-1 1-3 0-4",
            "the house, which is (<b>old</b>).",
        ),
        ("<b>Herr</b> Maier kommt", "Mr. Maier comes", "0-0 1-1 2-2", "<b>Mr.</b> Maier comes"),
        ("(<b>USA</b>)", "(U.S.)", "0-0", "(<b>U.S.</b>)"),
        ("<b>R&amp;D</b> ist", "R&amp;D; is", "0-0 1-1", "<b>R&amp;D</b>; is"),
        ("alt <b>#1#</b>: ist", "old #1#: is", "0-0 1-1 2-2", "old <b>#1#</b>: is"),
        ("<b>Das Haus ist alt</b>", *HOUSE, "<b>The house is old.</b>"),
        ("<b><i>Ja,</i> Haus</b> x", "house yes, x", "0-1 1-0 2-2", "<b>house <i>yes</i></b>, x"),
        # points
        ("Das Haus <x id='1'/> ist alt.", *HOUSE, "The house <x id='1'/> is old."),
        ("Das Haus<fn/>, ist alt.", "The house, is old.", "0-0 1-1 2-2 3-3", "The house<fn/>, is old."),
        ("Das Haus,<fn/> ist alt.", "The house, is old.", "0-0 1-1 2-2 3-3", "The house,<fn/> is old."),
        ("Das <x/>Haus ist", "The house is", "0-0 1-1 2-2", "The <x/>house is"),
        ("Das <x/>\u00adHaus ist", "The house is", "0-0 1-1 2-2", "The <x/>house is"),
        ("Das (<x/>Haus) ist", "The (house) is", "0-0 1-1 2-2", "The (<x/>house) is"),
        ("<a/>Das Haus ist alt. <b/><c/>", *HOUSE, "<a/>The house is old. <b/><c/>"),
        ("Ja, <x/> das Haus", "yes, well the house", "0-0 1-2 2-3", "yes, <x/> well the house"),
        ("a <b><i></i></b> b", "x y", "0-0 1-1", "x <b><i></i></b> y"),
        ("<a><img/>Haus</a> alt", "old house", "0-1 1-0", "old <a><img/>house</a>"),
        # sentences
        ("<li>Ja.</li><li>Das Haus.</li>", "Yes. The house.", "0-0 1-1 2-2", "<li>Yes.</li> <li>The house.</li>"),
        ("<li>eins</li><li>zwei drei</li>", "one two three", "0-0 1-1 2-2", "<li>one</li> <li>two three</li>"),
        ("Ja ja. <hr/> Das Haus", "Yes. The house", "0-0 1-0 2-1 3-2", "Yes. <hr/> The house"),
        ("Das <hr/> Haus ist", "The house is", "0-0 1-1 2-2", "The <hr/> house is"),
        # elements of XML that are no blocks within a sentence
        ("<option>-q</option> hilft ihm", "he needs -q", "0-2 1-1 2-0", "he needs <option>-q</option>"),
        ("im <link to='#b'>Buch</link> da", "there in it", "0-1 1-2 2-0", "there in <link to='#b'>it</link>"),
        # no words on one side
        ("<b>a</b><x/>", "", "", "<b></b><x/>"),
        ("", "a  b", "", "a  b"),
        ("<b></b>", "a  b", "", "<b></b> a  b"),
    ],
)
def test_tags_come_where_a_translator_would_put_them(source: str, target: str, links: str, expected: str) -> None:
    text, report = transfer_markup(source, target, parse_pharaoh(links))
    assert text == expected
    assert all(0 <= placement.confidence <= 1 for placement in report)


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        # each block gets what is linked with it
        (
            "<dl><dt>Größe</dt><dd>klein</dd><dt>Preis</dt><dd>drei Euro</dd></dl>",
            "Size small Price three euros",
            "0-0 1-1 2-2 3-3 4-4",
            "<dl><dt>Size</dt> <dd>small</dd> <dt>Price</dt> <dd>three euros</dd></dl>",
        ),
        (
            "<table><tr><th>Tag</th><th>Ort</th></tr><tr><td>Montag</td><td>Halle <b>zwei</b></td></tr></table>",
            "Day Place Monday hall two",
            "0-0 1-1 2-2 3-3 4-4",
            "<table><tr><th>Day</th> <th>Place</th></tr> <tr><td>Monday</td> <td>hall <b>two</b></td></tr></table>",
        ),
        (
            "<ul><li>Obst<ul><li>rote Äpfel</li><li>Birnen</li></ul></li><li>Brot</li></ul>",
            "Fruit red apples pears bread",
            "0-0 1-1 2-2 3-3 4-4",
            "<ul><li>Fruit <ul><li>red apples</li> <li>pears</li></ul></li> <li>bread</li></ul>",
        ),
        ("<b><p>Ja</p><p>doch nicht</p></b>", "yes maybe not", "0-0 1-1 2-2", "<b><p>yes</p> <p>maybe not</p></b>"),
        # and text between blocks, what is linked with that
        ("<div>Vorn<p>Mitte</p>fern</div>", "near centre far", "0-0 1-1 2-2", "<div>near <p>centre</p> far</div>"),
        ("<i>Vorn</i> da<hr/>hinten", "at the front back", "0-2 1-0 1-1 2-3", "at the <i>front</i><hr/> back"),
        # blocks without words stay between the same blocks
        (
            "<tr><td>eins</td><td></td><td><img/></td><td>zwei</td></tr>",
            "one two",
            "0-0 1-1",
            "<tr><td>one</td><td></td><td><img/></td> <td>two</td></tr>",
        ),
        (
            "<tr><td>eins</td><td>&nbsp;</td><td>zwei</td></tr>",
            "one two",
            "0-0",
            "<tr><td>one</td> <td></td><td>two</td></tr>",
        ),
        ("<p>a <img/></p><p>a b</p>", "x y z", "0-0 1-1 2-2", "<p>x <img/></p> <p>y z</p>"),
        # without links: words that are the same, ends of sentences, proportions
        ("<td>7,5</td><td>Porto</td><td>12</td>", "7.5 in Porto 12", "", "<td>7.5</td> <td>in Porto</td> <td>12</td>"),
        ("<p>Ja. Gut.</p><p>Nun denn.</p>", "Yes. Fine. Let us go.", "", "<p>Yes. Fine.</p> <p>Let us go.</p>"),
        ("<td>ja</td><td>Wetterbericht</td>", "yes weather report", "", "<td>yes</td> <td>weather report</td>"),
        # a sentence that the links leave open ends its block, and a mark belongs to the block on its left
        ("<p>Er ruht.</p><p>Sie nie.</p>", "He is tired. Not she.", "0-0 2-4", "<p>He is tired.</p> <p>Not she.</p>"),
        ("<p>Er</p><p>sie</p>", "he , she", "0-0 1-2", "<p>he ,</p> <p>she</p>"),
        ("<p>a <b>Tier</b></p><p>(c)</p>", "an animal. (See)", "0-0 1-1 2-2", "<p>an <b>animal</b>.</p> <p>(See)</p>"),
        # words in another order stay in their block, blocks never change theirs
        ("<p>Nun ruht er</p><p>oft</p>", "he rests now often", "0-2 1-1 2-0 3-3", "<p>he rests now</p> <p>often</p>"),
        ("<li>eins</li><li>zwei</li>", "two one", "0-1 1-0", "<li>two one</li><li></li>"),
        # too few words
        ("<li>eins</li><li>zwei</li><li>drei</li>", "three", "2-0", "<li></li><li></li><li>three</li>"),
        # tags that the target has
        (
            "<li>eins</li><li>zwei</li><li>drei</li>",
            "one <li>two</li> three",
            "0-0 1-1 2-2",
            "<li>one</li> <li>two</li> <li>three</li>",
        ),
        ("<hr/><p>eins</p><p></p><p>zwei</p>", "<p>one</p> two", "0-0 1-1", "<hr/><p>one</p><p></p> <p>two</p>"),
        (
            "<select><option>rot</option><option>blau</option></select>",
            "red blue",
            "",
            "<select><option>red</option> <option>blue</option></select>",
        ),
    ],
)  # fmt: skip
def test_blocks_divide_the_target(source: str, target: str, links: str, expected: str) -> None:
    for tags in ("xml", "html"):
        for split in (False, True):
            assert transfer_markup(source, target, parse_pharaoh(links), tags=tags, split=split).text == expected


BLOCKS = st.recursive(
    st.lists(st.sampled_from(["Ja.", "7,5", "rot", "(EU)", "<i>b</i>", "<i>Ja. rot</i>"]), max_size=3).map(" ".join),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(["p", "td", "b"]), inner).map("<{0[0]}><div>{0[1]}</div></{0[0]}>".format)
        | st.sampled_from(["<hr/>", "<p></p>", "loose "]),
        min_size=1,
        max_size=4,
    ).map("".join),
    max_leaves=8,
)


def loose_words(text: str) -> list[str]:
    """Return the words between blocks."""
    words, has_blocks = [[]], [False]
    for token in parse_html(text):
        is_block = token.name not in ("", "i")
        has_blocks[-1] |= is_block
        if token.kind == "text":
            words[-1] += token.text.split()
        elif token.kind == "open" and is_block:
            words.append([])
            has_blocks.append(False)
        elif token.kind == "close" and is_block:
            inside = words.pop()
            words[0] += inside if has_blocks.pop() else []
    return words[0]


@given(BLOCKS, st.lists(st.sampled_from(["Yes.", "7.5", "red", "(EU)", ","]), max_size=8), st.data(), st.booleans())
def test_blocks_keep_their_order_and_each_word_is_in_one(
    source: str, target: list[str], data: st.DataObject, split: bool
) -> None:
    number = iter(range(100))
    source = re.sub(r"(?<=<)\w+", lambda name: f'{name[0]} n="{next(number)}"', source)
    count = len(words_in(markup_of(parse_html(source), Syntax.of("html")).plain))
    links = data.draw(st.sets(st.tuples(st.integers(0, max(0, count - 1)), st.integers(0, max(0, len(target) - 1)))))
    links = links if count and target else set()
    text = transfer_markup(source, " ".join(target), links, tags="html", split=split).text
    tags = [[tag for tag in re.findall("<[^>]*>", side) if tag[1:3] not in ("i ", "/i")] for side in (source, text)]
    assert tags[0] == tags[1]
    assert re.sub("<[^>]*>| ", "", text) == "".join(target)
    if count and not loose_words(source):
        assert not loose_words(text)


@given(BLOCKS, st.data())
def test_blocks_come_back_into_their_own_text(source: str, data: st.DataObject) -> None:
    number = iter(range(100))
    source = re.sub(r"(?<=<)\w+", lambda name: f'{name[0]} n="{next(number)}"', source)
    tokens = parse_html(source)
    pairs = halves(tokens)
    units = [{n, pairs.get(n, n)} for n, token in enumerate(tokens) if token.kind in ("open", "point")]
    kept = {n for unit in data.draw(st.lists(st.sampled_from(units))) for n in unit} if units else set()
    target = ""
    for n, token in enumerate(tokens):
        target += token.text if token.kind == "text" or n in kept else ""
        target += " " if token.kind != "text" and token.name != "i" else ""
    count = len(words_in(markup_of(tokens, Syntax.of("html")).plain))
    placed = Inline.of_line(source, target, "html").place({(n, n) for n in range(count)})
    if placed.text.replace(" ", "") != source.replace(" ", ""):
        assert kept
        assert placed.confidence < DOUBTFUL


def test_the_report_says_what_had_no_link_and_where_it_was_put() -> None:
    found = transfer_markup("Das <b>Haus</b> i<i>st</i> <x/> alt.", "The house is old.", {(0, 0): 0.5, (3, 3): 1.0})
    assert found.text == "The <b></b>house <i></i>is <x/> old."
    assert found.report == (
        Placement("<b></b>", (1, 2), ((1, 1),), 0.0, ("no link",)),
        Placement("<i></i>", (2, 3), ((2, 2),), 0.0, ("inside a word", "no link")),
        Placement("<x/>", (3, 3), ((3, 3),), 0.0),
    )


def test_soft_scores_outweigh_a_stray_link() -> None:
    scores = {(0, 0): 0.9, (1, 1): 0.9, (2, 2): 0.8, (1, 4): 0.1, (3, 3): 0.9, (3, 4): 0.7}
    assert transfer_markup("a <b>b c</b> d", "x b c d e", scores).text == "x <b>b c</b> d e"


def test_a_target_that_is_not_well_formed_is_reported() -> None:
    for target, remarks in (("R & D <x", ("in a target that is not well-formed",)), ("R &amp; D", ())):
        (placement,) = transfer_markup("das <b>Haus</b>", target, {(1, 2)}).report
        assert placement.remarks == remarks
    assert not transfer_markup("das <b>Haus</b>", "R & D <x", {(1, 2)}, tags="html").report[0].remarks


@pytest.mark.parametrize("tags", ["xml", "html"])
@pytest.mark.parametrize(
    ("source", "target", "links", "expected", "moved"),
    [
        ("<b>Das Haus</b> ist", "The <i>house is</i>", "0-0 1-1 2-2", "<b>The <i>house is</i></b>", True),
        ("a <b>p q</b> d", "a <i>x b</i> c d", "0-0 1-2 2-3 3-4", "a <b><i>x b</i> c</b> d", True),
        ("a <b>p q</b> d", 'a <u k="">x yb</u> c d', "0-0 1-3 2-4 3-5", 'a <b><u k="">x yb</u> c</b> d', True),
        ("a <b>p q</b> d", "a <i>long b</i> c d", "0-0 1-2 2-3 3-4", "a <i>long b</i> <b>c</b> d", True),
        (
            'a <a k="">p q</a>',
            'a <u l="">the b c</u> d',
            "0-0 1-2 2-3",
            'a <u l=""><a k="">the b</a> c</u> d',
            False,
        ),
        ("a <b>b c d</b>", "a <i>b</i> c d", "0-0 1-1 2-2 3-3", "a <b><i>b</i> c d</b>", False),
        ("a <b>b</b> c", "a <i>x b</i> c", "0-0 1-2 2-3", "a <i>x <b>b</b></i> c", False),
    ],
)
def test_elements_of_the_target_are_not_crossed(
    source: str, target: str, links: str, expected: str, moved: bool, tags: str
) -> None:
    placed = transfer_markup(source, target, parse_pharaoh(links), tags=tags)
    assert placed.text == expected
    assert (MOVED in placed.report[0].remarks, placed.confidence <= PART) == (moved, moved)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("eins <b>zwei</b><br/>drei", "one two<br/>three", "one <b>two</b><br/>three"),
        ("<p>eins</p><p><b>zwei</b> drei</p>", "<p>one</p><p>two three</p>", "<p>one</p><p><b>two</b> three</p>"),
        ("<p>eins</p><p>zwei</p><p>drei</p>", "one<p>two</p>three", "<p>one</p><p>two</p><p>three</p>"),
    ],
)
def test_breaks_of_the_target_end_words(source: str, target: str, expected: str) -> None:
    inline = Inline.of_line(source, target, "xml")
    assert inline.target_words == ("one", "two", "three")
    assert inline.place({(0, 0), (1, 1), (2, 2)}).text == expected
    inline.use_words(("eins", "zwei", "drei"), ("one", "tw", "o", "three"))
    assert inline.place({(0, 0), (1, 1), (1, 2), (2, 3)}).text == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("<hr/><b><i></i></b> ja da", " <i></i> yes, here", " <hr/> <b><i></i></b> yes, here"),
        ("ja <x/> <b><i></i></b> doch", "yes  <i></i>  but", "yes <x/> <b><i></i></b>  but"),
        ("<u>» <b/></u> ja", "» <b/> yes", "<u>» <b/></u> yes"),
    ],
)
def test_tags_keep_their_order_across_spaces_of_the_target(source: str, target: str, expected: str) -> None:
    placed = Inline.of_line(source, target, "xml").place({(0, 0), (1, 1)})
    assert placed == (expected, placed.report)
    assert not any(row.remarks for row in placed.report)


@pytest.mark.parametrize(
    "target", ['The <b class="x">house is old.', "The big house</b> is old.", "The house</b> is old.", "a <b>b</i> c d"]
)
def test_tags_of_the_target_without_a_partner_get_none(target: str) -> None:
    links = {(0, 0), (1, 1), (2, 2), (3, 3)}
    placed = transfer_markup("Das <b>Haus ist</b> alt.", target, links, tags="html")
    tokens = parse_html(placed.text)
    own = [n for n, token in enumerate(tokens) if token.kind in ("open", "close") and token.text in target]
    pairs = halves(tokens)
    if all(CROSSING not in placement.remarks for placement in placed.report):
        assert not {*pairs, *pairs.values()} & {n for n in own if tokens[n].text not in ("<b>", "</b>")}
        assert len(pairs) == 1
    else:
        assert placed.confidence == 0


ELEMENTS = st.recursive(
    st.lists(st.sampled_from(["b", "c", "d,", "e."]), min_size=1, max_size=3).map(" ".join),
    lambda inner: st.tuples(st.lists(inner, min_size=1, max_size=3).map(" ".join), st.sampled_from("uvw")).map(
        lambda content: f"<{content[1]}>{content[0]}</{content[1]}>"
    ),
    max_leaves=5,
)
LINES = st.lists(ELEMENTS, min_size=1, max_size=4).map(" ".join)


def contents(text: str) -> dict[str, str]:
    """Return the text of each element with an attribute, by its opening tag."""
    tokens = parse_html(text)
    return {
        tokens[n].text: "".join(token.text for token in tokens[n:end] if token.kind == "text")
        for n, end in halves(tokens).items()
        if " " in tokens[n].text
    }


@given(LINES, LINES, st.data(), st.sampled_from(["xml", "html"]))
def test_elements_of_the_target_keep_their_content(source: str, target: str, data: st.DataObject, tags: str) -> None:
    numbers = iter(range(100))
    target = re.sub("<([uvw])>", lambda match: f'<{match[1]} n="{next(numbers)}">', target)
    sizes = [len(words_in(text)) for text in (markup_of(Syntax.of(tags).parse(source), Syntax.of(tags)).plain, target)]
    links = data.draw(st.sets(st.tuples(*(st.integers(0, size - 1) for size in sizes))))
    placed = transfer_markup(source, target, links, tags=tags)
    assert re.sub(r"</?\w( n=\"\d+\")?>| ", "", placed.text) == re.sub(r"</?\w( n=\"\d+\")?>| ", "", target)
    if all(CROSSING not in placement.remarks for placement in placed.report):
        assert contents(placed.text) == contents(target)


def test_a_target_may_be_one_of_several_equal_tags() -> None:
    placed = transfer_markup("%s und %s", "%s", {(0, 0)}, tags="placeholders")
    assert (placed.text, placed.confidence) == ("%s %s", 0.0)


def test_a_tag_may_be_split() -> None:
    links = parse_pharaoh("0-0 1-1 1-3 2-2")
    assert transfer_markup("er <b>gibt <i>nicht</i></b>", "he gives not up", links, split=True).text == (
        "he <b>gives <i>not</i> up</b>"
    )
    assert transfer_markup("er <b>steht</b> nicht", "he gets not up", links, split=True).text == (
        "he <b>gets</b> not <b>up</b>"
    )


def test_parts_of_a_word_stay_if_tags_are_split() -> None:
    text = "<i>(</i><b>ein Hut</b><sup>1</sup><i>)</i>"
    placed = transfer_markup(text, "(a hat1)", {(0, 0), (1, 1)}, split=True)
    assert placed.text == "<i>(</i><b>a hat</b><sup>1</sup><i>)</i>"


def test_halves_without_the_other_are_points() -> None:
    found = transfer_markup("a <b>b</i> c", "x y z", parse_pharaoh("0-0 1-1 2-2"), tags="html")
    assert found.text == "x <b>y</i> z"
    assert [placement.remarks for placement in found.report] == [("without its other half",)] * 2


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        # content that stands in the target as it is, also within a word
        ("das <i>setgid</i>-Bit", "the setgid bit", "0-0 1-1 1-2", "the <i>setgid</i> bit"),
        ("von <i>dpkg</i> lesen", "read dpkg's file", "0-0 1-0 1-1 2-2", "read <i>dpkg</i>'s file"),
        ("E = mc<sup>2</sup>", "E = mc2", "0-0 1-1 2-2", "E = mc<sup>2</sup>"),
        ("ein <sup>2</sup> da", "an mc2 there", "0-0 1-1 2-2", "an <sup>mc2</sup> there"),
        ("FOO<sup>®</sup> ist", "is FOO®", "0-1 1-0", "is FOO<sup>®</sup>"),
        ("<i>a</i> und <b>a</b>", "a and a", "0-2 1-1 2-0", "<b>a</b> and <i>a</i>"),
        # punctuation at the edges
        ("siehe <a>Abschnitt „LVM“</a>.", "see section “LVM”.", "0-0 1-1 2-2", "see <a>section “LVM”</a>."),
        ("<a>Wer?</a> Er.", "Who! He.", "0-0 1-1", "<a>Who!</a> He."),
        ("da (<a>das Haus)</a>", "there (the house).", "0-0 1-1 2-2", "there (<a>the house)</a>."),
        # in a glued word, what is outside the tag tells where it ends
        (
            "ein [<u>alter Hut</u>](https://a.b/c_d) da",
            "an [old hat](https://a.b/c_d) there",
            "0-0 1-1 2-2 3-3",
            "an [<u>old hat</u>](https://a.b/c_d) there",
        ),
        ("der <em>Wagen</em>(neu), da", "the car(new), there", "0-0 1-1 2-2", "the <em>car</em>(new), there"),
        ("Linie 7<i>, bitte warten!</i>", "Line 7, please wait!", "0-0 1-1 2-2 3-3", "Line 7<i>, please wait!</i>"),
        (
            "<i>Bitte nicht (</i>Lärm) da",
            "Please no (noise) there",
            "0-0 1-1 2-2 3-3",
            "<i>Please no (</i>noise) there",
        ),
        ("Linie 7-<u>Zug. Halt.</u>", "Line 7-train. Stop.", "0-0 1-1 2-2", "Line 7-<u>train. Stop.</u>"),
        ("der Zug/<b>Wagen</b> da", "the train/car there", "0-0 1-1 2-2", "the train/<b>car</b> there"),
        ("in Ost/<b>Rom</b>.", "in East/Rome.", "0-0 1-1", "in East/<b>Rome</b>."),
        ('Siehe <a href="x">Seite&nbsp;9</a>.', "See page&nbsp;9.", "0-0 1-1", 'See <a href="x">page&nbsp;9</a>.'),
        ("Ein <b>Hut</b>&quot; da", "A &quot;hat&quot; there", "0-0 1-1 2-2", "A &quot;<b>hat</b>&quot; there"),
        # parts of one word
        ("ein <b>Hut</b><i>.</i>", "a hat.", "0-0 1-1", "a <b>hat</b><i>.</i>"),
        ("<b>Ja</b><i>:</i> da", "Yes: there", "0-0 1-1", "<b>Yes</b><i>:</i> there"),
        ("ein <b>alter Hut</b><i>.</i>", "an old hat.", "0-0 1-1 2-2", "an <b>old hat</b><i>.</i>"),
        ("<i>(</i><b>ein Hut</b><i>)</i>, da", "(a hat), there", "0-0 1-1 2-2", "<i>(</i><b>a hat</b><i>)</i>, there"),
        ("ein <b>Hut</b><sup>1</sup>, da", "a hat1, there", "0-0 1-1 2-2", "a <b>hat</b><sup>1</sup>, there"),
        ("<b>Hut</b><i>+</i><u>Tor</u> da", "hat+gate there", "0-0 1-1", "<b>hat</b><i>+</i><u>gate</u> there"),
        ("<i>„</i><b>Hut</b> da", "“hat there", "0-0 1-1", "<i></i>“<b>hat</b> there"),
        ("ein <b>Hut</b><sup>1</sup>", "a hat 1", "0-0 1-1", "a <b>hat</b> <sup>1</sup>"),
        # entities without a semicolon
        ("<b>copy</b> x", "&copy 2020", "0-0 1-1", "<b>&copy</b> 2020"),
        ("<b>lt</b> x", "&lt 1", "0-0 1-1", "<b>&lt</b> 1"),
        ("<b>notit</b> x", "&notit; 2", "0-0 1-1", "<b>&notit;</b> 2"),
        # blocks without an end
        ("<ul><li>eins<li>zwei drei</ul>", "one two three", "0-0 1-1 2-2", "<ul><li>one<li> two three</ul>"),
        # what the target has is not doubled
        ("Die <b>A</b> <i>fehlt</i>", "The <b>A</b> is missing", "2-3", "The <b>A</b> is <i>missing</i>"),
    ],
)
def test_content_and_edges(source: str, target: str, links: str, expected: str) -> None:
    assert transfer_markup(source, target, parse_pharaoh(links), tags="html").text == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ('table "%s" is', "Tabelle »« ist", "0-0 2-2", "Tabelle »%s« ist"),
        ("printer '%s'.", "Drucker »«.", "0-0", "Drucker »%s«."),
        ("from '%s' to '%d'", "»« wird „“", "0-0 2-1", "»%s« wird „%d“"),
        ("icon (%s)", "Symbol ()", "0-0", "Symbol (%s)"),
        ("files in %s", "Dateien in sind da", "0-0 1-1", "Dateien in %s sind da"),
        ("job %d was sent", "als Auftrag gesendet", "0-1 2-2", "als Auftrag %d gesendet"),
        ("number %u is", "die . Angabe ist", "1-3", "die %u. Angabe ist"),
        ("no %s here", "nichts", "0-0", "nichts %s"),
        # what the target has already stays, and is a word of both sides
        ("File %s not found", "Datei %s fehlt", "0-0 2-2", "Datei %s fehlt"),
        ("%s and %s", "%s und", "0-1", "%s und %s"),
        ("100 %% of %s", "von %s 100 %%", "0-2 2-0", "von %s 100 %%"),
        # they are glued to no word
        ("Willkommen bei {name}.", "Welcome to.", "0-0 1-1", "Welcome to {name}."),
        ('Datei "{name}" fehlt.', 'File "" is missing.', "0-0 1-1 2-3", 'File "{name}" is missing.'),
        ("Hallo {name}, du", "Hello, you", "0-0 2-1", "Hello {name}, you"),
        ("Das Haus ist alt, %s.", "The house is old.", "0-0 1-1 2-2 3-3", "The house is old %s."),
        # and become no part of another
        ("Es sind 100% {x} da", "There are 100%(x there", "0-0", "There are 100%(x {x} there"),
        ("a%s", "b%", "0-0", "b% %s"),
        ("a {0}", "{ b", "0-0", "{ {0} b"),
        ("a :name", "b:", "0-0", "b: :name"),
    ],
)
def test_placeholders(source: str, target: str, links: str, expected: str) -> None:
    for tags in ("placeholders", "html,placeholders"):
        assert transfer_markup(source, target, parse_pharaoh(links), tags=tags).text == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        # punctuation next to a placeholder stays next to it
        ("Gern, {who}; bis {when}!", "Sure; until!", "0-0 2-1", "Sure {who}; until {when}!"),
        ("Bravo, %s! Weiter so.", "Well done! Go on.", "0-0 0-1 2-2 3-3", "Well done %s! Go on."),
        ("Antwort %d: nein", "Answer: no", "0-0 2-1", "Answer %d: no"),
        ("Ort: %s", "Der richtige Ort ist:", "0-2", "Der richtige Ort ist: %s"),
        ("Host %s|%s|:%d...", "Server ||: …", "0-0", "Server %s|%s|:%d …"),
        ("at '%s:%d' there", "bei `:' da", "0-0 2-2", "bei `%s:%d' da"),
        ("by %s, %s, %s, and %s.", "von , , , und .", "0-0 4-4", "von %s, %s, %s, und %s."),
        # a hyphen that lost its word takes it
        ("in %s mode now", "im -Modus nun", "0-0 1-1 2-2", "im %s-Modus nun"),
        ("Nutze %s -x nun", "Use -x now", "0-0 1-1 2-2", "Use %s -x now"),
        # empty quotes and brackets, those of the source aside
        ("Can't copy %s to %s now", "»« nach »« kopieren geht nicht", "1-3 2-1", "»%s« nach »%s« kopieren geht nicht"),
        ("Moved %s to %s and %d", "« » nach « » und", "1-2 2-5", "« %s » nach « %s » und %d"),
        ("path %s is (%d) long", 'Pfad "" ist () lang', "0-0 1-2 3-4", 'Pfad "%s" ist (%d) lang'),
        ("f() and [] give %s", "f() und [] geben ""''", "0-0 1-1 2-2 3-3", "f() und [] geben '%s'"),
        ("f() gives %s back", "f() gibt zurück", "0-0 1-1 2-2", "f() gibt %s zurück"),
        ('"a" "b" of %s', '"a" "b" von', "0-0 1-1 2-2", '"a" "b" von %s'),
        ("%s and %d there", "»%s« und da", "0-1 1-2", "»%s« und %d da"),
        # the target's own preposition
        ("error reading %s", "Fehler beim Lesen von", "0-0 1-1 1-2 1-3", "Fehler beim Lesen von %s"),
    ],
)  # fmt: skip
def test_holes_of_the_target(source: str, target: str, links: str, expected: str) -> None:
    placed = transfer_markup(source, target, parse_pharaoh(links), tags="placeholders")
    assert placed.text == expected


@pytest.mark.parametrize("pair", ["&quot;&quot;", "&laquo;&raquo;", "&bdquo;&#8220;", "&#x201E;&ldquo;", "&#39;&apos;"])
def test_empty_quotes_as_entities(pair: str) -> None:
    placed = transfer_markup("Job %d is", f"Auftrag {pair} ist", {(0, 0), (1, 2)}, tags="html,placeholders")
    first, last = pair.split(";")[:2]
    assert placed.text == f"Auftrag {first};%d{last}; ist"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Anfang\n%s\nEnde", "Begin\n\nEnd", "Begin\n%s\nEnd"),
        ("Datei: %s\nGröße: %d\n%s", "File:\nSize:\n", "File: %s\nSize: %d\n%s"),
        ("Liste:\n- %s\n- b", "List:\n- \n- b", "List:\n- %s\n- b"),
        ("Ja\n%s Ende", "Yes\nEnd", "Yes\n%s End"),
        ("Ja %s\nEnde", "Yes\nEnd", "Yes %s\nEnd"),
        ("%s\n(%d) a", "\n() b", "%s\n(%d) b"),
    ],
)
def test_line_ends_tell_places(source: str, target: str, expected: str) -> None:
    inline = Inline.of_segment(source, target, "placeholders")
    words = zip(range(len(inline.source_words)), range(len(inline.target_words)), strict=False)
    assert inline.place({*words}).text == expected


@pytest.mark.parametrize("code", ['<ph id="y"/>', '<x id="2"/>'])
def test_codes_get_the_spaces_of_placeholders(code: str) -> None:
    assert transfer_markup(f"Hier ist {code}.", "Here is.", {(0, 0), (1, 1)}).text == f"Here is {code}."


@given(
    st.sampled_from(["", "(", "[", "Haupt-", "x/", "(alt)", "„", "3&nbsp;"]),
    st.sampled_from(
        ["", ")", "]", "-Teil", "/y", "(alt)", "“", "](https://a.b/c-d_e)", "&nbsp;3", ",", "(z).", "&quot;"]
    ),
    st.sampled_from(["<b>Haus</b>", "<i>rotes Haus</i>", '<a href="x">Haus hier drin</a>']),
)
def test_borders_within_words_are_those_of_the_source(before: str, after: str, element: str) -> None:
    translated = {"Haus": "house", "rotes": "red", "hier": "here", "drin": "inside", "alt": "old", "Haupt": "main"}

    def translate(text: str) -> str:
        return re.sub(r"\w+", lambda word: translated.get(word[0], word[0]), text)

    source = f"Das {before}{element}{after} da"
    expected = f"The {translate(before)}{translate(element)}{translate(after)} there"
    target = re.sub("<[^>]*>", "", expected)
    links = {(n, n): 1.0 for n in range(len(target.split()))}
    assert transfer_markup(source, target, links, tags="html").text == expected


@given(
    st.lists(st.sampled_from(["%s", "%d", "{name}", "{0}", "%(n)s"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["»« ", "«» ", '"" ', "() ", "„“ ", "« » "]), min_size=3, max_size=3),
)
def test_as_many_empty_pairs_as_placeholders(names: list[str], pairs: list[str]) -> None:
    words = ["ab", "cd", "ef", "gh"]
    source = " ".join(f"{word} {name}" for word, name in zip(words, names, strict=False))
    holes = [f"{word} {pair}" for word, pair, _ in zip(words, pairs, names, strict=False)]
    target = "".join(holes).strip()
    links = {(n, target.split().index(word)): 1.0 for n, word in enumerate(words[: len(names)])}
    placed = transfer_markup(source, target, links, tags="placeholders")
    filled = re.sub(r"(?<=[»«\"(„]) ?(?=[»«\")“])", "{}", target)
    assert placed.text.replace(" ", "") == filled.replace(" ", "").replace("{}", "\0").replace("\0", "{}").format(
        *names
    )


@pytest.mark.parametrize(
    ("kind", "source", "target", "expected"),
    [
        ("html,placeholders", "Gern <b>{n}</b>, bis", "Sure, until", "Sure <b>{n}</b>, until"),
        ("html,placeholders", "Ort <i>%s</i> ist", "Place &raquo;&laquo; is", "Place &raquo;<i>%s</i>&laquo; is"),
        ("xml", 'Gern <g id="1"><ph id="2"/></g>, bis', "Sure, until", 'Sure <g id="1"><ph id="2"/></g>, until'),
        ("xml", '<g id="1">Gern <ph id="2"/></g>, bis', "Sure, until", '<g id="1">Sure <ph id="2"/></g>, until'),
    ],
)
def test_placeholders_in_tags(kind: str, source: str, target: str, expected: str) -> None:
    links = {(0, 0), (1, 1)} if ";" not in target else {(0, 0), (1, 2)}
    assert transfer_markup(source, target, links, tags=kind).text == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("ein Hut {0}", "<![CDATA[a hat {0}]]>", "<![CDATA[a hat {0}]]>"),
        ("<![CDATA[ein Hut {0}]]>", "a hat", "a hat {0}"),
        ("<![CDATA[ein {0} Hut]]> {1}", "<![CDATA[a hat &]]> {1}", "a {0} hat &amp; {1}"),
        ("<![CDATA[ein Hut {{a&b}}]]>", "a hat", "a hat"),
    ],
)
def test_placeholders_in_cdata(source: str, target: str, expected: str) -> None:
    placed = transfer_markup(source, target, {(0, 0), (1, 1)}, tags="xml,placeholders")
    assert placed.text == expected


def test_tags_and_placeholders_together() -> None:
    links = parse_pharaoh("0-0 1-1 2-2")
    found = transfer_markup("Datei <b>%s</b> &amp; mehr", "File &amp; more", links, tags="html,placeholders")
    assert found.text.replace(" ", "") == "File<b>%s</b>&amp;more"
    assert [placement.tag for placement in found.report] == ["<b>%s</b>"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("%1 Dateien", "%1个文件"),
        ("%name% Ordner", "在%name%文件夹"),
        ("Ordner $HOME", "$HOME文件夹"),
        ("Hallo :name da", "你好:name先生"),
        ("%d Dateien 100%", "%d个文件100%"),
        ("%1 von %2", "%2개 중 %1개"),
    ],
)
def test_placeholders_may_touch_words_of_scripts_without_spaces(source: str, target: str) -> None:
    assert transfer_markup(source, target, {(0, 0)}, tags="placeholders").text == target
    assert repair_target(source, target, "placeholders") == Repaired(target)


def _count_calls(source: str, target: str) -> int:
    """Return the number of calls that the transfer of tags makes."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    links = {(n, n): 1.0 for n in range(min(len(source.split()), len(target.split())))}
    sys.setprofile(trace)
    try:
        transfer_markup(source, target, links, tags="placeholders" if "{" in source else "xml")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("unit", ["w%d <br/> ", "<li>w%d</li> ", "<b>x</b> ", "<b>w</b>v%d ", "«{%d}» a "])
def test_operations_grow_with_tags_times_words(unit: str) -> None:
    def calls(units: int) -> int:
        source = "".join(unit % n if "%" in unit else unit for n in range(units))
        return _count_calls(source, re.sub(r"<[^>]*>|\{\d+\}", "", source))

    assert calls(400) < 5 * calls(200)


def test_operations_grow_with_tags_within_a_word() -> None:
    small, large = (_count_calls("({0}" * units, "x") for units in (250, 500))
    assert large < 3 * small
