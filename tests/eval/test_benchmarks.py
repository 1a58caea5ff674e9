"""`eval/run.py benchmark` and its kin, and `quality`: what they measure adds up, and says how it was made."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align.core.types import DTYPES
from align.models.recorder import ModelRecorder
from tests import corpora
from tests.conftest import example_pairs
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

ARGUMENTS = ("--lines", 40, "--rounds", 1)


def text_of(data: Path) -> tuple[object, ...]:
    return "-s", data / "gold.de", "-t", data / "gold.en", "-m", data / "models" / "one"


def values(path: Path, command: str) -> tuple[str, dict[tuple[str, str], float]]:
    """The signature of a benchmark's table, which names its command, and its numbers."""
    sign, rows = read_table(path)
    assert sign.startswith(f"# python eval/run.py {command} ")
    assert sign.endswith("; medians")
    assert list(rows[0]) == ["part", "what", "value", "unit"]
    return sign, {(row["what"], row["unit"]): float(row["value"]) for row in rows}


def test_benchmark(data: Path, command: Callable[..., Result]) -> None:
    result = command(
        *("benchmark", *text_of(data), *ARGUMENTS, "--threads", 1),
        *("--naive-lines", 10, "--reverse-model", data / "models" / "back"),
    )
    assert result.code == 0, result.err
    sign, found = values(data / "results" / "benchmark.tsv", "benchmark")
    assert "-s gold.de -t gold.en --lines 40 --rounds 1; fairseq:de-en@" in sign
    assert sign[2:] in result.out
    stages = [value for (what, _), value in found.items() if what.startswith("share of wall time")]
    assert sum(stages) == pytest.approx(100, abs=0.1)
    assert len(stages) == 4
    assert all(value > 0 for value in found.values())
    assert len(found) == 5 + 5 + 2 + 2


def test_peaks_are_those_of_the_process_itself(door: Any) -> None:
    memory = importlib.import_module("benchmark_memory")
    grown = bytearray(200_000_000)  # this process is larger than what it measures
    small, large = (memory.peak_memory([sys.executable, "-c", f"bytearray({size})"]) for size in (0, 100_000_000))
    assert len(grown) / 1e6 > small
    assert small < 60
    assert large - small == pytest.approx(100e6 / 2**20, abs=5)


FAMILY = """
import os, sys, time
shared, own = (int(size) for size in sys.argv[1:])
kept = bytearray(shared)
if os.fork() and os.fork():
    os.wait(), os.wait()
else:
    kept = kept, bytearray(own)
    time.sleep(2)
"""
"""A process, and two children that have so many bytes together with it and so many of their own."""


def test_memory_of_several_processes_is_summed_and_shared_memory_counted_once(door: Any) -> None:
    memory = importlib.import_module("benchmark_memory")
    sizes = ((0, 0), (100 * 2**20, 0), (100 * 2**20, 50 * 2**20))
    small, shared, own = (memory.peak_of_all([sys.executable, "-IS", "-c", FAMILY, *map(str, size)]) for size in sizes)
    assert small < 60
    assert shared - small == pytest.approx(100, abs=5)
    assert own - shared == pytest.approx(2 * 50, abs=5)


def test_what_is_measured_must_not_fail(door: Any) -> None:
    memory = importlib.import_module("benchmark_memory")
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        memory.peak_of_all([sys.executable, "-c", "raise SystemExit(3)"])


def test_memory_benchmark(data: Path, command: Callable[..., Result]) -> None:
    result = command("benchmark-memory", *text_of(data), *ARGUMENTS, "--whole-lines")
    assert result.code == 0, result.err
    _, found = values(data / "results" / "benchmark_memory.tsv", "benchmark-memory")
    peaks = [value for (what, _), value in found.items() if " above " not in what]
    assert len(peaks) == 3
    assert all(100 < peak < 2000 for peak in peaks)
    base = found["word scores, all heads, attention weights", "MB"]
    naive = found["word scores, all heads, norms, naive vectors", "MB"]
    assert found["norms, naive vectors, above attention weights", "MB"] == pytest.approx(naive - base, abs=0.2)


def test_memory_of_a_whole_command(data: Path, door: Any) -> None:
    memory = importlib.import_module("benchmark_memory")
    peak = memory.whole(str(data / "models" / "one"), str(data / "gold.de"), str(data / "gold.en"), 20, [])
    assert 100 < peak < 2000  # torch itself has more than the one, and a toy less than the other


def test_an_unknown_method_is_named(data: Path, command: Callable[..., Result]) -> None:
    result = command("benchmark-memory", *text_of(data), "--only", "magic")
    assert (result.code, result.out) == (1, "")
    assert "one of weight, gram, naive; not 'magic'" in result.err


def test_quality(tmp_path: Path, command: Callable[..., Result], recorder: ModelRecorder) -> None:
    pairs = example_pairs()[:6]
    for side, sentences in (("de", [pair.source for pair in pairs]), ("en", [pair.target for pair in pairs])):
        (tmp_path / f"text.{side}").write_text(corpora.as_text(sentences), encoding="utf-8")
    result = command("quality", tmp_path / "text", "de-en", "--threads", 1)
    assert result.code == 0, result.err
    sign, (row,) = read_table(tmp_path / "results" / "quality.tsv")
    assert sign.startswith("# quality|text|beam:5|v:")
    assert sign[2:] in result.out
    assert row["model"] == "de-en"
    assert float(row["bleu"]) > 5
    pieces = sum(len(recorder.encode(pair).target) + 1 for pair in pairs)
    words = sum(len(pair.target) for pair in pairs)
    assert float(row["per_word"]) == pytest.approx(float(row["per_piece"]) * pieces / words, abs=0.01)


def test_narrower_arithmetic(data: Path, command: Callable[..., Result]) -> None:
    result = command(
        *("dtypes", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy", "--lines", "60")
    )
    assert result.code == 0, result.err
    rows = read_table(data / "results" / "toy.dtypes.tsv")[1]
    assert [(row["models"], row["products"]) for row in rows] == [
        (models, dtype) for dtype in DTYPES for models in ("one", "two")
    ]
    assert all(float(row["lines changed"]) == 0 for row in rows[:2])
