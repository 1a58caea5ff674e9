"""Choose where all files of a job are read, once, by sampling rows from all over them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice

from align.core.aligner import Aligner
from align.core.consistency import CHOOSING_PAIRS
from align.core.errors import DataError
from align.core.stream import BUFFER, chunks
from align.core.types import Choice, Pair, TextWarning
from align.jobs.files import InputFile
from align.jobs.readers import Columns, open_rows

FILES = 50
"""Maximum number of files to sample from."""

LONGEST = 1_000_000
"""Maximum number of bytes of a sampled row: reading its pieces takes many times as much memory."""


def sample(files: Sequence[InputFile], columns: Columns) -> Iterator[Pair]:
    """Yield the first rows of files from all over a job: 1,000 rows or fewer, of 50 files or fewer.

    The files are taken at equal distances, in the order of their places, and give the same number of rows each. Blank
    rows, very long ones, unreadable ones, and all after an unreadable part of a file are skipped.

    Args:
        files: all files of the job, in order.
        columns: columns of source and target.
    """
    count = min(FILES, len(files))
    for n in range(count):
        try:
            with open_rows(files[n * len(files) // count], columns._replace(id=None), True) as (_, pairs):
                readable = (
                    pair for pair in pairs if not pair.origin.error and not pair.blank and pair.memory() < LONGEST
                )
                yield from islice(readable, -(-CHOOSING_PAIRS // count))
        except DataError:  # reported when the file is aligned
            continue


def choose(aligner: Aligner, pairs: Iterator[Pair]) -> tuple[Choice, ...]:
    """Choose where the text of these pairs is read, in each direction.

    Args:
        aligner: an aligner of one model or two.
        pairs: pairs of the text.

    Warns:
        TextWarning: they do not look like the text that the model was trained on.
    """
    first = next(chunks(pairs, BUFFER, lambda pair: pair.memory()), [])
    chosen = aligner.choose([aligner.encode(pair) for pair in first])
    if not chosen:
        return aligner.fixed().choices
    foreign = aligner.check.add(first) if aligner.check else ""
    for doubt in (*chosen.doubts, *filter(None, [foreign])):
        warnings.warn(doubt, TextWarning, stacklevel=2)
    return chosen.choices
