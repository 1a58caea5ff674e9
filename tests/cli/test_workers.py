"""`extract-align --workers`: the same bytes as one process writes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from align import Search
from align.cli import extract, loading
from align.core import stream
from align.models import load as models_load
from align.models import translate as translating
from tests import toy
from tests.cli.conftest import Run, Write
from tests.scale.jobs import sentences

pytestmark = pytest.mark.usefixtures("one_thread", "unchecked")

FORWARD, REVERSE = "toys/de-en/checkpoint.pt", "toys/en-de"


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command with a toy model, and slices of which a buffer has several."""
    monkeypatch.setattr(stream, "SLICE_WORDS", 1000)
    monkeypatch.setattr(translating, "SEARCH_WORDS", 1000)
    monkeypatch.setattr(extract, "BUFFERS", 1)
    toy.save_model(tmp_path / "toys" / "de-en")
    toy.save_reverse_model(tmp_path / "toys" / "en-de")
    return partial(run_main, extract.main, "-m", FORWARD, "--buffer", 500, "--device", "cpu")


def put(lines: list[str]) -> None:
    """Write the input: both sides in a file, the source alone, and both sides in two files of different length."""
    for name, some in (("text", lines), ("one", lines[:700]), ("two", lines[700:])):
        Path(name).write_text("".join(f"{line}\n" for line in some), encoding="utf-8", errors="surrogateescape")
    Path("de").write_text("".join(line.split(" ||| ")[0] + "\n" for line in lines[:600]), encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("text", "--print-scores", "-o", "links"),
        ("one", "two", "--reverse-model", REVERSE, "--print-scores", "-o", "links"),
        ("de", "--translate", "--beam", 1, "-f", "jsonl", "-o", "links"),
    ],
)
def test_the_same_bytes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...]
) -> None:
    monkeypatch.setattr("align.cli.args.Search", partial(Search, max_len_b=5))
    lines = [f"{source} ||| {target}" if source else "" for source, target in sentences(1300, 6)]
    source_lines = [*lines]
    lines[600] = lines[1250] = " ".join(["das"] * 50) + " ||| the"
    lines[700], lines[1299] = "\udcff ||| the", "no second side"
    lines[500:560] = ["das ||| " + " ".join(["it"] * 30)] * 60
    put(lines if "de" not in arguments else source_lines)
    found = []
    for count in (1, 2):
        bad = ("--bad-lines", "blank", "--bad-lines-file", f"bad{count}")
        result = run(*arguments, *bad, "--workers", count)
        assert (result.code, result.out) == (0, b"")
        made = [path for path in tmp_path.rglob("*links*") if path.is_file()]
        files = {str(path): path.read_bytes() for path in made}
        counts, sign = result.err.splitlines()[-2:]
        choices = [line for line in result.err.splitlines() if "layer 1" in line or "layer 2" in line]
        found.append((files, Path(f"bad{count}").read_bytes(), choices, counts.rpartition(", ")[0], sign))
        for path in made:
            path.unlink()
    assert found[0] == found[1]
    assert sum(map(len, found[0][0].values())) > 1000


@pytest.mark.parametrize(
    ("options", "quota", "threads"),
    [((), 2, 2), ((), None, 3), ((), 8, 3), (("--threads", "4"), 2, 4), (("--threads", "1"), 2, 1)],
)
def test_a_quota_limits_threads_and_workers_unless_their_number_is_given(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], quota: int | None, threads: int
) -> None:
    torch.set_num_threads(3)
    monkeypatch.setattr(loading, "cpu_quota", lambda: quota)
    load = Mock(wraps=models_load.load)
    monkeypatch.setattr(models_load, "load", load)
    put(["das ||| the"])
    result = run("text", "--layer", 1, "--head", 1, *options)
    assert (result.code, load.call_args.kwargs["workers"]) == (0, threads)
    assert f" on cpu ({threads} thread" in result.err
