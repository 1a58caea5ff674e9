"""The journal: every record comes back, and nothing in a damaged or hostile one passes for a record."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.types import Cell, Choice, Place
from align.io.journal import Saved, read_journal, read_saved, write_saved
from align.io.manifest import differences

NUMBERS = st.integers(0, 2**70)
CELLS = st.builds(Cell, st.integers(1, 9), st.just("all") | st.integers(1, 9))
PLACES = st.builds(Place, CELLS, st.none() | CELLS) | st.builds(Place, st.none(), CELLS)
SAVED = st.builds(
    Saved, st.integers(1, 2**70), NUMBERS, st.text(), st.dictionaries(st.text(), NUMBERS),
    st.lists(st.builds(Choice, PLACES, st.text())), NUMBERS, NUMBERS, st.text(), st.text(),
)  # fmt: skip
SOUND = Saved(1, 2, "ab", {"blank": 0}, [Choice(Place(Cell(1, 1), None), "x")], 3, 1, "cd", "")


def written(record: Any) -> bytes:
    """A line with the check of its content, whatever that is."""
    content = json.dumps(record)
    check = hashlib.blake2b(content.encode(), digest_size=32).hexdigest()
    return f'{content[:-1]}, "check": "{check}"}}\n'.encode()


@given(SAVED)
def test_what_is_saved_comes_back(saved: Saved) -> None:
    line = write_saved(saved)
    assert line.count(b"\n") == 1
    assert read_saved(line) == saved


@pytest.mark.parametrize(
    "change",
    [
        {"lines": 0},
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
    assert read_saved(written(asdict(SOUND))) == SOUND
    with pytest.raises(ValueError, match="not as it was written"):
        read_saved(written({**asdict(SOUND), **change}))


@pytest.mark.parametrize("missing", asdict(SOUND))
def test_nothing_may_be_missing(missing: str) -> None:
    with pytest.raises(ValueError, match="not as it was written"):
        read_saved(written({key: value for key, value in asdict(SOUND).items() if key != missing}))


@given(st.data())
def test_a_record_that_was_changed_is_none(data: st.DataObject) -> None:
    """Whatever a byte becomes: an error, or no record; never another record."""
    line = bytearray(write_saved(SOUND))
    line[data.draw(st.integers(0, len(line) - 2))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ValueError):
        assert read_saved(bytes(line)) is None


@given(st.binary(max_size=200))
def test_garbage_is_no_record(line: bytes) -> None:
    with contextlib.suppress(ValueError):  # some of it is JSON
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
