"""The journal: every record comes back, and nothing in a damaged or hostile one passes for a record."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.cli.journal import Saved, read_journal, read_saved, write_saved
from align.types import Cell, Choice, Place
from align.view.differences import differences

NUMBERS = st.integers(0, 2**70)
CELLS = st.builds(Cell, st.integers(1, 9), st.just("all") | st.integers(1, 9))
PLACES = st.builds(Place, CELLS, st.none() | CELLS) | st.builds(Place, st.none(), CELLS)
SAVED = st.builds(
    Saved, NUMBERS, NUMBERS, st.text(), st.dictionaries(st.text(), NUMBERS),
    st.lists(st.builds(Choice, PLACES, st.text())), NUMBERS,
)  # fmt: skip
RECORD = {"lines": 1, "bytes": 2, "digest": "ab", "counts": {"blank": 0}, "chosen": [], "listed": 3}


@given(SAVED)
def test_what_is_saved_comes_back(saved: Saved) -> None:
    line = write_saved(saved)
    assert line.count(b"\n") == 1
    assert read_saved(line) == saved


@pytest.mark.parametrize(
    "change",
    [
        {"lines": -1}, {"lines": 1.0}, {"lines": "1"}, {"lines": True}, {"lines": None}, {"bytes": -1}, {"bytes": [1]},
        {"listed": -1},
        {"counts": []}, {"counts": {"blank": "0"}}, {"counts": {"blank": -1}}, {"counts": None}, {"chosen": 3},
        {"chosen": None}, {"chosen": [None]}, {"chosen": [{}]}, {"chosen": ["place"]},
        {"chosen": [{"place": None, "reason": "x"}]},
        {"chosen": [{"place": {"input": None, "output": None}, "reason": "x"}]},
        {"chosen": [{"place": {"input": 7, "output": None}, "reason": "x"}]},
        {"chosen": [{"place": {"input": {"layer": 1, "head": "1"}, "output": None}, "reason": "x"}]},
        {"chosen": [{"place": {"input": {"layer": 1.0, "head": 1}, "output": None}, "reason": "x"}]},
        {"chosen": [{"place": {"input": {"layer": None, "head": 1}, "output": None}, "reason": "x"}]},
        {"chosen": [{"place": {"input": {"layer": 1, "head": 1}}, "reason": "x"}]},
    ],
)  # fmt: skip
def test_what_is_no_record(change: dict[str, object]) -> None:
    assert read_saved(json.dumps(RECORD).encode()) is not None
    assert read_saved(json.dumps({**RECORD, **change}).encode()) is None


@pytest.mark.parametrize("missing", RECORD)
def test_nothing_may_be_missing(missing: str) -> None:
    assert read_saved(json.dumps({key: value for key, value in RECORD.items() if key != missing}).encode()) is None


@given(st.binary(max_size=200))
def test_garbage_is_no_record(line: bytes) -> None:
    assert read_saved(line) is None


def test_the_last_whole_record_before_any_damage_counts() -> None:
    first, second = (write_saved(Saved(n, n, "x", {}, [])) for n in (1, 2))
    head = b'{"run": {"format": "jsonl"}}\n'
    for tail in (b"", second[:-1], second[:10], b"\n" + second, b"\x00" * 9 + b"\n" + second, b"[" * 200_000 + b"\n"):
        run, saved, end = read_journal(io.BytesIO(head + first + tail))
        assert (run, saved, end) == ({"format": "jsonl"}, Saved(1, 1, "x", {}, []), len(head + first))
    assert read_journal(io.BytesIO(head + first + second))[1] == Saved(2, 2, "x", {}, [])
    for other in (b"", b"[]\n", b'"run"\n', b'{"run": []}\n', b'{"run": {}}', b"[" * 99_000 + b"\n"):
        assert read_journal(io.BytesIO(other + first)) == (None, Saved(), 0)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("align|m|layer:1|v:1", "align|m|layer:2|v:1", "x was layer:1, and is layer:2"),
        ("align|m|v:1", "align|m|mt:en|v:1", "x was none, and is mt:en"),
        ("a|b", "b|a", "x was a|b, and is b|a"),
        ("a|b", None, "x was a|b, and is None"),
    ],
)
def test_of_two_signatures_only_what_differs_is_shown(was: object, now: object, message: str) -> None:
    assert differences({"x": was, "y": 1}, {"x": now, "y": 1}) == message
