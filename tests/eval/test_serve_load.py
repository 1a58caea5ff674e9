"""`eval/run.py serve-load`: what is right, what is wrong, and the table, from the real service on a toy model."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.eval.conftest import Result, read_table

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def load(door: Any) -> Any:
    return importlib.import_module("serve_load")


def test_table(data: Path, command: Callable[..., Result]) -> None:
    text = ("-s", data / "gold.de", "-t", data / "gold.en", "-m", data / "models" / "one")
    result = command("serve-load", *text, "--lines", 40, "--clients", 3, "--seconds", 2)
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "serve_load.tsv")
    begin = "# python eval/run.py serve-load -s gold.de -t gold.en -m one --lines 40 --clients 3 --seconds 2; "
    assert sign.startswith(begin)
    assert [(row["clients"], row["seconds"], row["wrong"], row["refused"]) for row in rows] == [
        ("1", "1", "0", "0"),
        ("3", "2", "0", "0"),
    ]
    for row in rows:
        assert int(row["requests"]) > 0
        assert 0 < int(row["p50"]) <= int(row["p99"])


def test_other_answers_are_wrong(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    known = load.Known({}, "ok", [[0, 0]], [0.5])
    right = {"status": "ok", "links": [[0, 0]], "scores": [0.5004]}
    assert known.is_in(right)
    assert not known.is_in({**right, "scores": [0.502]})
    assert not known.is_in({**right, "links": [[0, 1]]})
    assert not known.is_in({**right, "status": "too long"})
    tally = asyncio.run(_ask_nobody(load))
    assert tally.wrong > 0
    assert tally.seconds == []
    assert capsys.readouterr().err.count("wrong: ConnectError") == 5


async def _ask_nobody(load: Any) -> Any:
    """A client of a port at which nobody listens."""
    tally = load.Tally()
    known = [load.Known({"source": "a", "target": "b"}, "ok", [[0, 0]], [0.5])]
    await load.ask("http://127.0.0.1:1", known, 0, load.time.monotonic() + 0.2, tally)
    return tally


def test_a_service_that_does_not_start(load: Any) -> None:
    with pytest.raises(ChildProcessError, match="no-such-model"), load.service("no-such-model", 1):
        pass
