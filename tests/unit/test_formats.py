"""Formats: what is written can be read, byte for byte as documented, and what is none of them is refused."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.formats import FORMATS, format_a3, format_jsonl, format_naacl_links, format_pharaoh, to_json
from align.core.types import Alignment, Gold, Links, Pair
from align.evaluation.link_files import read_links, renumber_file
from align.evaluation.link_formats import (
    make_gold,
    number,
    parse_a3,
    parse_jsonl,
    parse_marked,
    parse_naacl,
    parse_pharaoh,
    renumber,
)
from align.io.reader import read_lines
from tests.corpora import format_marked

PAIR = Pair(("das", "Haus", "\u2028"), ("the", "\x1b[31m", "house"), 7)
A3 = (
    "# Sentence pair (1) source length 2 target length 3 alignment score : 0.01",
    "the old house",
    "NULL ({ 2 }) das ({ 1 }) Haus ({ 3 })",
)

indices = st.integers(0, 200)
some_links = st.frozensets(st.tuples(indices, indices))
some_gold = st.builds(make_gold, some_links, some_links)
numbering = st.fixed_dictionaries({"base": st.sampled_from([0, 1]), "swapped": st.booleans()})
words = st.one_of(
    st.sampled_from(["({", "})", "NULL", "3", "#", "({})", "\r", "x\r", "\u00a0", "\u2028", "\\", '"']),
    st.text(st.characters(exclude_characters=" \t\n", exclude_categories=["Cs"]), min_size=1),
)
sentences = st.lists(words, max_size=5).map(tuple)


@st.composite
def alignments(draw: st.DrawFn) -> Alignment:
    pair = Pair(draw(sentences), draw(sentences), draw(st.integers(1, 10**6)))
    within = st.tuples(st.integers(0, len(pair.source) - 1), st.integers(0, len(pair.target) - 1))
    links = draw(st.just(frozenset()) if pair.blank else st.frozensets(within))
    return Alignment(pair, {link: draw(st.floats(0, 1)) for link in links})


# What was written is read


@given(some_links, numbering, st.booleans())
def test_pharaoh_reads_what_it_wrote(links: Links, way: dict[str, Any], scores: bool) -> None:
    line = format_pharaoh(Alignment(PAIR, dict.fromkeys(number(links, **way), 0.5)), scores)
    assert renumber(parse_pharaoh(line), **way) == links


@given(some_gold, numbering, st.sampled_from(["p", "?"]))
def test_marked_links_are_read_as_written(gold: Gold, way: dict[str, Any], mark: str) -> None:
    read = parse_marked(format_marked(Gold(number(gold.sure, **way), number(gold.possible, **way)), mark))
    assert Gold(renumber(read.sure, **way), renumber(read.possible, **way)) == gold


@given(alignments(), st.booleans())
def test_naacl_lines_of_a_pair_are_read_as_written(alignment: Alignment, scores: bool) -> None:
    lines = format_naacl_links(alignment, scores).split("\n") if alignment.scores else []
    read = [parse_naacl(line) for line in lines]
    assert renumber((link for _, link, _ in read), 1) == alignment.links
    assert all(sentence == alignment.pair.id and is_sure for sentence, _, is_sure in read)


@given(st.lists(alignments(), max_size=4))
def test_a3_files_are_read_as_they_were_written(pairs: list[Alignment]) -> None:
    numbered = [Alignment(Pair(a.pair.source, a.pair.target, n), a.scores) for n, a in enumerate(pairs, 1)]
    written = "".join(f"{format_a3(alignment)}\n" for alignment in numbered).encode()
    file = read_links(read_lines(io.BytesIO(written), "links"), "links", "giza")
    assert renumber_file(file, 1, False).pairs == [make_gold(alignment.links) for alignment in numbered]


@given(alignments())
def test_jsonl_reads_what_it_wrote(alignment: Alignment) -> None:
    line = format_jsonl(alignment)
    assert "\n" not in line
    assert parse_jsonl(line) == make_gold(alignment.links)
    assert json.loads(line) == alignment.to_dict()
    assert tuple(json.loads(line)["source"]) == alignment.pair.source


# Bytes


def test_bytes_of_each_format() -> None:
    alignment = Alignment(PAIR, {(1, 2): 0.826, (0, 0): 1.0})
    assert FORMATS["pharaoh"](alignment, False) == "0-0 1-2"
    assert FORMATS["talp"](alignment, False) == "0-0 1-2"
    assert FORMATS["pharaoh"](alignment, True) == "0-0:1.00 1-2:0.83"
    assert FORMATS["naacl"](alignment, False) == "7 1 1 S\n7 2 3 S"
    assert FORMATS["naacl"](alignment, True) == "7 1 1 S 1.0\n7 2 3 S 0.826"
    assert FORMATS["giza"](alignment, False) == (
        "# Sentence pair (7) source length 3 target length 3 alignment score : 1\nthe \x1b[31m house\n"
        "NULL ({ 2 }) das ({ 1 }) Haus ({ 3 }) \u2028 ({ })"
    )
    assert alignment.to_dict() == {
        "id": 7,
        "source": ["das", "Haus", "\u2028"],
        "target": ["the", "\x1b[31m", "house"],
        "links": [[0, 0], [1, 2]],
        "scores": [1.0, 0.826],
        "null": [1],
        "source_null": [2],
    }
    assert "\x1b" not in format_jsonl(alignment)


def test_json_keeps_scripts_and_escapes_what_is_not_seen() -> None:
    words = "Grüße 漢字 नमस्ते می\u200cخواهم a\u00a0b 👩\u200d👧"
    assert to_json({"w": words}) == f'{{"w": "{words}"}}'
    assert to_json(["\u202eab\u2069\ufeff\x7f\x9b\u061c\u2028\x1b"]) == (
        '["\\u202eab\\u2069\\ufeff\\u007f\\u009b\\u061c\\u2028\\u001b"]'
    )
    assert to_json(["\U000e0041"]) == '["\\udb40\\udc41"]'
    assert to_json({"a": [1, None]}, indent=1) == '{\n "a": [\n  1,\n  null\n ]\n}'


@pytest.mark.parametrize("name", FORMATS)
def test_a_pair_without_links_has_its_bytes(name: str) -> None:
    expected = {
        "jsonl": '{"id": 7, "source": [], "target": [], "links": [], "scores": [], "null": [], "source_null": []}',
        "giza": "# Sentence pair (7) source length 0 target length 0 alignment score : 1\n\nNULL ({ })",
        "tsv": "\t\t",
        "agreement": "0.0000\t0.0000",
    }
    assert FORMATS[name](Alignment(Pair((), (), 7), {}), False) == expected.get(name, "")


# What is read although nobody here writes it


@pytest.mark.parametrize("line", ["0-1 12-0", "12-0 0-1", "  0-1\t\t12-0 ", "0-1 0-1 12-0", "00-1 12-00"])
def test_order_space_zeros_and_repetition_do_not_matter(line: str) -> None:
    assert parse_pharaoh(line) == {(0, 1), (12, 0)}


def test_naacl_marks_may_be_lower_case() -> None:
    assert parse_naacl("1 2 3 s") == (1, (2, 3), True)
    assert parse_naacl("1 2 3 p 0.5") == (1, (2, 3), False)


@pytest.mark.parametrize("marked", ["{}-{}/{}", "{}-{}:{}", "{}-{}-{}", "{}-{}[{}]"])
def test_marks_behind_a_link(marked: str) -> None:
    line = f"{marked.format(0, 3, 'S')} {marked.format(2, 1, 'P')} 4-4"
    assert parse_marked(line) == make_gold([(0, 3), (4, 4)], [(2, 1)])
    with pytest.raises(ValueError, match="the link of 2 and 1 is marked as possible"):
        parse_pharaoh(line)


# Errors


@pytest.mark.parametrize(
    "line",
    ["0", "0-", "-1", "a-b", "0-1 2", "1--2", "²-1", "٣-1", "0-1-2", "p1", "1p", "0_1", "0.5-1", "0-1:", "0-1:x",
     "+1-1", "0-1/s", "0-1[S", "0-1S]", "0p1/S", "0-1/SP"],
)  # fmt: skip
@pytest.mark.parametrize("parse", [parse_pharaoh, parse_marked])
def test_what_is_no_link_is_refused(line: str, parse: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match="is not a link"):
        parse(line)


@pytest.mark.parametrize(
    "parse", [parse_pharaoh, parse_marked, parse_naacl, lambda line: parse_a3(line, "", "NULL ({ })")]
)
def test_numbers_have_one_bound_and_messages_an_end(parse: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match="is not "):
        parse("0-1000000000")
    with pytest.raises(ValueError, match=r"^'1{79}…' is not .{1,90}$"):
        parse(10**6 * "1")


@pytest.mark.parametrize(
    "line",
    ["", "[]", "null", "3", "{}", '{"links": null}', '{"links": 3}', '{"links": [3]}', '{"links": [[0, 0, 1]]}',
     '{"links": ""}', '{"links": {}}', '{"links": [], "possible": ""}', '{"links": [[0, 1%s]]}' % (5000 * "0"),
     '{"links": [[1e999, 0]}', '{"links": [[0, 0]}', '{"possible": [[0, 0]]}', '{"links": [], "possible": null}',
     "[" * 100_000],
)  # fmt: skip
def test_what_is_no_object_with_links_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a JSON object with"):
        parse_jsonl(line)


@pytest.mark.parametrize("link", ["[0, 1.0]", "[0, -1]", '["0", "1"]', "[0, true]", "[0, null]", "[0, NaN]", '"01"',
                                  "[0, 1e999]", "[0, 1000000000]", "[1000000000000, 0]"])  # fmt: skip
@pytest.mark.parametrize("key", ["links", "possible"])
def test_links_in_json_are_numbers_from_0(link: str, key: str) -> None:
    with pytest.raises(ValueError, match="a link in JSON is two numbers from 0"):
        parse_jsonl(json.dumps({"links": [], "possible": [], key: "HERE"}).replace('"HERE"', f"[{link}]"))


@pytest.mark.parametrize("line", ["", "1 2 S", "1 2 -3", "1 2 3 x", "1 2 3 0.5 S", "1 2 3 4", "1 2 3 S 0.5.1"])
def test_what_is_no_naacl_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not `sentence source target"):
        parse_naacl(line)


@pytest.mark.parametrize(
    ("at", "line", "message"),
    [
        (0, "# Sentence pair 1", r"is not `# Sentence pair \(1\)"),
        (0, A3[0].replace("source length 2", "source length 3"), "pair 1 does not have the lengths that it states"),
        (2, "NULL ({ 2 }) das ({ 1 }) Haus ({ 4 })", "or has positions beyond them"),
        (2, "NULL ({ 2 }) das ({ 1 }) Haus ({ 3", "word 2 of the source is not followed by"),
    ],
)
def test_damaged_a3_lines_are_refused(at: int, line: str, message: str) -> None:
    lines = [line if n == at else good for n, good in enumerate(A3)]
    with pytest.raises(ValueError, match=message):
        parse_a3(*lines)
