"""Formats: what is written can be read, byte for byte as documented."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.formats import FORMATS, format_jsonl, format_pharaoh, parse_pharaoh
from align.types import Alignment, Pair

PAIR = Pair(("das", "Haus", "\u2028"), ("the", "\x1b[31m", "house"), 7)


@given(st.frozensets(st.tuples(st.integers(0, 200), st.integers(0, 200))))
def test_pharaoh_reads_what_it_wrote(links: frozenset[tuple[int, int]]) -> None:
    assert parse_pharaoh(format_pharaoh(Alignment(PAIR, dict.fromkeys(links, 1.0)))) == links


def test_bytes_of_each_format() -> None:
    alignment = Alignment(PAIR, {(1, 2): 0.826, (0, 0): 1.0})
    assert FORMATS["pharaoh"](alignment, False) == "0-0 1-2"
    assert FORMATS["talp"](alignment, False) == "0-0 1-2"
    assert FORMATS["pharaoh"](alignment, True) == "0-0:1.00 1-2:0.83"
    record = json.loads(format_jsonl(alignment))
    assert record == {
        "id": 7,
        "source": ["das", "Haus", "\u2028"],
        "target": ["the", "\x1b[31m", "house"],
        "links": [[0, 0], [1, 2]],
        "scores": [1.0, 0.826],
        "null": [1],
    }
    assert "\n" not in format_jsonl(alignment)
    assert "\x1b" not in format_jsonl(alignment)


def test_a_pair_left_out_says_why_in_jsonl() -> None:
    assert json.loads(format_jsonl(Alignment(PAIR, {}, "too long")))["skipped"] == "too long"
    assert format_pharaoh(Alignment(PAIR, {}, "too long")) == ""


@pytest.mark.parametrize("line", ["0", "0-", "-1", "a-b", "0-1 2", "1--2", "0-1:0.5", "²-1"])
def test_what_is_no_link_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not a link"):
        parse_pharaoh(line)
