"""Records and descriptions of runs: all come back, and nothing in a damaged or hostile file passes for one."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import asdict
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.types import Cell, Choice, Place
from align.io.manifest import Record, Run, differences, digest_of, dump_json, load_json
from align.io.output import lock

NUMBERS = st.integers(0, 2**63 - 1)
PLAIN = st.dictionaries(st.text(), st.none() | st.text() | NUMBERS)
CELLS = st.builds(Cell, st.integers(1, 9), st.just("all") | st.integers(1, 9))
PLACES = st.builds(Place, CELLS, st.none() | CELLS) | st.builds(Place, st.none(), CELLS)
RUNS = st.builds(Run, PLAIN, st.lists(st.builds(Choice, PLACES, st.text())).map(tuple), st.text())
RECORDS = st.builds(
    Record,
    PLAIN,
    st.lists(st.none() | st.tuples(st.text(), NUMBERS, NUMBERS).map(list)),
    st.text(),
    NUMBERS,
    st.dictionaries(st.text(), NUMBERS),
    st.lists(st.tuples(st.text(), NUMBERS, st.text()).map(list)),
)
RECORD = Record({"format": "jsonl"}, [["a", 1, 2], None], "ab", 3, {"blank": 0}, [["b", 4, "cd"]])
RUN = Run({"format": "jsonl"}, (Choice(Place(Cell(1, 1), None), "x"),), "")


@given(RECORDS)
def test_records_come_back(record: Record) -> None:
    assert Record.of(load_json(dump_json(asdict(record)))) == record


@given(RUNS)
def test_runs_come_back(run: Run) -> None:
    assert Run.of(load_json(dump_json(asdict(run)))) == run


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1}, {"rows": 1.0}, {"rows": "1"}, {"rows": True}, {"rows": None}, {"rows": 10**400}, {"other": 1},
        {"counts": []}, {"counts": {"blank": "0"}}, {"counts": {"blank": -1}}, {"counts": None}, {"digest": None},
        {"run": []}, {"run": {"a": []}}, {"run": None}, {"inputs": "x"}, {"inputs": [1]}, {"inputs": [["a", 1]]},
        {"inputs": [["a", 1, True]]}, {"inputs": [["a", 1, 10**400]]}, {"outputs": None}, {"outputs": [None]},
        {"outputs": [["b", 4, 5]]}, {"outputs": [["b", 4, "cd", "e"]]}, {"outputs": {"b": 4}},
    ],
)  # fmt: skip
def test_no_records(change: dict[str, object]) -> None:
    assert Record.of(load_json(dump_json(asdict(RECORD)))) == RECORD
    with pytest.raises(ValueError, match="not a record"):
        Record.of(load_json(dump_json({**asdict(RECORD), **change})))


@pytest.mark.parametrize(
    "change",
    [
        {"settings": []}, {"settings": {"a": []}}, {"signature": 1}, {"choices": 3}, {"choices": None},
        {"choices": [None]}, {"choices": [{}]}, {"choices": ["place"]}, {"choices": [{"place": None, "reason": "x"}]},
        {"choices": [{"place": {"input": None, "output": None}, "reason": "x"}]},
        {"choices": [{"place": {"input": 7, "output": None}, "reason": "x"}]},
        {"choices": [{"place": {"input": {"layer": 1, "head": "1"}, "output": None}, "reason": "x"}]},
        {"choices": [{"place": {"input": {"layer": 1.0, "head": 1}, "output": None}, "reason": "x"}]},
        {"choices": [{"place": {"input": {"layer": None, "head": 1}, "output": None}, "reason": "x"}]},
        {"choices": [{"place": {"input": {"layer": 1, "head": 1}}, "reason": "x"}]},
    ],
)  # fmt: skip
def test_no_runs(change: dict[str, object]) -> None:
    assert Run.of(load_json(dump_json(asdict(RUN)))) == RUN
    with pytest.raises(ValueError, match=r"not a run|place|neither"):
        Run.of(load_json(dump_json({**asdict(RUN), **change})))


@pytest.mark.parametrize(("kind", "sound"), [(Record, RECORD), (Run, RUN)])
def test_nothing_may_be_missing(kind: Any, sound: Any) -> None:
    content = asdict(sound)
    for missing in content:
        with pytest.raises(ValueError, match="not a"):
            kind.of({key: value for key, value in content.items() if key != missing})


@given(st.binary(max_size=200) | st.just(b"[" * 200_000))
def test_garbage_is_nothing(data: bytes) -> None:
    for kind in (Record, Run):
        with contextlib.suppress(ValueError):
            pytest.fail(str(kind.of(load_json(data))))


def test_digests_are_of_all_bytes(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(data)
    assert digest_of(str(tmp_path / "file")) == blake2b(data, digest_size=32).hexdigest()
    assert digest_of(tmp_path / "file", sha256(b"x")) == sha256(b"x" + data).hexdigest()


def test_shared_locks_keep_others_out(tmp_path: Path) -> None:
    files = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3)]
    assert lock(files[0], shared=True)
    assert lock(files[1], shared=True)
    assert not lock(files[2], wait=0.15)
    fcntl.flock(files[0], fcntl.LOCK_UN)
    os.close(files[1])
    assert lock(files[2])
    assert not lock(files[0], shared=True)


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
