"""Lines cut into tags and text: nothing of a line is lost, and nothing in it is taken for what it is not."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align import parse_pharaoh
from align.transfer.inline import Inline
from align.transfer.tags import (
    KINDS,
    Markup,
    Syntax,
    count_lookalikes,
    find_words,
    halves,
    markup_of,
    pair_placeholders,
    parse_html,
    parse_placeholders,
    parse_xml,
    readable,
    words_in,
)


def read_markup(text: str, tags: str) -> Markup:
    return markup_of(Syntax.of(tags).parse(text), Syntax.of(tags))


TAGS = "<b> </b> <i </i> <br> <x/> <!-- --> <?p ?> &amp; & < > </ <! {0} %s % { } <script> </script> <![CDATA[ ]]>"
TAGS += " <0> </0> </ 0 > <0/> <12> </12> <0 1 <PRIu64> %<PRIu64> $t( ) @:a"
PIECES = st.sampled_from([*TAGS.split(" "), "<i a='>'>", "a", " ", "\t", "\n", "é", "\u2028"])
LINES = st.lists(PIECES, max_size=12).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(text=LINES)
def test_tokens_are_the_line(kind: str, text: str) -> None:
    try:
        tokens = Syntax.of(kind).parse(text)
    except ValueError:
        assert kind != "placeholders"
        return
    assert "".join(token.text for token in tokens) == text
    assert all(token.text for token in tokens)
    pairs = halves(tokens)
    assert all(tokens[a].name == tokens[b].name and tokens[b].kind == "close" and a < b for a, b in pairs.items())
    for a, b in pairs.items():  # elements are in one another or apart
        assert all(not a < c < b < d for c, d in pairs.items())


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("Mehr <1><2>dazu</2></1> und <0>das</0>.", "<1> <2> </2> </1> <0> </0>"),
        ("<3/> zwei <4/> drei", "<3/> <4/>"),
        ("<0>a<1>b</0>c</1>", "<0> <1> </0> </1>"),
        ("a<1>b</1>c", "<1> </1>"),
        ("nur </7> und <8> da", "</7> <8>"),
        ("a <0 b, x <3 und 1<2>3, 5 < 6 > 4", ""),
    ],
)
def test_numbered_tags(text: str, tags: str) -> None:
    assert [token.text for token in parse_html(text) if token.kind != "text"] == tags.split()
    with pytest.raises(ValueError, match="not well-formed XML"):
        parse_xml(text)


@given(
    st.lists(
        st.sampled_from(
            ["<0>", "</0>", "<0/>", "<17>", "</17>", "</", "17", ">", "a", "1", "<b>", "x", "<3", "<", "</"]
        ),
        max_size=9,
    ),
    st.booleans(),
)
def test_both_tags_of_a_number_are_tags(parts: list[str], spaces: bool) -> None:
    tokens = parse_html((" " if spaces else "").join(parts))
    text = "".join(f"{token.text} " for token in tokens if token.kind == "text")
    for name in ("0", "17"):
        closed = any(token.kind == "close" and token.name == name for token in tokens)
        assert not re.search(rf"</\s?{name}\s?>", text)
        assert not (closed and f"<{name}>" in text)
    assert "<0/>" not in text


def test_attributes_and_entities_are_as_they_were_written() -> None:
    text = "<b  x='1'\ty=\"ü&amp;>\">c &amp; &nbsp; &foo; &#228;</b><x id='1' /><!-- <b> --><?pi q?><![CDATA[a<b>]]>"
    tokens = [token for token in parse_xml(text) if token.kind != "text"]
    assert [token.text for token in tokens] == re.findall(r"<b  .*?>\">|</b>|<x.*?/>|<!--.*?-->|<\?pi.*?\?>", text)
    assert [token.kind for token in tokens] == ["open", "close", "point", "point", "point"]
    kinds = {token.text: token.kind for token in parse_html("<B>a<br><x/></B> 1 < 2 <script>a<i></script>")}
    assert [kinds[text] for text in ("<B>", "</B>", "<br>", "<x/>", "a<i>", " 1 < 2 ")] == [
        *("open", "close", "point", "point", "point", "text")
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("<b>", "</a><a>", "a < b", "<!DOCTYPE a>", "<?xml version='1.0'?>", "<b a>", "a\x00b", "<b></i>", "&", "]]>"),
        *('<!DOCTYPE a [<!ENTITY a "aaaa">]>&a;', '<!ENTITY a "b">'),
    ],
)
def test_xml_that_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not well-formed XML"):
        parse_xml(text)


def test_placeholders() -> None:
    text = "{0} {name} {{ x }} ${a.b} {} {:.2f} %s %d%% %1$s%2$05d %(n)s %.3f 100% sicher 5%d { 0} %"
    found = [token.text for token in parse_placeholders(text) if token.kind == "point"]
    assert " ".join(found) == "{0} {name} {{ x }} ${a.b} {} {:.2f} %s %d %1$s %2$05d %(n)s %.3f"


def test_placeholders_of_many_languages() -> None:
    found = "%{count} #{x} %1 %L2 %@ %m %lld %p :name $HOME { $user } %%"
    tokens = [token.text for token in parse_placeholders(found) if token.kind == "point"]
    assert tokens == [*found.split(" ")[:-4], "{ $user }"]
    for text in ("50 % sicher", "a:b", "12:30", "http://a.b/%20c%d/%C3%A9", "$5", "Hinweis: das", "C:\\x", "50%1"):
        assert [token for token in parse_placeholders(text) if token.kind == "point"] == [], text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$t(punkte, {'count': {{n}} }) da", "$t(punkte, {'count': {{n}} })"),
        ('die $t(a:b.c) und $t(x, { "y": f(z) })!', '$t(a:b.c)|$t(x, { "y": f(z) })'),
        (
            "Um { NUMBER($n, digits: 2) } und { $n } @{ort}, %#@tage@",
            "{ NUMBER($n, digits: 2) }|{ $n }|@{ort}|%#@tage@",
        ),
        (r"Ort\u00a0%s\x20%d\n$WEG\t:ort", "%s|%d|$WEG|:ort"),
        ("Zu @:menu.datei. Und @.lower:titel, @:(a.b), @:{0}", "@:menu.datei|@.lower:titel|@:(a.b)|@:{0}"),
        ("an a@b.example und um @: 5", ""),
        ("%<PRIu64> von %-5<PRIdMAX>", "%<PRIu64>|%-5<PRIdMAX>"),
        ("%*2$d %1$-*2$.*3$f % .2f % 5d", "%*2$d|%1$-*2$.*3$f|% .2f|% 5d"),
        ("50% der, 100 % sicher, 20%ige, in % d. BIP, % zu, %Idee, %nicht, '%'-Zeichen, 9 %", ""),
        ("%teuer %jedes", ""),
    ],
)
def test_placeholders_of_other_grammars(text: str, found: str) -> None:
    assert [token.text for token in parse_placeholders(text) if token.kind == "point"] == [
        *filter(None, found.split("|"))
    ]


KEYS = st.sampled_from(["ort", "a.b", "ns:k_1", "a-b"])
NESTED = st.tuples(
    KEYS,
    st.lists(st.sampled_from(["'n': {{n}}", '"m": 5', "'a': '$t(b)'", "'c': '{{- d}}'", "'e': (1)"]), max_size=2).map(
        lambda options: f", {{ {', '.join(options)} }}" * bool(options)
    ),
).map(lambda parts: f"$t({''.join(parts)})")
LINKED = st.tuples(st.sampled_from(["", ".upper", ".capitalize"]), st.sampled_from(["{}", "({})", "{{{}}}"]), KEYS).map(
    lambda parts: f"@{parts[0]}:{parts[1].format(parts[2].replace(':', '.'))}"
)


@given(st.lists(st.one_of(NESTED, LINKED), min_size=1, max_size=3), st.sampled_from([" ", ", ", " (", ". "]))
def test_references_to_other_messages_are_placeholders(references: list[str], between: str) -> None:
    tokens = parse_placeholders(between.join(["die", *references, "da"]))
    assert [token.text for token in tokens if token.kind == "point"] == references


NUMBERS = st.sampled_from(["", "", "3", "12", "*", "*4$"])
DIRECTIVES = st.tuples(
    st.sampled_from(["", "", "2$"]),
    st.text("-+#0'", max_size=3),
    NUMBERS,
    st.one_of(st.just(""), NUMBERS.filter(bool).map(".{}".format)),
    st.one_of(
        st.tuples(st.sampled_from(["hh", "h", "l", "ll", "j", "z", "t", "L", "q"]), st.sampled_from("diuoxX")).map(
            "".join
        ),
        st.sampled_from(
            [
                "s",
                "d",
                "i",
                "u",
                "o",
                "x",
                "X",
                "f",
                "F",
                "e",
                "E",
                "g",
                "G",
                "a",
                "A",
                "c",
                "p",
                "n",
                "ls",
                "lc",
                "Lf",
                "lg",
                "@",
                "<PRIx32>",
                "<PRIuLEAST8>",
                "<PRIdPTR>",
            ]
        ),
    ),
).map(lambda parts: f"%{''.join(parts)}")


@given(st.lists(DIRECTIVES, min_size=1, max_size=3), st.sampled_from([" ", ", ", "–", "<b>"]))
def test_directives_of_printf_are_placeholders(directives: list[str], between: str) -> None:
    tokens = Syntax.of("html,placeholders").parse(between.join(["", *directives, ""]))
    assert [token.text for token in tokens if token.name == "placeholder"] == directives


PAIRS = ["%s…%s", "%1$s…%2$s", "{0}…{1}", "{a}…{b}", "${x}…${y}", "{{x}}…{{y}}", "%(link)s…%(end)s", "%@…%@"]


def spans_of(text: str, target: str = "") -> list[str]:
    """Return what placeholders enclose as spans."""
    tokens = Inline.of_segment(text, target, "placeholders").tokens
    starts, ends = ([n for n, token in enumerate(tokens) if token.kind == kind] for kind in ("open", "close"))
    return ["".join(token.text for token in tokens[n : m + 1]) for n, m in zip(starts, ends, strict=True)]


@pytest.mark.parametrize("form", PAIRS)
def test_placeholders_around_words_are_spans(form: str) -> None:
    one, other = form.split("…")
    for inner in ("hier", "Hilfe und Mehr.", "Ä", "Hinweis:", "ja {n} nein"):
        span = f"{one}{inner}{other}"
        for text in ("{}", "Siehe {}!", "({})", "„{}“ und", "{}-Seite", "a/{}/b"):
            assert spans_of(text.format(span)) == [span]
        assert spans_of(span, one) == spans_of(span, other) == []
    for text in (
        "von {} bis {}",
        "{}/{}",
        "{}{}",
        "{} Dateien{}",
        "x{}Dateien{}",
        "{}Dateien{}x",
        "{}px, v{}",
        "{}x{}",
        "{}Datei „{}“",
        '{}Datei "{}"',
        "{}_a, b_{}",
    ):
        assert spans_of(text.replace("{}", one, 1).replace("{}", other)) == []


@pytest.mark.parametrize(
    "text", ["%d Tage%d", "%1$dTage%2$d", "%s%sTage%s%s", "$aTage$b", "请%s点击%s", "%s的%s", "{0}eins%s"]
)
def test_other_placeholders_are_none(text: str) -> None:
    assert spans_of(text) == []


def test_words_are_those_of_the_line_without_tags() -> None:
    markup = read_markup("<p>Das <b>Haus</b>,<br>R&amp;D ist</p><p>alt&#32;.</p>", "html")
    assert markup.plain == "Das Haus, R&amp;D ist alt&#32;."
    assert markup.readable() == ("Das", "Haus,", "R&D", "ist", "alt&#32;.")
    assert read_markup("a<i>b</i>c", "html").plain == "abc"
    with pytest.raises(ValueError, match=r"tags must be one of xml, html, placeholders, .*; got 'sgml'"):
        read_markup("a", "sgml")


def test_many_tags_take_no_long_time() -> None:
    many = 5_000
    for text in ("<b>" * many, "<b>" * many + "</i>" * many, "<b>a</b>" * many, "<b>" * many + "</b>" * many):
        assert len(read_markup(text, "html").tokens) >= many


ENDLESS = ["<0 ", "</0 ", "<b ", "<a href='", "<!--", "</b", "<", "&", "<?", "<![CDATA[", "<script>"]


@pytest.mark.parametrize(
    "text",
    [
        *(part * 20_000 for part in ENDLESS),
        f"<a b=c{' ' * 20_000}d='>",
        f"<a{' b =c' * 20_000} d='>",
        "<a='" * 2000 + ">",
    ],
)
def test_a_long_line_of_what_never_ends_is_soon_read(text: str) -> None:
    assert "".join(token.text for token in parse_html(text)) == text


@pytest.mark.parametrize(
    "part", ["$t(", "$t(a", "$t((a)", "@:a.", "@:(", "%*", "%0", "%'", "% .", "%<PRI", "{", "%sa%s "]
)
def test_a_long_line_of_placeholders_that_never_end_is_soon_read(part: str) -> None:
    for text in (part * 20_000, part + part[-1] * 20_000):
        assert "".join(token.text for token in parse_placeholders(text)) == text
    assert pair_placeholders(parse_placeholders(part * 2_000), ())


@pytest.mark.parametrize(
    ("text", "taken", "left"),
    [
        ("%(a)s %1$s %s {0} {name!r} ${x} #{x} %{x} $HOME :name %@ %m %1 { $x } {{ x }} %count%", 16, 0),
        ("{n, plural, one {# Datei} other {# Dateien}} und {g, select, a {er} other {sie}}", 2, 0),
        ("100 %% 50% 3%ig https://a.example/b%20c 12:30 a:b $5 { x{", 0, 0),
        ("[[a]] {a b} <%= x %> [id0] ⟦1⟧ __name__ @NAME@ %<a> {n, plural, one}", 0, 9),
    ],
)
def test_placeholders_and_what_is_like_them(text: str, taken: int, left: int) -> None:
    tokens = parse_placeholders(text)
    assert sum(token.kind == "point" for token in tokens) == taken
    assert count_lookalikes(tokens) == left


def test_text_is_one_token_and_cdata_another() -> None:
    tokens = parse_html("a&amp;b &lt; < c&nbsp;<b>&amp;d")
    assert [token.text for token in tokens] == ["a&amp;b &lt; < c&nbsp;", "<b>", "&amp;d"]
    tokens = parse_xml("a&amp;b <![CDATA[<c>]]>&d;<e/><![CDATA[]]>")
    assert [token.text for token in tokens] == ["a&amp;b ", "<![CDATA[<c>]]>", "&d;", "<e/>", "<![CDATA[]]>"]
    markup = read_markup("a<![CDATA[<c>]]>&amp; <e/><![CDATA[]]>", "xml")
    assert (markup.plain, markup.readable()) == ("a&lt;c&gt;&amp; ", ("a<c>&",))


def test_too_many_tags_are_refused() -> None:
    with pytest.raises(ValueError, match="20,000 tags and 11,000 words"):
        Inline.of_segment("<b>x</b>" * 10000, "y " * 1000, "html")


WORDS = st.lists(st.sampled_from(["a", "é", "我", "&amp;", "&lt", "&#252;", "&nbsp;", "&", "&acE;", " "]), max_size=12)


BRACKETS = (("[[", "]]"), ("@", "@"), ("⟪", "⟫"), ("__", "__"), ("(?", ")"))


@given(
    st.lists(st.tuples(st.sampled_from(BRACKETS), st.text("aBc7", min_size=1)), max_size=6), st.permutations(BRACKETS)
)
def test_patterns_count_each_by_itself_in_any_order(
    marks: list[tuple[tuple[str, str], str]], order: list[tuple[str, str]]
) -> None:
    patterns = [re.compile(rf"(?i){re.escape(left)}([a-c7])\w*{re.escape(right)}") for left, right in order]
    texts = [f"{left}{name}{right}" for (left, right), name in marks]
    tokens = Syntax.of("placeholders", patterns).parse(" und ".join(texts))
    assert [token.text for token in tokens if token.kind == "point"] == texts


@given(pieces=WORDS, cuts=st.sets(st.integers(1, 40)), escaped=st.booleans())
def test_words_are_found_in_the_text_as_it_is_written(pieces: list[str], cuts: set[int], escaped: bool) -> None:
    text = "".join(pieces)
    words = readable([text[start:end] for start, end in words_in(text)], escaped)
    smaller = [part for word in words for part in _cut(word, cuts)]
    spans = find_words(smaller, text, escaped)
    assert list(readable([text[start:end] for start, end in spans], escaped)) == smaller
    assert "".join(text[start:end] for start, end in spans) == "".join(text.split(" "))


def _cut(word: str, cuts: set[int]) -> list[str]:
    ends = [0, *sorted(cut for cut in cuts if cut < len(word)), len(word)]
    return [word[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    ("source", "words", "target", "words_of_target", "links", "expected"),
    [
        ("我<b>喜欢</b>书", "我 喜欢 书", "本が好きだ", "本 が 好き だ", "1-2 2-0", "本が<b>好き</b>だ"),
        ("《<i>书</i>》", "《 书 》", "『本』", "『 本 』", "0-0 1-1 2-2", "『<i>本</i>』"),
        ("<i>《书》</i>", "《 书 》", "『本』", "『 本 』", "0-0 1-1 2-2", "<i>『本』</i>"),
        ("Q&amp;<b>A</b>我", "Q & A 我", "R&amp;A&lt;", "R & A <", "0-0 1-1 2-2", "R&amp;<b>A</b>&lt;"),
        ("我<br>你", "我 你", "me you", "me you", "0-0 1-1", "me<br> you"),
    ],
)
def test_tags_around_words_that_touch(
    source: str, words: str, target: str, words_of_target: str, links: str, expected: str
) -> None:
    inline = Inline.of_segment(source, target, "html")
    inline.use_words(words.split(), words_of_target.split())
    assert inline.place(parse_pharaoh(links)).text == expected
