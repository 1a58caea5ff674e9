"""Targets whose tags and placeholders a translator has lost, doubled or damaged."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align import transfer_markup
from align.transfer.markup import place_markup
from align.transfer.repair import repair_target
from align.transfer.tags import Syntax, parse, read_markup, words_in

BOTH = "html,placeholders"


@pytest.mark.parametrize(
    ("source", "target", "tags", "text", "removed", "rewritten"),
    [
        ("<b>a</b> %s", "<b>x</b> %s", BOTH, "<b>x</b> %s", [], []),
        ("<b>a</b> %s", "<b>x</b> %s %s %d", BOTH, "<b>x</b> %s", ["%s", "%d"], []),
        ("<b>a</b>", "<b>x <i>.", BOTH, "x.", ["<b>", "<i>"], []),
        ("<b>a</b>", "< B >x</ b>", BOTH, "<b>x</b>", [], ["< B >", "</ b>"]),
        ("<b>a</b>", "< B >x", BOTH, "x", ["< B >"], []),
        ("<a href=\"x\">a</a>", "<a href=”x”>b</A>", BOTH, '<a href="x">b</a>', [], ["<a href=”x”>", "</A>"]),
        ("{name} %1$s", "{ Name } ％1$S", "placeholders", "{name} %1$s", [], ["{ Name }", "％1$S"]),
        ("%s a", "100 % sicher", "placeholders", "100 % sicher", [], []),
        ("<g id='1'>a</g><x/>", "<g id='1'>b<x/>", "xml", "b<x/>", ["<g id='1'>"], []),
        ("a <br> b", "x < 3", "html", "x < 3", [], []),
        ("{n, plural, other {# a}}", "{n,plural,other {# b}}", "placeholders", "{n,plural,other {# b}}", [], []),
    ],
)  # fmt: skip
def test_only_what_the_source_has_stays(
    source: str, target: str, tags: str, text: str, removed: list[str], rewritten: list[str]
) -> None:
    repaired = repair_target(source, target, tags)
    assert repaired == (text, tuple(removed), tuple(rewritten))
    assert read_markup(source, tags, text).extra == ()
    assert repair_target(source, text, tags) == (text, (), ())


def test_more_placeholders() -> None:
    syntax = Syntax.of("html", re.compile(r"\[id\d\]|⟦\d⟧"))
    repaired = repair_target("[id0]a ⟦1⟧ %s <b>c</b>", "[ID0]x %s <b>⟦7⟧</b>", syntax)
    assert repaired == ("[id0]x %s <b></b>", ("⟦7⟧",), ("[ID0]",))
    assert place_markup(read_markup("a ⟦1⟧ b", syntax), "x y", {(0, 0): 1, (1, 1): 1}).text == "x ⟦1⟧ y"


PART = st.sampled_from(
    ["Haus", "ist", "alt.", "%s", "{0}", "<br>", "&amp;", "(%d)", "100", "<b>ein</b>", "<i>{x} an</i>"]
)
DAMAGE = st.sampled_from(["", "", "", "", "drop", "double", "upper", "spaces", "extra"])


@given(parts=st.lists(st.tuples(PART, DAMAGE), max_size=8), links=st.booleans())
def test_whatever_happened_every_tag_comes_once(parts: list[tuple[str, str]], links: bool) -> None:
    source = " ".join(part for part, _ in parts)
    damaged = []
    for part, damage in parts:
        tokens = [token.text for token in parse(part, BOTH) if token.kind != "text"]
        for text in tokens[:1]:
            new = {"drop": "", "double": text * 2, "upper": text.upper(), "spaces": f"{text[0]} {text[1:]}"}
            part = part.replace(text, new.get(damage, text + "%c"), 1) if damage else part
        damaged.append(part)
    repaired = repair_target(source, " ".join(damaged), BOTH)
    markup = read_markup(source, BOTH, repaired.text)
    sizes = len(markup.words), len(words_in(repaired.text))
    text = place_markup(markup, repaired.text, {(n, n): 1.0 for n in range(min(sizes) if links else 0)}).text
    before, after = (
        Counter(token.text for token in parse(side, BOTH) if token.kind != "text") for side in (source, text)
    )
    assert before == after
    assert [word for word in re.sub("<[^>]*>|[%{][^ )]*|[()]", " ", text).split() if word.isalpha()] == [
        word for word in re.sub("<[^>]*>|[%{][^ )]*|[()]", " ", source).split() if word.isalpha()
    ]


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("Es sind 100% {x} da", "There are 100%(x there", "There are 100%(x {x} there"),
        ("a%s", "b%", "b% %s"),
        ("a {0}", "{ b", "{ {0} b"),
        ("a :name", "b:", "b: :name"),
    ],
)
def test_a_placeholder_never_becomes_part_of_another(source: str, target: str, text: str) -> None:
    links = {(0, 0): 1.0}
    assert transfer_markup(source, target, links, tags="placeholders").text == text
