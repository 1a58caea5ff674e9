"""Estimate the rows and the time of a job from a sample of its rows, without writing anything."""

from __future__ import annotations

import io
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapreplace
from itertools import accumulate, islice
from typing import Any, NamedTuple

from align.core.aligner import Aligner
from align.core.errors import DataError
from align.core.stream import SLICE_WORDS, cut, slices
from align.core.types import Pair
from align.io.compression import DAMAGED, OPENERS
from align.io.pool import Workers
from align.io.process import keep_freed_memory
from align.jobs.files import InputFile, cannot_read, open_file
from align.jobs.local import start_method
from align.jobs.readers import READERS, Columns, Rows, kind_of, open_rows, table_head
from align.jobs.sample import LONGEST

PLACES = 25
"""Places of the sample, at about equal distances in the bytes of all files."""

BLOCK = 1 << 16
"""Bytes that are read at each place of a large file."""

WHOLE = 1 << 22
"""Bytes of a file up to which all of it is read, and its rows are counted."""

UNPACKED = 1 << 24
"""Bytes that are read of a compressed file, from its start; its rows are counted if these are all."""

SKIPPED = 20_000
"""Maximum number of rows of a row group that are read to reach a place in it."""

TIMED = 200
"""Approximate number of rows that are aligned to measure the speed."""

LEAST_SECONDS, MOST_ROUNDS = 1.0, 10
"""Time for which each worker repeats the timed rows, and how often it does at most."""


class Sample(NamedTuple):
    """What a sample of a job shows.

    Attributes:
        rows: rows of each file that can be read, by its place.
        exact: whether all of them were counted.
        pairs: sampled rows from all over the files, blank and unreadable ones, which are blank, among them.
        errors: why a file that was tried cannot be read, by its place.
    """

    rows: Mapping[str, float]
    exact: bool
    pairs: Sequence[Pair]
    errors: Mapping[str, DataError]


class Speed(NamedTuple):
    """The speed of one of several workers at work at once.

    Attributes:
        rows_s: rows per second.
        timed: number of rows that were aligned to measure it.
    """

    rows_s: float
    timed: int


def look(files: Sequence[InputFile], columns: Columns, count: int) -> Sample:
    """Sample rows and estimate the number of rows.

    Rows of tables are in their metadata. Of other files up to `PLACES` are read, in part; the density of rows there
    gives the rows of others with the same endings, such as `.txt.gz`.

    Args:
        files: files of the job.
        columns: columns of source, target and id.
        count: number of rows to sample.
    """
    rows: dict[str, float] = {}
    errors: dict[str, DataError] = {}
    exact = True
    pairs: list[Pair] = []
    for file in files:
        if kind_of(file.name) == ".parquet":
            try:
                rows[file.place] = table_head(file, columns)[1]
            except DataError as error:
                errors[file.place] = error
    each = -(-count // PLACES)
    for file, shares in _places(files).items() if files else ():
        if file.place in errors:
            continue
        try:
            if kind_of(file.name) == ".parquet":
                pairs += {pair.id: pair for pair in _table_rows(file, columns, shares, each)}.values()
                continue
            lines, rows[file.place], counted = _lines(file, shares, each)
            exact = exact and counted
            pairs += _pairs(file, columns, b"".join(lines))
        except DataError as error:
            errors[file.place] = error
            rows.pop(file.place, None)
    known, size_known = defaultdict[str, float](float), defaultdict[str, int](int)  # by ending; "" for all
    for file in files:
        if file.place in rows:
            for ending in (_ending(file), ""):
                known[ending] += rows[file.place]
                size_known[ending] += file.size
    readable = [file for file in files if file.place not in errors]
    for file in readable:
        if file.place not in rows:
            exact = False
            ending = _ending(file) if size_known[_ending(file)] else ""
            rows[file.place] = file.size * known[ending] / max(1, size_known[ending])
    return Sample(rows, exact, [*islice(pairs, count)], errors)


def _ending(file: InputFile) -> str:
    """Return the type of a file and of its compression, by its name."""
    return kind_of(file.name) + next((end for end in OPENERS if file.name.endswith(end)), "")


def _places(files: Sequence[InputFile]) -> dict[InputFile, list[float]]:
    """Return files with the places to sample in each, as shares of its size; the same ones in every run."""
    draw = random.Random(0)
    ends = list(accumulate(file.size for file in files))
    places: dict[InputFile, list[float]] = {}
    n = 0
    for number in range(PLACES):
        position = (number + draw.random()) / PLACES * ends[-1]
        while ends[n] < position:
            n += 1
        places.setdefault(files[n], []).append(1 - (ends[n] - position) / max(1, files[n].size))
    return places


def _lines(file: InputFile, shares: Sequence[float], each: int) -> tuple[list[bytes], float, bool]:
    """Read lines at places of a file, none of them twice.

    Returns:
        The lines; the rows of the file; and whether all of these were counted.
    """
    opener = next((opener for end, opener in OPENERS.items() if file.name.endswith(end)), None)
    with open_file(file.place) as stream, cannot_read(file.place):
        if opener is None and file.size > WHOLE:
            blocks = [_block(stream, share, file.size) for share in shares]
            parts = [block.split(b"\n")[1:-1] for block in blocks]  # without lines that are cut
            density = _density([block[:BLOCK] for block in blocks], parts)
            return [line + b"\n" for part in parts for line in part[:each]], file.size * density, False
        most = UNPACKED if opener else WHOLE + 1
        try:
            data = (opener(stream) if opener else stream).read(most)
        except DAMAGED as error:
            raise DataError(f"cannot be read: {error}", file=file.place) from None
        lines, read = data.split(b"\n"), max(1, stream.tell())
    whole = len(data) < most
    if not whole or not lines[-1]:
        del lines[-1]
    firsts = [max(0, min(int(share * len(lines)), len(lines) - each)) for share in shares]
    numbers = sorted({n for first in firsts for n in range(first, min(first + each, len(lines)))})
    return [lines[n] + b"\n" for n in numbers], (len(lines) if whole else max(1, len(lines)) * file.size / read), whole


def _density(blocks: Sequence[bytes], parts: Sequence[Sequence[bytes]]) -> float:
    """Return lines per byte.

    Args:
        blocks: equally long parts of a file; lines that are cut count, since long ones are cut more often than others.
        parts: complete lines, for a file with hardly any in a block.
    """
    ends, size = sum(block.count(b"\n") for block in blocks), max(1, sum(map(len, blocks)))
    count, length = sum(map(len, parts)), sum(len(line) + 1 for part in parts for line in part)
    if ends < len(blocks) and count:
        return count / length
    return max(1, ends) / size


def _block(stream: Any, share: float, size: int) -> bytes:
    """Read at a place of a file; where lines are long, enough for a whole one, unless it is too long for a sample."""
    length, block = BLOCK, b""
    while length <= 2 * LONGEST and block.count(b"\n") < 2:
        block = stream.read_at(length, int(share * (size - length)))
        length *= 2
    return block


def _pairs(file: InputFile, columns: Columns, lines: bytes) -> list[Pair]:
    """Return the pairs of some lines of a file, blank ones for those that cannot be read."""
    plain = next((file.place.removesuffix(end) for end in OPENERS if file.place.endswith(end)), file.place)
    rows = Rows(InputFile(plain, len(lines), 0), columns._replace(id=None), True)
    return [pair for pair in READERS[kind_of(plain)](io.BytesIO(lines), rows) if pair.memory() < LONGEST]


def _table_rows(file: InputFile, columns: Columns, shares: Sequence[float], each: int) -> Iterator[Pair]:
    """Yield rows at places of a table."""
    for share in shares:
        with open_rows(file, columns._replace(id=None), True) as (rows, pairs):
            rows.start, rows.most_skipped = share, SKIPPED
            yield from (pair for pair in islice(pairs, each) if pair.memory() < LONGEST)


def measure(aligner: Aligner, pairs: Sequence[Pair], workers: int) -> Speed | None:
    """Measure the speed of aligning rows such as these, in as many workers at once as the job has.

    Each worker encodes the pairs, cuts them into the batches of a real run, and aligns every n-th of these, about
    `TIMED` rows in all; the time of the others follows from their pieces. Starting is not part of it.

    Args:
        aligner: reads at fixed layers and heads.
        pairs: a sample of rows.
        workers: number of processes.

    Returns:
        The mean of the workers; None if there are none, or none has anything to align.
    """
    if not pairs:
        return None
    tasks = {"time": partial(_time, aligner, pairs)}
    with Workers(workers, tasks, None, at_once=1, method=start_method(aligner)) as pool:
        pool.share(least=1)
        outcomes = [pool.finish(job) for job in [pool.submit("time") for _ in range(workers)]]
    seconds, timed = sum(seconds for seconds, _ in outcomes) / workers, outcomes[0][1]
    return Speed(len(pairs) / seconds, timed) if timed else None


def _time(aligner: Aligner, pairs: Sequence[Pair], on_batch: Callable[[Any], None]) -> list[Any]:
    """Return how many seconds all pairs take, and how many of them were aligned for that."""
    keep_freed_memory()
    steps, start = aligner.steps, time.perf_counter()
    encoded = [steps.encode(pair) for pair in pairs]
    encoding = time.perf_counter() - start
    batches = [
        [encoded[part[n]] for n in numbers]
        for first in range(0, len(pairs), steps.buffer)
        for part in slices(pairs[first : first + steps.buffer], SLICE_WORDS)
        for part in [[first + n for n in part]]
        for numbers, _ in cut([encoded[n][0] for n in part], aligner.batch_tokens)
    ]
    if not batches:
        return [encoding, 0]
    every = max(1, round(sum(map(len, batches)) / TIMED))
    timed = batches[min(every // 2, len(batches) - 1) :: every]
    choices = aligner.choices
    steps.align(timed[0], choices, None)  # the first is slower
    start, rounds = time.perf_counter(), 0
    while not rounds or (rounds < MOST_ROUNDS and time.perf_counter() < start + LEAST_SECONDS):
        for batch in timed:
            steps.align(batch, choices, None)
        rounds += 1
    aligning = (time.perf_counter() - start) / rounds
    return [encoding + aligning * _pieces(batches) / _pieces(timed), sum(map(len, timed))]


def _pieces(batches: Sequence[Sequence[Any]]) -> int:
    """Count pieces of both sides, as the first model reads them."""
    return sum(
        len(forward.pieces.source) + len(forward.pieces.target)
        for batch in batches
        for forward, *_ in batch
        if forward.pieces
    )


def most_rows(rows: Mapping[str, float], files: Sequence[InputFile], workers: int) -> float:
    """Return the rows of the worker that has most to do, where each takes the largest file that is left."""
    shares = [0.0] * workers
    for file in sorted(files, key=lambda file: -file.size):
        heapreplace(shares, shares[0] + rows[file.place])
    return max(shares)
