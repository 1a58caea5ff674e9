"""`eval/run.py benchmark --against` and `benchmark-peers`: whole programs, in turn."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import ROOT
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def programs(door: Any) -> Any:
    return importlib.import_module("programs")


def files(data: Path) -> tuple[object, ...]:
    return "-s", data / "gold.de", "-t", data / "gold.en"


def models(data: Path) -> tuple[object, ...]:
    return "-m", data / "models" / "one", "--reverse-model", data / "models" / "back"


def test_a_process_is_timed_to_its_first_line_and_to_its_end(programs: Any) -> None:
    script = "import time; print('links', flush=True); time.sleep(0.3); sum(range(3_000_000)); print('more')"
    found = programs.run_python(["-c", script])
    assert 0 < found.first < found.seconds - 0.3
    assert found.cpu > 0.01


def test_a_process_that_fails_says_why(programs: Any) -> None:
    with pytest.raises(ChildProcessError, match="exit code 1: ValueError: no"):
        programs.run_python(["-c", "raise ValueError('no')"])


def test_openmp_is_left_to_the_program(programs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    script = f"import os; open({str(tmp_path / 'out')!r}, 'w').write(os.environ.get('OMP_WAIT_POLICY', 'unset'))"
    programs.run_python(["-c", script])
    assert (tmp_path / "out").read_text() == "unset"


def test_another_commit_runs_by_its_own_modules(programs: Any, tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    script = f"import align; open({str(tmp_path / 'out')!r}, 'w').write(align.__file__)"
    with programs.checkout("HEAD") as tree:
        programs.run_python(["-c", script], tree)
        assert (tmp_path / "out").read_text() == str(tree / "align" / "__init__.py")
        assert programs.revision(tree) == programs.git("rev-parse", "--short", "HEAD")
    assert not tree.exists()
    assert str(tree) not in programs.git("worktree", "list")
    with pytest.raises(ValueError, match=r"git worktree: .*no-such-commit"), programs.checkout("no-such-commit"):
        pass


def test_against(
    data: Path, command: Callable[..., Result], programs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    against = importlib.import_module("benchmark_against")
    calls: list[list[str]] = []

    def run_program(name: str, *options: object, tree: Path) -> Any:
        """Half as long for this tree; other links in int8, for the last line."""
        calls.append([name, *map(str, options)])
        new = tree == ROOT
        if "-o" in calls[-1]:
            last = "1-1" if "int8" in options else "0-0"
            Path(calls[-1][calls[-1].index("-o") + 1]).write_text("0-0\n" * 19 + f"{last}\n")
        return programs.Timed(1.0 if new else 2.0, 6.0 if new else 12.0, 0)

    @contextmanager
    def checkout(commit: str) -> Iterator[Path]:
        yield tmp_path

    monkeypatch.setattr(against, "run_program", run_program)
    monkeypatch.setattr(against, "checkout", checkout)
    monkeypatch.setattr(against, "revision", lambda tree=ROOT: "new" if tree == ROOT else "old")
    size = ("--lines", 20, "--rounds", 2, "--threads", 1)
    dtypes = ("--dtypes", "float32", "int8")
    result = command("benchmark", "--against", "abc", *files(data), *models(data), *size, *dtypes)
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "benchmark_against.tsv")
    assert sign.startswith("# python eval/run.py benchmark --against abc -s gold.de -t gold.en --dtypes float32 int8 ")
    assert [(row["revision"], row["dtype"], row["other"]) for row in rows] == 2 * [
        ("old", "float32", "0"),
        ("new", "float32", "0"),
        ("new", "int8", "1"),
    ]
    assert [row["directions"] for row in rows] == ["one direction"] * 3 + ["both directions"] * 3
    for row in rows:
        expected = {"old": ("2", "12", "1", "1 to 1"), "new": ("4", "6", "2", "2 to 2")}[row["revision"]]
        found = tuple(row[key].removesuffix(".0") for key in ("rate", "seconds", "rate_ratio"))
        assert (*found, row["rate_spread"].replace(".0", "")) == expected
    assert len(calls) == 2 * 6 * 2
    assert all("--layer" in call and "," in call[call.index("--layer") + 1] for call in calls)
    assert sum("--reverse-layer" in call for call in calls) == len(calls) // 2


def test_both_programs_take_the_options(data: Path, programs: Any, tmp_path: Path) -> None:
    against = importlib.import_module("benchmark_against")
    texts = [programs.first_lines(str(data / "gold.de"), str(data / "gold.en"), n, tmp_path) for n in (5, 1)]
    names = str(data / "models" / "one"), str(data / "models" / "back")
    places, _ = against.where_to_read(str(data / "gold.de"), str(data / "gold.en"), names, 5)
    bench = against.Bench(texts, 5, names, places, 1, tmp_path)
    found = bench.measure(against.Way(against.BOTH, ROOT, "float32"))
    assert len(found.links) == 5
    assert found.start_up > 0


def test_peers(data: Path, command: Callable[..., Result], programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("eflomal")
    peers, encoder = importlib.import_module("benchmark_peers"), importlib.import_module("encoder")
    tiny = partial(encoder.forward_seconds, shape=encoder.Shape(50, 16, 2, 32))
    monkeypatch.setattr(peers, "forward_seconds", tiny)
    monkeypatch.setattr(peers, "revision", lambda: "abc")
    common = ("benchmark-peers", *files(data), *models(data), "--threads", 1, "--sample", 7)
    result = command(*common, "--systems", "eflomal", "encoder-8", "--pairs", 20, "--rounds", 1)
    assert result.code == 0, result.err
    path = data / "results" / "benchmark_peers.tsv"
    sign, rows = read_table(path)
    assert sign.startswith("# python eval/run.py benchmark-peers -s gold.de -t gold.en; Python ")
    assert [(row["system"], row["pairs"]) for row in rows] == [("eflomal", "20"), ("encoder-8", "7")]
    first = rows[0]["runs"]
    assert rows[0]["seconds"] == first
    assert float(rows[0]["rate"]) == pytest.approx(20 / float(first), rel=0.01)
    more = ("--systems", "eflomal", "one-float32", "--pairs", 20, "--resume", "--rounds", 2)
    result = command(*common, *more)
    assert result.code == 0, result.err
    _, rows = read_table(path)
    assert [(row["system"], len(row["runs"].split())) for row in rows] == [
        *(("eflomal", 2), ("one-float32", 2), ("encoder-8", 1))
    ]
    assert rows[0]["runs"].split()[0] == first
    assert path.with_suffix(".png").stat().st_size > 1000
    again = command(*common, *more)
    assert (again.code, again.err) == (0, "")  # nothing is left to do
    result = command(*common, *more, "-s", data / "gold.en")
    assert (result.code, result.out) == (1, "")
    assert "benchmark_peers.tsv was measured otherwise" in result.err
    result = command(*common, "--systems", "magic")
    assert "not 'magic'" in result.err


def test_peers_begin_anew_with_another_version(door: Any) -> None:
    peers = importlib.import_module("benchmark_peers")
    rows: dict[Any, Any] = {}
    system = peers.System("ours", str, print)
    for version, seconds in (("1", 3.0), ("1", 5.0), ("2", 8.0)):
        peers.add(rows, "one", system, 16, version, peers.Timed(seconds, seconds, seconds))
        assert peers.runs_of(rows, ("one", 16), version)[-1] == f"{seconds:g}"
        if version == "1":
            assert not peers.runs_of(rows, ("one", 16), "2")
    assert rows["one", 16]["runs"] == "8"
    assert rows["one", 16]["rate"] == "2"


def test_batches_of_the_encoder(door: Any) -> None:
    encoder = importlib.import_module("encoder")
    assert encoder.lengths([("don't", "go", "."), ()]) == [2 + 5, 2]
    sizes = [7, 500, 30, 900, 400, 12] * 9
    batches = encoder.batch_lengths(sizes)
    assert sorted(size for batch in batches for size in batch) == sorted(sizes)
    assert all(len(batch) * max(batch) <= 2000 for batch in batches)


def test_pads_change_nothing(door: Any) -> None:
    encoder = importlib.import_module("encoder")
    model = encoder.Encoder(encoder.Shape(50, 16, 2, 32), 2)
    pieces = torch.randint(50, (2, 5))
    pads = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.inference_mode():
        found, alone = model(pieces, pads), model(pieces[1:, :3], pads[1:, :3])
    torch.testing.assert_close(found[1, :3], alone[0], rtol=1e-4, atol=1e-5)
