"""Targets whose tags and placeholders a translator has lost, doubled or damaged."""

from __future__ import annotations

import re
from collections import Counter
from html import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from align.transfer.inline import MAX_TAGS, Inline
from align.transfer.lines import find_faults
from align.transfer.repair import Repaired, missing_tags, repair_target
from align.transfer.tags import Syntax, parse_placeholders, parse_xml

BOTH = "html,placeholders"


@pytest.mark.parametrize(
    ("source", "target", "tags", "text", "removed", "rewritten"),
    [
        ("<b>a</b> %s", "<b>x</b> %s", BOTH, "<b>x</b> %s", [], []),
        ("<b>a</b> %s", "<b>x</b> %s %s %d", BOTH, "<b>x</b> %s", ["%s", "%d"], []),
        ("<b>a</b>", "<b>x <i>.", BOTH, "x.", ["<b>", "<i>"], []),
        ("<b>a</b>", "< B >x</ b>", BOTH, "<b>x</b>", [], ["< B >", "</ b>"]),
        ("<a href=\"x\">a</a>", "<a href=”x”>b</A>", BOTH, '<a href="x">b</a>', [], ["<a href=”x”>", "</A>"]),
        ("{name} %1$s", "{ Name } ％1$S", "placeholders", "{name} %1$s", [], ["{ Name }", "％1$S"]),
        ("<g id='1'>a</g><x/>", "<g id='1'>b<x/>", "xml", "b<x/>", ["<g id='1'>"], []),
        ("a <br> b", "x < 3", "html", "x < 3", [], []),
        ("{n, plural, other {# a}}", "{n,plural,other {# b}}", "placeholders", "{n,plural,other {# b}}", [], []),
    ],
)  # fmt: skip
def test_only_what_the_source_has_stays(
    source: str, target: str, tags: str, text: str, removed: list[str], rewritten: list[str]
) -> None:
    repaired = repair_target(source, target, tags)
    assert repaired == Repaired(text, tuple(removed), tuple(rewritten))
    assert Inline.of_line(source, text, tags).extra == ()
    assert repair_target(source, text, tags) == Repaired(text)


LINK = 'Zum <x id="START_A"/>Ende<x id="CLOSE_A"/>.'


@pytest.mark.parametrize(
    ("source", "target", "tags", "expected"),
    [
        ("<0>Ende</0> <1/>", "< 0 >End</ 0> <1>", "html", Repaired("<0>End</0> <1/>", (), ("< 0 >", "</ 0>", "<1>"))),
        ("<0>Ende</0>", "End</0>", "html", Repaired("End", ("</0>",))),
        (LINK, 'To <x id="START_A"/>end.', "xml", Repaired('To <x id="START_A"/>end.')),
        (
            LINK,
            'To <x id="start_a"/>end<x id="CLOSE_A">.',
            "xml",
            Repaired('To <x id="START_A"/>end<x id="CLOSE_A"/>.', (), ('<x id="start_a"/>', '<x id="CLOSE_A">')),
        ),
        ('a <x id="7">7</x>', 'b <x id="7"/>', "xml", Repaired('b <x id="7">7</x>', (), ('<x id="7"/>',))),
        ("a %5d", "b % 5d", "placeholders", Repaired("b %5d", (), ("% 5d",))),
        ("a %-*s", "b % - * S", "placeholders", Repaired("b %-*s", (), ("% - * S",))),
        ("$t(a, {'b': 1})", "$T(a, {'b': 1} )", "placeholders", Repaired("$t(a, {'b': 1})", (), ("$T(a, {'b': 1} )",))),
    ],
)
def test_tags_of_translation_systems(source: str, target: str, tags: str, expected: Repaired) -> None:
    assert repair_target(source, target, tags) == expected


@pytest.mark.parametrize("own", ['<mrk id="b" type="term">end</mrk>', "end"])
def test_annotations_are_not_missing_where_the_target_has_its_own(own: str) -> None:
    source = 'Zum <mrk id="a" type="mtc:match"><mrk id="c" type="term">Ende</mrk></mrk>'
    assert repair_target(source, f"To {own}", "xml") == Repaired(f"To {own}")
    assert len(missing_tags(source, f"To {own}", "xml")) == (2 if own == "end" else 0)


@pytest.mark.parametrize(
    ("source", "target", "unsure"),
    [
        ("Das <b>Haus</b> ist alt", "The <b>house</b> is <b>old</b>", ("<b>", "</b>")),
        ("von %s", "The file %s was deleted by %s", ("%s",)),
        ("Das <b>Haus</b>", "The <b><b>house</b></b>", ()),
        ("%s <b>{name}</b>", "<b>%s</b> <b>{name}</b>", ("<b>", "</b>")),
    ],
)
def test_of_equal_tags_elsewhere_another_one_may_be_too_many(source: str, target: str, unsure: tuple[str, ...]) -> None:
    assert repair_target(source, target, BOTH).unsure == unsure


MESSAGE = "{{n, plural, one {{# Datei von {{name}}}} other {{{}}}}}".format


@pytest.mark.parametrize(
    ("source", "target", "tags", "expected"),
    [
        (  # native code is not doubled
            'Das <ph id="1">{0}</ph> Haus.',
            'The <ph id="1">{0}</ph> house.',
            "xml,placeholders",
            Repaired('The <ph id="1">{0}</ph> house.'),
        ),
        ("Das <x id='1'/> Haus.", "The x 1 house.", "xml", Repaired("The x 1 house.")),
        *(
            ("<b>Das</b> <i>Haus</i> ist.", "<b>The <i>house</b> is</i>.", tags, Repaired(text, ("<i>", "</i>")))
            for tags, text in (("xml", "<b>The house</b> is."), ("html", "<b>The house</b> is."))
        ),
        ("<b>Das</b> &amp;", "a & <b>b < c", "xml", Repaired("a &amp; b &lt; c", ("<b>",), ("&", "<"))),
        ("Yüzde 80 %s", "%80 %s", "placeholders", Repaired("%80 %s", extra=("%80",))),
        ("%1 zu 80 %", "%80 %1 %2", "placeholders", Repaired("%80 %1", ("%2",), extra=("%80",))),
        (
            MESSAGE("# Dateien von {name}"),
            MESSAGE("# files"),
            "placeholders",
            Repaired(MESSAGE("# files"), unrepaired=("{name} of other",)),
        ),
    ],
)
def test_careless_translations(source: str, target: str, tags: str, expected: Repaired) -> None:
    assert repair_target(source, target, tags) == expected


@pytest.mark.parametrize(
    ("source", "target", "tags", "unrepaired"),
    [
        ("<b>a</b> c", "<b>a</i c> d", "xml", ("<b>", "</b>")),
        ("Ort", "a <i town", "html", ("a <i town",)),
        ("a <ph id='1'>{0}</ph>", "b <ph id='1'>{0}", "xml", ("<ph id='1'>{0}</ph>",)),
        (MESSAGE("a"), MESSAGE("a")[:-1], "placeholders", (MESSAGE("a"),)),
        (MESSAGE("a"), MESSAGE("a").replace("plural", "mehrzahl"), "placeholders", (MESSAGE("a"),)),
        (MESSAGE("a"), MESSAGE("a").replace("{n", "{anzahl"), "placeholders", (MESSAGE("a"),)),
        (MESSAGE("a"), MESSAGE("a").replace("other", "x {} y"), "placeholders", ("x",)),
        (MESSAGE("a"), MESSAGE("a").replace("other", "few"), "placeholders", ("other",)),
        ("a " + MESSAGE("b"), "a " + MESSAGE("b") + " {m, plural, other {", "placeholders", None),
        ("%s Tage, %d Uhr", "% days, % hours", "placeholders", ("%s", "%d")),
        ("{a} {b}", "{} {}", "placeholders", ("{a}", "{b}")),
        ("<b>a</b> c", "x <b a", "html", ("<b>", "</b>")),
        ("{ort} von hier", "[ort] of [ort]", "placeholders", ("{ort}",)),
        ("Seite %1", "page 1", "placeholders", ("%1",)),
        ("%d Seiten", "d pages", "placeholders", ("%d",)),
        ("a", "<x/>" * (MAX_TAGS + 1), "xml", ("more than 2,000 tags",)),
    ],
)
def test_a_translation_in_which_nothing_is_certain_stays(
    source: str, target: str, tags: str, unrepaired: tuple[str, ...] | None
) -> None:
    repaired = repair_target(source, target, tags)
    assert repaired == Repaired(target, unrepaired=unrepaired or (target,), certain=False)


@pytest.mark.parametrize(
    ("source", "good", "pairs"),
    [
        (
            "Seite {seite} hier",
            "Page {seite} here",
            "{seite|seite}|{pagina}|{la pagina}|{ seite }|{Seite}|{site}|{seeite}",
        ),
        (
            "Seite {seite} hier",
            "Page {seite} here",
            r"\{seite\}|\{seite}|&#123;seite&#125;|｛seite｝|{seite}}|{{seite}}|{}",
        ),
        (
            "Seite {seite} hier",
            "Page {seite} here",
            "[seite]|(seite)|<seite>|%{seite}|${seite}|{seite)|[seite}|{{seite}",
        ),
        (
            "Ort {{ort.name}}!",
            "Place {{ort.name}}!",
            "{{}}|{ort.name}|[ort.name]|{{{ort.name}}}|ort.name}}|{{ ort.name }}",
        ),
        ("Von ({0}) bis", "From ({0}) to", "{}|{0|0}|[0]|{ 0 }|{00}|{{0}}|%{0}"),
        ("Die %s Orte", "The %s places", "%|% s|%S|%d|%%s|\\%s|％s|&#37;s"),
        ("Die %2$s Orte", "The %2$s places", "%2s|%2$|2$s|$2s|%$2s|% 2 $ s|% 2 $|%2$S|%22$s|%$s"),
        ("Die %(zahl)d Orte", "The %(zahl)d places", "%(zahl)|(zahl)d|%(Zahl)d|%(count)d|%(zahl)s|% (zahl) d|%zahl)d"),
        ("Die %.2f Meter", "The %.2f metres", "%2f|%.f|.2f|%.2|%.1f"),
        ("Öffne $ORT jetzt", "Open $ORT now", r"$ORTT|$ OR T|\$ORT|$ort|$$ORT"),
        ("Öffne :ort jetzt", "Open :ort now", r":orrt|: ort|\:ort|:Ort|::ort"),
    ],
)
def test_damaged_placeholders(source: str, good: str, pairs: str) -> None:
    placeholder = next(token.text for token in parse_placeholders(source) if token.kind == "point")
    for damaged in pairs.split("|"):
        target = good.replace(placeholder, damaged)
        repaired = repair_target(source, target, "placeholders")
        assert repaired.text == good, damaged
        assert repaired.rewritten
        assert repair_target(source, good, "placeholders") == Repaired(good)


@pytest.mark.parametrize(
    ("source", "good", "tags", "damaged"),
    [
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A &lt;b&gt;word&lt;/b&gt; here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A &amp;lt;b&amp;gt;word&amp;lt;/b&amp;gt; here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A < b > word < / b > here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A [b]word[/b] here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A <жирный>word</жирный> here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A <bword</b> here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A b>word/b> here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", r"A \<b\>word\</b\> here"),
        ("Ein <b>Wort</b> hier", "A <b>word</b> here", "html", "A <<b>>word<//b> here"),
        *(
            ("Ein <b>Wort</b> hier", "A <b>word</b> here", tags, damaged)
            for tags in ("html", "xml", "xml,placeholders")
            for damaged in (
                "A <gras>word</gras> here",
                "A <gras>word</b> here",
                "A <b>word</b here",
                "A <b word</b> here",
                "A <b>word</> here",
                "A <b>word<b> here",
                "A <B>word</B> here",
            )
        ),
        ('<a href="u">Ort</a>', '<a href="u">place</a>', "html", '<a hrif="u">place</a>'),
        ('<a href="u">Ort</a>', '<a href="u">place</a>', "html", '<a href="v">place</a>'),
        ('<a href="u">Ort</a>', '<a href="u">place</a>', "html", '<a href="u>place</a>'),
        ('<a href="u">Ort</a>', '<a href="u">place</a>', "html", '<a href=&quot;u&quot;>place</a>'),
        *(
            ('Ein <ph id="7"/> da', 'A <ph id="7"/> there', "xml", f"A {damaged} there")
            for damaged in (
                '<ph i="7"/>',
                '<ph id="7">',
                '<ph id="9"/>',
                '<ph id=7/>',
                '<x id="7"/>',
                '<ph  id = "7" />',
                '<ph id="7"/>>',
                '&lt;ph id="7"/&gt;',
                '[ph id="7"/]',
                'ph id="7"/>',
                '<ph id="7/>',
                '<ph id="7" type="x"/>',
            )
        ),
        ('<ph id="1"/> und <ph id="2"/>', '<ph id="1"/> and <ph id="2"/>', "xml", '<ph id="1"> and <ph id="2"/>'),
        ('a <ph id="1">{0}</ph> b', 'c <ph id="1">{0}</ph> d', "xml", 'c &lt;ph id="1"&gt;{0}&lt;/ph&gt; d'),
        ("Alles (%1$sneue%2$s) hier", "All (%1$snew%2$s) here", "placeholders", "All (% 1 $ new% 2 $) here"),
        ("Ein %1$sneues%2$s Wort", "A %1$snew%2$s word", "placeholders", "A% 1 $ new% 2 $ word"),
        ("Ein %1$sneues%2$s Wort", "A %1$snew%2$s word", "placeholders", "A %1$new%2$ word"),
        ("%1$s und %2$s", "%2$s and %1$s", "placeholders", "%2s and %1s"),
        ("%1$s und %2$s", "%1$s and %2$s", "placeholders", "%1s and %2$s"),
        ("%s und %s", "%1$s and %2$s", "placeholders", "%1$s and %s"),
        ("%ld und %s", "%ld and %s", "placeholders", "%d and %s"),
        ("{g, select, a {x} other {y}}", "{g, select, a {v} other {w}}", "placeholders", "{g, select, b {v} c {w}}"),
        ("{n, plural, other {#}}", "{n, plural, one {#} other {#}}", "placeholders", "{n, plural, one {#} andere {#}}"),
        (
            "{n, plural, other {{m, selectordinal, one {#.} other {# y}}}}",
            "{n, plural, other {{m, selectordinal, one {#.} other {# z}}}}",
            "placeholders",
            "{n, plural, autre {{m, selectordinal, un {#.} autre {# z}}}}",
        ),
    ],
)  # fmt: skip
def test_damaged_tags_are_rewritten_where_they_stand(source: str, good: str, tags: str, damaged: str) -> None:
    repaired = repair_target(source, damaged, tags)
    assert (repaired.text, repaired.removed, repaired.unrepaired) == (good, (), ())
    assert repaired.rewritten
    assert repair_target(source, good, tags) == Repaired(good)


@pytest.mark.parametrize(
    ("source", "target", "tags"),
    [
        ("100 % von %s", "100% of", "placeholders"),
        ("50 % (Ort)", "50 % (place)", "placeholders"),
        ("{ort} (ort)", "of (ort)", "placeholders"),
        ("{x | x > 0}, {ort}", "{x | x > 0},", "placeholders"),
        ("Ort %s", "it's a place", "placeholders"),
        ("Hallo :name", "Name: you", "placeholders"),
        ("%i Orte", "i og e", "placeholders"),
        ("Das &lt;b&gt; ist <b>fett</b>", "The &lt;b&gt; is bold", "html"),
        ("Ein <b>Wort</b> a &lt; b", "A word a &lt; b", "xml"),
        ("Ein <b>Wort</b>", "A word (b)", "html"),
        ("{{a}, {b}}", "{{b}, {a}}", "placeholders"),
        ("%s Dateien", "(%s) files", "placeholders"),
        ("%d Tage", "%d days (%d)", "html"),
        ("<input disabled> da", "<input disabled> there", "html"),
        ('<bpt i="1" x="4"/>a<ept i="1"/>', '<bpt i="2" x="4"/>b<ept i="2"/>', "xml"),
        ("<g id='1' ctype='b'>a</g>", "<g id='1' ctype='b'>b</g>", "xml"),
    ],
)
def test_what_only_looks_damaged_stays(source: str, target: str, tags: str) -> None:
    assert repair_target(source, target, tags) == Repaired(target)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("{a} und {b}", "{x} and {y}", Repaired("and", ("{x}", "{y}"))),  # the alignment tells where they belong
        ("%s a %d b %s c %d", "%c x y", Repaired("x y", ("%c",))),
        ("Ein %s", "A {x}", Repaired("A {x}", extra=("{x}",))),
        ("Ort", "%s place", Repaired("%s place", extra=("%s",))),
        ("%s und %s", "%s, % and %", Repaired("%s, % and %", unrepaired=("%s",), certain=False)),
    ],
)
def test_others_are_removed_or_stay(source: str, target: str, expected: Repaired) -> None:
    assert repair_target(source, target, "placeholders") == expected


@pytest.mark.parametrize(
    ("source", "target", "unrepaired"),
    [
        ("{n, plural, one {# y} other {# z}}", "{n, plural, one {y} other {# z}}", ("# of one",)),
        ("{n, plural, other {# z}}", "{n, plural, =0 {y} one {a z} other {z}}", ("# of other",)),
        ("Zum %s Ort", "To %ss place", ("%ss",)),
        ("Zum %s Ort", "To s place", ("s",)),
        ("Preis $NAME", "NAME and price", ("NAME",)),
        ("Ort :ort", "the ort: here", ("ort",)),
        ("Hallo %(zahl)d!", "Hello zahl!", ("zahl",)),
        ("%d%% mehr", "%d% more", ("%%",)),
    ],
)
def test_what_may_be_damaged_is_reported(source: str, target: str, unrepaired: tuple[str, ...]) -> None:
    assert repair_target(source, target, "placeholders") == Repaired(target, unrepaired=unrepaired)


@pytest.mark.parametrize(
    ("target", "faults"),
    [
        ("{n, plural, one {# y} other {# {a} z}}", []),
        ("{n, plural, one {y} other {# z}}", ["# of one is missing", "{a} of other is missing"]),
        ("{n, plural, eins {# y} other {# {a} z}}", ["the keyword one is translated"]),
        ("{n, plural, one {# y} eins {# y} zwei {# y}}", ["an ICU message is not as in the source"]),
    ],
)
def test_faults_within_messages(target: str, faults: list[str]) -> None:
    assert find_faults("{n, plural, one {# a} other {# {a} b}}", target, "placeholders") == faults


def test_faults_of_crossed_tags() -> None:
    assert find_faults("<b>a</b>", "b</b><b>", "html") == ["<b> is not closed, or crosses another"]
    assert find_faults("<b><i>a</i></b>", "<b><i>b</b></i>", "html") == ["<i> is not closed, or crosses another"]


def test_messages_of_one_name_are_compared_in_order() -> None:
    one, other = "{n, plural, one {a} other {b}}", "{n, plural, one {{x}} other {{x}}}"
    several = f"{{m, plural, other {{{one} {other} {300 * one}}}}}"  # each with each would take seconds
    assert find_faults(several, several, "placeholders") == []


DAMAGES = {
    "drop": lambda tag, at: tag[:at] + tag[at + 1 :],
    "double": lambda tag, at: tag[:at] + tag[at] + tag[at:],
    "space": lambda tag, at: f"{tag[:at]} {tag[at:]}" if at else f"{tag[0]} {tag[1:]}",
    "spaces": lambda tag, at: " ".join(re.findall(r"\w+|\W", tag.replace(" ", ""))),
    "cut": lambda tag, at: tag[:-1] if at % 2 else tag[1:],
    "case": lambda tag, at: tag.swapcase(),
    "wide": lambda tag, at: "".join(chr(ord(x) + 0xFEE0) if x in "<>{}()%$/[]" else x for x in tag),
    "entities": lambda tag, at: "".join(f"&#{ord(x)};" if x in "<>{}%$" else x for x in tag),
    "escaped": lambda tag, at: escape(escape(tag, quote=False), quote=False) if "<" in tag else f"\\{tag}",
    "brackets": lambda tag, at: tag.translate(str.maketrans("<>{}", "[][]" if at % 2 else "{}[]")),
    "name": lambda tag, at: re.sub(r"[a-z]{2,}|(?<=[</])[a-z]", "neu", tag, count=1),
}
LINES = {
    "placeholders": ["%s", "%2$d", "%.1f", "{ort}", "{0}", "{{ort.zahl}}", "%(zahl)d", "${weg}", "%{alles}", "%tag%"],
    "html": ["<b>|</b>", "<i>|</i>", '<a href="u">|</a>', '<span class="v">|</span>', "<br>", '<img src="w.png"/>'],
    "xml": ['<g id="1">|</g>', '<ph id="3"/>', '<x id="4"/>', '<bpt i="5">[</bpt>|<ept i="5">]</ept>'],
}  # fmt: skip


@st.composite
def damaged_lines(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """Draw a source, its translation, the same with one or two damaged tags, and the kind of tags."""
    kind = draw(st.sampled_from([*LINES]))
    tags = draw(st.lists(st.sampled_from(LINES[kind]), min_size=1, max_size=4, unique=True))
    if "%2$d" in tags:
        tags = [tag for tag in tags if tag not in ("%s", "%.1f")]
    pieces: list[list[str]] = [[], [], []]
    damage = {draw(st.integers(0, len(tags) - 1)) for _ in range(draw(st.integers(1, 2)))}
    for n, (tag, *words) in enumerate(
        zip(tags, ["Ort", "Wege", "alle", "Tür"], ["place", "ways", "all", "door"], strict=False)
    ):
        halves = tag.split("|")
        k = draw(st.integers(0, len(halves) - 1))
        name = draw(st.sampled_from([*DAMAGES]))
        wrong = [*halves]
        wrong[k] = DAMAGES[name](halves[k], draw(st.integers(0, len(halves[k]) - 1)))
        for side, word, parts in zip(
            pieces, (*words, words[1]), (halves, halves, wrong if n in damage else halves), strict=True
        ):
            side += [
                f"{parts[0]}{word}{parts[1]}" if len(parts) > 1 else f"{parts[0]} {word}",
                "und" if side is pieces[0] else "and",
            ]
    source, good, bad = map(" ".join, pieces)
    return source, good, bad, kind


@given(line=damaged_lines())
@settings(max_examples=300)
def test_damage_is_repaired_or_reported(line: tuple[str, str, str, str]) -> None:
    source, good, bad, kind = line
    assert repair_target(source, good, kind) == Repaired(good)
    repaired = repair_target(source, bad, kind)
    text = repaired.text
    if not repaired.certain:
        assert text == bad
        assert repaired.unrepaired
        return
    assert repaired.removed or repaired.rewritten or repaired.unrepaired or repaired.extra or text == good
    again = repair_target(source, text, kind)
    assert (again.text, again.removed, again.rewritten) == (text, (), ())
    tags = [Counter(t.text for t in Syntax.of(kind).parse(side) if t.kind != "text") for side in (source, text)]
    assert repaired.unrepaired or repaired.extra or not tags[1] - tags[0]
    words = [
        re.findall(r"[a-z]{3,}", "".join(t.text for t in Syntax.of(kind).parse(side) if t.kind == "text"))
        for side in (good, text)
    ]
    assert repaired.unrepaired or repaired.extra or words[0] == words[1]


XML = st.sampled_from(
    [
        "Haus",
        "alt.",
        "&amp;",
        '<x id="2"/>',
        '<ph id="3">{0}</ph>',
        "<b>ein</b>",
        '<g id="1">der <b>Hund</b></g>',
        "<!--c-->",
    ]
)


@given(parts=st.lists(XML, max_size=6), changes=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=4))
@example(parts=["<b>ein</b>", "Haus", "<b>ein</b>"], changes=[(3, 20), (8, 2)])
def test_a_repaired_line_is_well_formed_and_has_every_tag_once(
    parts: list[str], changes: list[tuple[int, int]]
) -> None:
    source = " ".join(parts)
    pieces = re.findall(r"<[^>]*>|[^<]+", source)
    for first, second in changes:  # move, repeat or cut what a translator may
        if pieces:
            piece = pieces[first % len(pieces)]
            at = second % (len(pieces) + 1)
            if second % 3:
                pieces.remove(piece)
            pieces.insert(at, piece[: -1 - first % 2] if second % 5 == 0 else piece)
    repaired = repair_target(source, "".join(pieces), "xml")
    if not repaired.certain:
        assert (repaired.text, bool(repaired.unrepaired)) == ("".join(pieces), True)
        return
    inline = Inline.of_line(source, repaired.text, "xml")
    text = inline.place({(n, n) for n in range(min(len(inline.source_words), len(inline.target_words)))}).text
    before, after = (
        Counter(token.identity for token in parse_xml(side) if token.kind != "text") for side in (source, text)
    )
    assert before == after or missing_tags(source, text, "xml")
    assert not after - before


def test_the_time_of_a_repair_is_linear() -> None:
    source = " ".join(f"<b>w{n}</b> %s" for n in range(MAX_TAGS // 3))
    target = source.replace("<b>", "< B >").replace("%s", "% s")
    repaired = repair_target(source, target, BOTH)
    assert (repaired.text, len(repaired.rewritten)) == (source, 2 * (MAX_TAGS // 3))


def test_more_placeholders() -> None:
    syntax = Syntax.of("html", (re.compile(r"\[id\d\]"), re.compile(r"⟦\d⟧")))
    repaired = repair_target("[id0]a ⟦1⟧ %s <b>c</b>", "[ID0]x %s <b>⟦7⟧</b>", syntax)
    assert repaired == Repaired("[id0]x %s <b>⟦1⟧</b>", rewritten=("[ID0]", "⟦7⟧"))
    assert repair_target("[id0]a", "⟦7⟧x [ID0]", syntax) == Repaired("x [id0]", ("⟦7⟧",), ("[ID0]",))
    assert Inline.of_segment("a ⟦1⟧ b", "x y", syntax).place({(0, 0), (1, 1)}).text == "x ⟦1⟧ y"


PART = st.sampled_from(
    ["Haus", "ist", "alt.", "%s", "{0}", "<br>", "&amp;", "(%d)", "100,", "<b>ein</b>", "<i>{x} an</i>"]
)
EXTRA = {"%": "%c", "{": "{9}", "<": "<u>"}
DAMAGE = st.sampled_from(["", "", "", "", "drop", "double", "upper", "spaces", "extra"])


@given(parts=st.lists(st.tuples(PART, DAMAGE), max_size=8), links=st.booleans())
def test_whatever_happened_every_tag_comes_once(parts: list[tuple[str, str]], links: bool) -> None:
    source = " ".join(part for part, _ in parts)
    damaged = []
    for part, damage in parts:
        tokens = [token.text for token in Syntax.of(BOTH).parse(part) if token.kind != "text"]
        for text in tokens[:1]:
            new = {"drop": "", "double": text * 2, "upper": text.upper(), "spaces": f"{text[0]} {text[1:]}"}
            part = part.replace(text, new.get(damage, text + EXTRA[text[0]]), 1) if damage else part
        damaged.append(part)
    repaired = repair_target(source, " ".join(damaged), BOTH)
    inline = Inline.of_line(source, repaired.text, BOTH)
    sizes = len(inline.source_words), len(inline.target_words)
    text = inline.place({(n, n) for n in range(min(sizes) if links else 0)}).text
    before, after = (
        Counter(token.text for token in Syntax.of(BOTH).parse(side) if token.kind != "text") for side in (source, text)
    )
    assert before == after
    assert [
        word for word in re.sub("<[^>]*>|[%{][^ )]*|[()]", " ", text).split() if word.isalpha() and word not in "sd"
    ] == [word for word in re.sub("<[^>]*>|[%{][^ )]*|[()]", " ", source).split() if word.isalpha()]


@pytest.mark.parametrize(
    ("source", "target"),
    [("Zeile %d von %d", "Line %2$d %1$d"), ("%1$s: %2$s", "%s: %s"), ("%-20s", "%-25s"), ("%i Dateien", "%d files")],
)
def test_arguments_with_and_without_numbers_are_the_same(source: str, target: str) -> None:
    assert repair_target(source, target, BOTH) == Repaired(target)
    assert missing_tags(source, target, BOTH) == ()


def test_extra_arguments_are_removed_beside_others_with_numbers() -> None:
    assert repair_target("Zeile %d", "Line %1$d %2$d", BOTH).text == "Line %1$d"
