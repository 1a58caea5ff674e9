"""Buffers of sentence pairs, their pieces, and batches of similar length; memory does not grow with the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Literal, TypeVar

from align.core.errors import Argument, PairError, Remedy
from align.core.pieces import IdPair
from align.core.types import Pair, Pieces

if TYPE_CHECKING:
    from align.core.backend import Recorder

T = TypeVar("T")

BUFFER = 2000
"""Pairs to read ahead, to sort them by length."""

BUFFER_BYTES = 1 << 28
"""Limit of the bytes to read ahead, except for a single pair: a small compressed file may hold very long lines."""

BATCH_TOKENS = 1000
"""Pieces in a batch, padding included: few enough that intermediate results stay in a processor's cache."""

GPU_BATCH_TOKENS = 16_000
"""The same on a GPU; not measured."""

SPREAD = 1.2
"""Ratio of the longest to the shortest pair of a batch: attention to padding grows with the square of the length."""

SLICE_WORDS = 8000
"""Words of both sides in a slice of a buffer, which one process aligns at a time."""

SHARED_BUFFER = 500
"""Smallest buffer that is shared among processes; smaller buffers are for answers line by line."""

LONGEST_PIECE = 1000
"""Assumed limit of characters in a piece: longer text is rejected before segmentation, which takes up to 60 bytes of
memory per character.
"""

TooLong = Literal["stop", "blank"]

OnBatch = Callable[[int], None]
"""Receives the number of pairs that have passed through a model: a batch at a time, before their results come out."""

BLANK = Argument("too_long", "blank")
"""The argument that leaves lines that are too long without links."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Names of a model and its two sides in messages, as the user sees them."""

    model: str = "the model"
    source: str = "source"
    target: str = "target"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A pair and its pieces; None where there is nothing to align or too much, as `skipped` says."""

    pair: Pair
    pieces: Pieces | None
    skipped: Literal["", "too long"] = ""


def exceeds(words: Sequence[str], pieces: int) -> bool:
    """Tell whether words have more characters than this number of pieces can hold."""
    return sum(map(len, words)) > LONGEST_PIECE * pieces


def encode(recorder: Recorder, pair: Pair, too_long: TooLong = "stop", terms: Terms | None = None) -> Encoded:
    """Return a pair with its pieces, if it has any and does not exceed the model's positions.

    Args:
        too_long: "stop" raises for a pair that exceeds them, "blank" returns it without pieces.

    Raises:
        PairError: too many pieces, or ids outside the model's vocabulary.
    """
    if pair.blank:
        return Encoded(pair, None)
    limits = recorder.max_positions
    if isinstance(pair, IdPair) or not (exceeds(pair.source, limits[0]) or exceeds(pair.target, limits[1])):
        pieces = recorder.given(pair) if isinstance(pair, IdPair) else recorder.encode(pair)
        if not pieces.target or max(pieces.source_words) < 0:
            return Encoded(pair, None)
        unit, lengths = "pieces with </s>", (len(pieces.source), len(pieces.target) + 1)
        if lengths[0] <= limits[0] and lengths[1] <= limits[1]:
            return Encoded(pair, pieces)
    else:
        unit, lengths = "characters", (sum(map(len, pair.source)), sum(map(len, pair.target)))
        limits = LONGEST_PIECE * limits[0], LONGEST_PIECE * limits[1]
    if too_long == "blank":
        return Encoded(pair, None, "too long")
    terms = terms or Terms()
    side, length, limit = next(
        side for side in zip((terms.source, terms.target), lengths, limits, strict=True) if side[1] > side[2]
    )
    raise PairError(
        f"{side} has {length:,} {unit}, {terms.model} takes {limit:,}",
        line=pair.id,
        remedy=Remedy("shorten it, or leave such lines without links ({})", (BLANK,)),
    )


def cut(encoded: Sequence[Encoded], tokens: int) -> Iterator[tuple[list[int], list[Pieces]]]:
    """Yield the encoded pairs of a buffer in batches of similar length, without those that have no pieces.

    Args:
        tokens: pieces in a batch, padding included.

    Yields:
        Numbers of the pairs in the buffer, from 0, and their pieces.
    """
    numbers = [n for n, item in enumerate(encoded) if item.pieces]
    pieces = [item.pieces for item in encoded if item.pieces]
    for batch in batches([(len(item.source), len(item.target)) for item in pieces], tokens):
        yield [numbers[n] for n in batch], [pieces[n] for n in batch]


def tell(
    batches: Iterable[tuple[list[int], list[Pieces]]], on_batch: OnBatch | None
) -> Iterator[tuple[list[int], list[Pieces]]]:
    """Yield batches, and report the number of pairs of each once it is done."""
    for numbers, batch in batches:
        yield numbers, batch
        if on_batch:
            on_batch(len(numbers))


def chunks(items: Iterable[T], size: int, weigh: Callable[[T], int] | None = None) -> Iterator[list[T]]:
    """Cut a stream into lists. If reading raises an `Exception`, the items before it come out first.

    Args:
        size: items in a list; a list of more than BUFFER_BYTES ends earlier, the next one where it would have ended.
        weigh: returns the bytes of an item; None where all items are small.
    """
    chunk: list[T] = []
    weight = 0
    try:
        for number, item in enumerate(items, 1):
            chunk.append(item)
            weight += weigh(item) if weigh else 0
            if number % size == 0 or weight > BUFFER_BYTES:
                yield chunk
                chunk, weight = [], 0
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def slices(pairs: Sequence[Pair], words: int) -> list[list[int]]:
    """Cut a buffer into slices of similar length and cost, so that batches depend on the buffer alone.

    Args:
        words: approximate number of words of both sides in a slice.

    Returns:
        Numbers of the pairs, from 0, in ascending order within each slice; no slice is empty.
    """
    order = sorted(range(len(pairs)), key=lambda n: max(len(pairs[n].source), len(pairs[n].target)))
    ends = list(accumulate(len(pairs[n].source) + len(pairs[n].target) for n in order))
    count = max(1, round(ends[-1] / words)) if ends else 0
    parts: list[list[int]] = [[] for _ in range(count)]
    for n, end in zip(order, ends, strict=True):
        parts[max(0, end * count - 1) // max(1, ends[-1])].append(n)
    return [sorted(numbers) for numbers in parts if numbers]


def batches(lengths: Sequence[tuple[int, int]], tokens: int) -> Iterator[list[int]]:
    """Cut items into batches of similar length: sorted by the longer side, then by the other.

    Args:
        lengths: source and target length of each item, in pieces.
        tokens: limit of items times longest side. A longer item is a batch of its own.

    Yields:
        Positions in `lengths`; every position once.
    """
    sides = [(source, target) if source > target else (target, source) for source, target in lengths]
    batch: list[int] = []
    limit = 0
    for position in sorted(range(len(sides)), key=sides.__getitem__):
        longest = sides[position][0]
        if batch and (longest > limit or (len(batch) + 1) * longest > tokens):
            yield batch
            batch = []
        if not batch:
            limit = int(longest * SPREAD) + 2
        batch.append(position)
    if batch:
        yield batch


def of_one_length(lengths: Sequence[int], tokens: int, times: int = 1) -> Iterator[list[int]]:
    """Cut items into batches that need no padding at all.

    Args:
        tokens: the most that a batch may hold.
        times: how often each item counts, as in a beam search.

    Yields:
        Positions in `lengths`, of items of the same length; every position once, the shortest items first.
    """
    for length, group in groupby(sorted(range(len(lengths)), key=lengths.__getitem__), key=lengths.__getitem__):
        positions = list(group)
        for batch in batches([(length * times, 0)] * len(positions), tokens):
            yield [positions[n] for n in batch]
