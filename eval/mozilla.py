"""The alignment step of mozilla/translations with eflomal and with translation models: eval/results/mozilla.tsv.

    .venv/bin/python eval/run.py mozilla --checkout DIR --bin DIR -s SOURCE -t TARGET [--tokenization icu]

Its align.py runs as it is, from compressed text to links, with all of its defaults: priors are calculated on a sample,
which is the whole of a small text, so each text is aligned twice. A system is `eflomal`, or one or two models with a
comma between them, with which examples/pipelines/mozilla.py runs. Systems run one after the other; memory is the
greatest sum of what their processes use at once.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from align._version import __version__
from align.baselines.tools import describe_tool
from align.evaluation.tables import Column, Value
from align.io.compression import import_zstd
from eval.common import write_table
from eval.programs import ROOT, first_lines, machine

COLUMNS = [
    Column("system", "system"),
    Column("version", "version"),
    Column("pairs", "pairs"),
    Column("seconds", "s"),
    Column("cpu", "CPU s"),
    Column("memory", "MB"),
    Column("links", "links per pair"),
]

ITSELF = """
import os, runpy, sys
cores = os.cpu_count()
os.cpu_count = lambda: max(4, cores)
sys.path.insert(0, os.environ["MOZILLA_TRANSLATIONS"])
runpy.run_path(f"{sys.path[0]}/pipeline/alignments/align.py", run_name="__main__")
"""
"""What the recipe does, without other models."""


def memory_of(process: psutil.Process) -> int:
    """Return the bytes that a process and its descendants use, shared ones counted once."""
    used = 0
    with suppress(psutil.NoSuchProcess):
        for part in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += part.memory_full_info().pss
    return used


def run(
    checkout: Path,
    bin: Path,
    source: str,
    target: str,
    lines: int,
    systems: list[str],
    tokenization: str,
    threads: int,
    output: Path,
) -> None:
    """Run each system on the first lines of the text, print and write a row for each."""
    rows: list[dict[str, Value]] = []
    text = f"-s {Path(source).name} -t {Path(target).name} --systems {' '.join(systems)} --tokenization {tokenization}"
    commit = subprocess.check_output(["git", "-C", checkout, "rev-parse", "--short=8", "HEAD"], text=True).strip()
    sign = f"python eval/run.py mozilla {text}; mozilla/translations {commit}; {machine(threads)}"
    for system in systems:
        program = ["-c", ITSELF] if system == "eflomal" else [str(ROOT / "examples/pipelines/mozilla.py")]
        with tempfile.TemporaryDirectory(prefix="align-") as folder:
            files = first_lines(source, target, lines, Path(folder))
            for path, language in zip(files, ("de", "en"), strict=True):
                Path(folder, f"corpus.{language}.zst").write_bytes(import_zstd().compress(Path(path).read_bytes()))
            corpus = [f"--corpus_{side}=corpus.{name}.zst" for side, name in (("src", "de"), ("trg", "en"))]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
                "MOZILLA_TRANSLATIONS": str(checkout.resolve()),
                "OMP_NUM_THREADS": str(threads),
                **{"BIN": str(bin.resolve()), "SRC": "de", "TRG": "en", "MODELS": system.replace(",", " ")},
            }
            command = [sys.executable, *program, *corpus, "--output_path=out/aln", "--tokenization", tokenization]
            before, start, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
            with open(Path(folder, "log"), "wb") as log:
                process = psutil.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
                while process.poll() is None:
                    peak = max(peak, memory_of(process))
                    time.sleep(0.5)
            if process.returncode:
                raise ChildProcessError(f"{system}: {Path(folder, 'log').read_text().strip().rpartition(chr(10))[2]}")
            seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            links = Path(folder, "out/aln").read_text().split("\n")[:-1]
            rows.append(
                {
                    "system": system,
                    "version": describe_tool("eflomal") if system == "eflomal" else __version__,
                    "pairs": len(links),
                    "seconds": round(seconds),
                    "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
                    "memory": round(peak / 1e6),
                    "links": round(sum(len(line.split()) for line in links) / max(1, len(links)), 1),
                }
            )
            write_table(COLUMNS, rows, sign, output / "mozilla.tsv")
