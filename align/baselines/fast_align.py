"""fast_align (Dyer et al. 2013): its program, or the library systran-align, which is built from its code.

The library trains the same model but returns only symmetrised links, with the diagonal's tension as it was before
training. The links of both directions with the trained tension are read from the tables that it writes:

little-endian int32 version, int32 number of words, the words, each terminated by a zero byte, and int32 number of rows,
which is not needed here. Then rows to the file's end: int32 origin, int32 number of cells, and a cell for each word
that may come from this origin: int32 word, float32 t(word | origin). Words count from 1; `<eps>` is the empty word,
the origin of words that have no counterpart.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from align.baselines.process import Files, Job, find_program, open_text, run_program
from align.io.process import python

VERSION = 2
EMPTY_WORD = b"<eps>"

P_EMPTY_WORD = 0.08
"""Share of the words that come from the empty word: the default of fast_align and of the library."""

UNSEEN = 1e-9  # t(word | origin) of a pair that is not in the table, as in fast_align
CELLS = 1 << 20  # cells that are processed at once, to bound the memory for very long sentences

Array = npt.NDArray[Any]

_TENSION = re.compile(r"final tension: (\S+)")
_LENGTH = re.compile(r"expected target length = source length \* (\S+)")

_SYSTRAN = """
import sys, systran_align
systran_align.generate_alignment_probabilities(
    *sys.argv[1:4], verbose=True, favor_diagonal=True, optimize_tension=True, variational_bayes=True,
    beam_threshold=float(sys.argv[4]))
"""


def find_fast_align() -> Callable[[Job], Files]:
    """Return the function that aligns with the program on PATH, or else with the library systran-align."""
    path = find_program("fast_align")
    if path:
        return partial(_by_program, path)
    if find_spec("systran_align"):
        return _by_library
    raise ModuleNotFoundError(
        "fast_align is not installed: pip install systran-align (Linux on x86-64, Python up to 3.11), "
        "or put fast_align on PATH"
    )


def _join(files: Files, path: Path) -> Path:
    """Write both sides to one file, as fast_align reads them."""
    with open_text(files[0]) as sources, open_text(files[1]) as targets, open_text(path, "w") as stream:
        for source, target in zip(sources, targets, strict=True):
            stream.write(f"{source.rstrip()} ||| {target}")
    return path


def _last(pattern: re.Pattern[str], log: str) -> str:
    numbers = pattern.findall(log)
    if not numbers:
        raise ValueError(f"fast_align did not write '{pattern.pattern.partition(' (')[0]}' to stderr")
    return str(numbers[-1])


def _by_program(path: str, job: Job) -> Files:
    """Align with the program; if the test text is separate, as its own `force_align.py` does."""
    text = _join(job.text, job.folder / "text")
    output = job.folder / "forward", job.folder / "reverse"
    for links, reverse in zip(output, ([], ["-r"]), strict=True):
        train: list[str | Path] = [path, "-i", text, "-d", "-o", "-v", *reverse]
        if job.test is None:
            run_program("fast_align", train, job, links)
            continue
        table, scored = job.folder / "table", job.folder / "scored"
        log = run_program("fast_align", [*train, "-p", table], job)
        model: list[str | Path] = ["-T", _last(_TENSION, log), "-m", _last(_LENGTH, log), "-f", table]
        test = _join(job.test, job.folder / "test")
        run_program("fast_align", [path, "-i", test, "-d", *model, *reverse], job, scored)
        with open_text(scored) as lines, open_text(links, "w") as stream:  # source ||| target ||| links ||| score
            stream.writelines(line.rpartition("|||")[0].rpartition("|||")[2].strip() + "\n" for line in lines)
    return output


def _by_library(job: Job) -> Files:
    """Train with the library in a separate process, and read the links from its tables."""
    text = _join(job.text, job.folder / "text")
    output = job.folder / "forward", job.folder / "reverse"
    tables = job.folder / "forward.table", job.folder / "reverse.table"
    # fast_align leaves unlikely pairs out of the table that it writes, but uses all of them for the text it trained on
    beam = "-inf" if job.test is None else "-4"
    log = run_program("systran-align", python(_SYSTRAN, text, *tables, beam), job)
    parts = log.split("conditional probabilities: ")  # printed at the end of each direction
    if len(parts) != 3:
        raise ValueError("systran-align does not print the tension of both directions as version 3.5.0 does")
    for reverse, part in enumerate(parts[:2]):
        # the best links of this direction
        table, tension = Table(tables[reverse]), float(_last(_TENSION, part))
        origin_file, file = (job.test or job.text)[:: -1 if reverse else 1]
        with open_text(origin_file) as origins, open_text(file) as words, open_text(output[reverse], "w") as out:
            for origin, sentence in zip(origins, words, strict=True):
                links = table.best(table.ids(origin), table.ids(sentence), tension)
                out.write(" ".join(f"{j}-{i}" if reverse else f"{i}-{j}" for i, j in links) + "\n")
    return output


class Table:
    """Translation probabilities of one direction, which the library wrote for a text of numbers."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        version, count = struct.unpack_from("<ii", raw) if len(raw) >= 8 else (0, 0)
        if version != VERSION:
            raise ValueError(
                f"systran-align wrote probabilities of format {version}, and this reads format {VERSION}: "
                "pip install systran-align==3.5.0"
            )
        *words, rest = raw[8:].split(b"\0", count)
        self._empty_word = words.index(EMPTY_WORD) + 1
        self._width = count + 1
        self._keys, self.values = _cells(np.frombuffer(rest, "<i4", offset=4), self._width)
        numbers = [int(word) if word.isdigit() else 0 for word in words]
        self._ids = np.zeros(max(numbers) + 2, np.int64)  # the last one is for unknown numbers
        self._ids[numbers] = np.arange(1, count + 1)

    def ids(self, line: str) -> Array:
        """Return the table's ids for a line of numbers `[words]`; 0 for unknown numbers."""
        numbers = np.array(line.split(" "), np.int64)
        ids: Array = self._ids[np.minimum(numbers, len(self._ids) - 1)]
        return ids

    def joint(self, origins: Array, words: Array, rows: Array, tension: float) -> Array:
        """Return p(word, origin) of a sentence pair (fast_align's `da.h` and `fast_align.cc`), `[R, I+1]`.

        These are for R of the words, `rows` being their indices, and the empty word first. `origins` `[I]`
        and `words` `[J]` are ids, `tension` is the trained concentration of the links around the diagonal.
        """
        keys = np.concatenate(([self._empty_word], origins)) * self._width + words[rows, None]  # [R, I+1]
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        lexical = np.where(self._keys[places] == keys, self.values[places].astype(np.float64), UNSEEN)
        prior = np.full(keys.shape, P_EMPTY_WORD)
        at = (rows[:, None] + 1) / len(words)  # [R, 1]
        prior[:, 1:] = np.exp(-np.abs(np.arange(1, len(origins) + 1) / len(origins) - at) * tension)
        prior[:, 1:] /= _partition(rows + 1, len(words), len(origins), tension)[:, None] / (1 - P_EMPTY_WORD)
        product: Array = lexical * prior
        return product

    def best(self, origins: Array, words: Array, tension: float) -> list[tuple[int, int]]:
        """Return the likeliest origin of each word, as (origin, word) from 0, without words from the empty word."""
        links = []
        step = max(1, CELLS // (len(origins) + 1))
        for start in range(0, len(words), step):
            rows = np.arange(start, min(start + step, len(words)))
            best = self.joint(origins, words, rows, tension).argmax(1)
            links += [(int(i) - 1, int(j)) for i, j in zip(best, rows, strict=True) if i]
        return links


def _cells(numbers: Array, width: int) -> tuple[Array, Array]:
    """Return all cells, origin times `width` plus word, in ascending order, and the probability of each.

    The first cell is that of no word, so that no table is empty.
    """
    keys, values, at = [np.array([-1])], [np.array([UNSEEN], "<f4")], 0
    while at < len(numbers):
        end = at + 2 + 2 * int(numbers[at + 1])
        row = numbers[at + 2 : end]
        order = row[::2].argsort()
        keys.append(row[::2][order] + int(numbers[at]) * np.int64(width))  # may exceed 32 bits
        values.append(row[1::2].view("<f4")[order])
        at = end
    return np.concatenate(keys), np.concatenate(values)


def _partition(positions: Array, length: int, origins: int, tension: float) -> Array:
    """Sum the decay with the distance from the diagonal over all origins, as two geometric series `[R]`."""
    below = np.floor(positions * origins / length)  # origins at or before the diagonal
    ratio = np.exp(-tension / origins)

    def series(first: Array, count: Array) -> Array:
        start = np.exp(-np.abs(first / origins - positions / length) * tension)
        total: Array = start * (1.0 - ratio**count) / (1.0 - ratio)
        return total

    return np.where(below > 0, series(below, below), 0.0) + series(below + 1, origins - below)
