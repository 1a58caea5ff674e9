"""Targets whose tags and placeholders a translator has lost, doubled or damaged."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from align.transfer.inline import MAX_TAGS, Inline
from align.transfer.repair import Repaired, missing_tags, repair_target
from align.transfer.tags import Syntax, parse_xml

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
    ("source", "target", "tags", "message"),
    [
        ("<b>a</b>", "<b a", "xml", "an incomplete tag in the translation"),
        ("<b>a</b> c", "<b>a</b c> d", "xml", "an incomplete tag in the translation"),
        (MESSAGE("a"), MESSAGE("a")[:-1], "placeholders", "the ICU message `{n,plural,` is not as in the source"),
        ("a", "<x/>" * (MAX_TAGS + 1), "xml", "more than 2,000 tags"),
        ("a " + MESSAGE("b"), "a " + MESSAGE("b") + " {m, plural, other {", "placeholders", "is not complete"),
    ],
)
def test_translations_that_cannot_be_repaired(source: str, target: str, tags: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        repair_target(source, target, tags)


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
    try:
        repaired = repair_target(source, "".join(pieces), "xml")
    except ValueError:
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
    assert repaired == Repaired("[id0]x %s <b></b>", ("⟦7⟧",), ("[ID0]",))
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
