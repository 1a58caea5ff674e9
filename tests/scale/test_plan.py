"""`extract-align jobs --plan`: rows and batches are those of the job, and nothing is written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from align.core.stream import Chosen, Encoded, Pool, Steps, align_stream, cut
from align.core.types import Pair, Pieces
from align.jobs import plan
from align.jobs.files import InputFile, find
from align.jobs.readers import Columns
from tests.cli.conftest import Result
from tests.scale.jobs import lines, sentences


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def planned(result: Result) -> dict[str, str]:
    return {line[:8].strip(): line[8:] for line in result.out.decode().splitlines()}


def test_a_plan_says_what_is_left_and_writes_nothing(run: Callable[..., Result], tmp_path: Path) -> None:
    for n in range(3):
        Path(f"in/{n}.tsv").write_bytes(lines(sentences(20, n)))
    Path("in/3.txt.gz").write_bytes(gzip.compress(lines(sentences(5, 3))))
    job = ("jobs", "in/*", "--output", "out", "--workers", "2")
    before = everything(tmp_path)
    result = run(*job, "--plan")
    assert (result.code, everything(tmp_path)) == (0, before), result.err
    size = sum(path.stat().st_size for path in Path("in").iterdir())
    found = planned(result)
    assert [found[name] for name in ("files", "to do", "output")] == [
        "4, of which 0 finished",
        f"4 files, {size:,} bytes, 65 rows",
        "out",
    ]
    assert "rows/s by 2 workers, from " in found["speed"]
    assert " hours (" in found["time"]
    assert run(*job).code == 0
    Path("out/1.tsv").unlink()
    Path("out/2.tsv").write_bytes(b"0-0\n")
    before = everything(tmp_path)
    result = run(*job, "--plan")
    assert (result.code, everything(tmp_path)) == (1, before)
    assert planned(result)["files"] == "4, of which 2 finished"
    assert planned(result)["to do"].startswith("1 file, ")
    assert "out/2.tsv: has been changed since it was made" in result.err
    result = run(*job, "--plan", "--null", "mask")
    assert (result.code, result.out, "out: its files are of another run" in result.err) == (1, b"", True)


def test_without_rows_there_is_no_time(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(b"\n \t \n")
    Path("in/b.parquet").write_bytes(b"no table")
    result = run("jobs", "in/a.tsv", "--output", "out", "--plan")
    assert (result.code, [*planned(result)]) == (0, ["files", "to do", "output"])
    columns = ("--source-column", "de", "--target-column", "en")
    result = run("jobs", "in/b.parquet", *columns, "--output", "out", "--plan")
    assert (result.code, planned(result)["to do"]) == (1, "0 files, 0 bytes, 0 rows")
    assert "in/b.parquet: no Parquet file" in result.err


def test_files_that_cannot_be_read_are_named(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(lines(sentences(5, 1)))
    Path("in/b.tsv.gz").write_bytes(gzip.compress(lines(sentences(50, 2)))[:-20])
    result = run("jobs", "in/*", "--output", "out", "--plan")
    size = Path("in/a.tsv").stat().st_size
    assert (result.code, planned(result)["to do"]) == (1, f"1 file, {size} bytes, 5 rows")
    assert planned(result)["files"] == "2, of which 0 finished"
    assert "in/b.tsv.gz: cannot be read: " in result.err
    assert "1 of 2 files not done: b.tsv.gz" in result.err


def test_the_workers_of_a_cluster_are_asked_for(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(lines(sentences(5, 1)))
    result = run("jobs", "in/a.tsv", "--output", "out", "--plan", "--engine", "ray")
    assert (result.code, "--plan with --engine ray needs --workers" in result.err) == (2, True)
    assert run("jobs", "in/a.tsv", "--output", "out", "--plan", "--engine", "ray", "--workers", "1").code == 0


NUMBERED = [(f"de {n}" + " x" * (n % 7), f"en {n}") for n in range(30_000)]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.jsonl", "a.parquet"])
def test_rows_are_sampled_from_all_over_and_estimated(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "WHOLE", 100_000)
    monkeypatch.setattr(plan, "UNPACKED", 300_000)
    monkeypatch.setattr(plan, "BLOCK", 4_000)
    path, columns = tmp_path / name, Columns("de", "en")
    match name:
        case "a.parquet":
            table = pa.table({"de": [de for de, _ in NUMBERED], "en": [en for _, en in NUMBERED]})
            pq.write_table(table, path, row_group_size=9_000)
        case "a.jsonl":
            path.write_text("".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in NUMBERED))
        case _:
            columns = Columns()
            path.write_bytes((gzip.compress if name.endswith(".gz") else bytes)(lines(NUMBERED)))
    seen = plan.look(find([str(path)]), columns, 500)
    assert seen.rows[str(path)] == pytest.approx(30_000, rel={"a.parquet": 0, "a.tsv.gz": 0.15}.get(name, 0.05))
    assert seen.exact == (name == "a.parquet")
    assert len(seen.pairs) == 500
    if name != "a.tsv.gz":  # of which only the first part is read
        assert {int(pair.source[1]) // 3_000 for pair in seen.pairs} == {*range(10)}
    if name == "a.parquet":
        monkeypatch.setattr(plan, "SKIPPED", 1_000)  # of row groups of 9,000
        assert len({pair.id for pair in plan.look(find([str(path)]), columns, 100).pairs}) == 100


def test_files_that_are_not_sampled_have_the_density_of_the_others(tmp_path: Path) -> None:
    for n in range(100):
        (tmp_path / f"{n}.tsv").write_bytes(b"a\tb\n" * 10)
    seen = plan.look(find([f"{tmp_path}/*"]), Columns(), 50)
    assert (sum(seen.rows.values()), seen.exact, len(seen.pairs)) == (1_000, False, 50)


def test_files_have_the_density_of_those_with_the_same_ending(tmp_path: Path) -> None:
    for n in range(40):
        text = f"a{n:0100}\tb\n".encode() * 1_000
        (tmp_path / f"a{n}.tsv").write_bytes(text[:-10_000])
        (tmp_path / f"b{n}.tsv.gz").write_bytes(gzip.compress(text) + gzip.compress(b"") * 2_000)
    seen = plan.look(find([f"{tmp_path}/*"]), Columns(), 50)
    assert sum(count for place, count in seen.rows.items() if place.endswith(".gz")) == pytest.approx(40_000, rel=0.01)


def test_rows_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "WHOLE", 100_000)
    monkeypatch.setattr(plan, "BLOCK", 4_000)
    monkeypatch.setattr(plan, "UNPACKED", 5_000)
    (tmp_path / "a.tsv").write_bytes((b"a " * 10_000 + b"\tb\n") * 50)
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"a " * 10_000 + b"\tb\n"))
    seen = plan.look(find([f"{tmp_path}/a.tsv"]), Columns(), 50)
    assert seen.rows[f"{tmp_path}/a.tsv"] == pytest.approx(50, rel=0.1)
    assert {len(pair.source) for pair in seen.pairs} == {10_000}
    assert plan.look(find([f"{tmp_path}/b.tsv.gz"]), Columns(), 50).rows[f"{tmp_path}/b.tsv.gz"] >= 1
    monkeypatch.setattr(plan, "LONGEST", 5_000)
    assert plan.look(find([f"{tmp_path}/a.tsv"]), Columns(), 50).rows[f"{tmp_path}/a.tsv"] >= 1


def test_timed_batches_are_some_of_a_real_run_and_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a piece takes a second, all pieces take as many seconds as there are."""
    pairs = [Pair(("a",) * (n % 40), ("b",) * (n % 40), n) for n in range(2_000)]
    clock = [0.0]
    batches_of_run: list[list[int]] = []
    timed_batches: list[list[int]] = []

    def encode(pair: Pair) -> tuple[Encoded]:
        ids = range(len(pair.source))
        return (Encoded(pair, Pieces(ids, ids, ids, ids, (len(ids), len(ids))) if ids else None),)

    def align_slice(items: Sequence[tuple[Encoded]], *_: object) -> list[Any]:
        encoded = [forward for (forward,) in items]
        batches_of_run.extend([encoded[n].pair.id for n in numbers] for numbers, _ in cut(encoded, 1_000))
        return [({}, "", None)] * len(items)

    def align_timed(items: Sequence[tuple[Encoded]], *_: object) -> list[Any]:
        timed_batches.append([forward.pair.id for (forward,) in items])
        clock[0] += sum(2 * len(forward.pair.source) for (forward,) in items)
        return []

    steps = Steps(encode, lambda _: Chosen((), []), align_slice, 2_000, Pool)
    assert len([*align_stream(steps, pairs, None, None)]) == 2_000
    aligner: Any = SimpleNamespace(steps=steps._replace(align=align_timed), batch_tokens=1_000, choices=())
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    seconds, timed = plan._time(aligner, pairs, lambda _: None)
    assert seconds == pytest.approx(sum(2 * len(pair.source) for pair in pairs))
    assert 60 < timed < 400
    assert all(batch in batches_of_run for batch in timed_batches)


def test_time_is_that_of_the_worker_with_most_to_do() -> None:
    rows = {"a": 50.0, "b": 30.0, "c": 30.0, "d": 10.0}
    files = [InputFile(name, int(count), 0) for name, count in rows.items()]
    assert [plan.most_rows(rows, files, workers) for workers in (1, 2, 3)] == [120, 60, 50]


def test_rows_of_a_large_file_are_estimated_by_all_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    rows = [f"das haus {'sehr ' * (8_000 if n % 20 == 0 else 10)}alt ||| the house is old\n" for n in range(4_000)]
    path.write_text("".join(rows))
    (file,) = find([str(path)])
    seen = plan.look([file], Columns(None, None, None), 200)
    assert not seen.exact
    assert 0.5 < sum(seen.rows.values()) / len(rows) < 2


def test_a_file_without_the_columns_is_an_error_of_the_plan_too(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "in/a.jsonl").write_text('{"a": "x", "b": "y"}\n' * 9)
    (tmp_path / "in/b.jsonl").write_text('{"s": "das haus", "t": "the house"}\n' * 9)
    columns = ("--source-column", "s", "--target-column", "t")
    result = run("jobs", "in/*.jsonl", *columns, "--output", "out", "--plan")
    assert (result.code, planned(result)["to do"]) == (1, "1 file, 324 bytes, 9 rows")
    assert "in/a.jsonl: no row has both fields" in result.err
