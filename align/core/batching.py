"""Sentence pairs in buffers, as pieces of a model, in batches of like length; flat in memory however long the input."""

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
"""Pairs that are read ahead, to sort them by length."""

BUFFER_BYTES = 1 << 28
"""Bytes of pairs that are read ahead at most, but for a single pair: a small packed file may hold very long ones."""

BATCH_TOKENS = 1000
"""Pieces in a batch, pads included: few enough that what is computed of them stays in a processor's own cache."""

GPU_BATCH_TOKENS = 16_000
"""The same on a GPU, which needs more to be busy; not measured."""

SPREAD = 1.2
"""So many times longer, and a piece or two, is the longest pair of a batch at most: attention pays for pads squared."""

SLICE_WORDS = 8000
"""Words of both sides in a slice of a buffer, which goes through the model at one time and in one process."""

SHARED_BUFFER = 500
"""The least buffer that is shared among processes: smaller ones are for answers line by line."""

LONGEST_PIECE = 1000
"""Assumed maximum of characters in a piece: longer text is rejected before it is cut into pieces, which would take up
to 60 bytes of memory for each character."""

TooLong = Literal["stop", "blank"]

OnBatch = Callable[[int], None]
"""Is told how many pairs have gone through a model: a batch at a time, before their results come out."""

BLANK = Argument("too_long", "blank")
"""What lets lines pass that are too long."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What messages call a model and its two sides, in the words of whoever gave the text."""

    model: str = "the model"
    source: str = "source"
    target: str = "target"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A pair and its pieces: None where there is nothing to align, or too much, which `skipped` says."""

    pair: Pair
    pieces: Pieces | None
    skipped: Literal["", "too long"] = ""


def exceeds(words: Sequence[str], pieces: int) -> bool:
    """Tell whether words have more characters than this number of pieces can hold."""
    return sum(map(len, words)) > LONGEST_PIECE * pieces


def encode(recorder: Recorder, pair: Pair, too_long: TooLong = "stop", terms: Terms | None = None) -> Encoded:
    """A pair with its pieces, if it has any and the model takes so many.

    Args:
        recorder: the model.
        pair: in the user's own words.
        too_long: what to do with more pieces than the model takes: "stop" raises, "blank" leaves them out.
        terms: for messages.

    Raises:
        PairError: more pieces than the model takes, or ids that are not this model's.
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
    """What of a buffer can be aligned, in batches of like length.

    Args:
        encoded: the buffer.
        tokens: pieces in a batch, pads included.

    Yields:
        Numbers of the pairs in the buffer, from 0, and their pieces.
    """
    numbers = [n for n, one in enumerate(encoded) if one.pieces]
    pieces = [one.pieces for one in encoded if one.pieces]
    for batch in batches([(len(one.source), len(one.target)) for one in pieces], tokens):
        yield [numbers[n] for n in batch], [pieces[n] for n in batch]


def tell(
    batches: Iterable[tuple[list[int], list[Pieces]]], on_batch: OnBatch | None
) -> Iterator[tuple[list[int], list[Pieces]]]:
    """Pass batches on, and say after each of them how many pairs are done."""
    for numbers, batch in batches:
        yield numbers, batch
        if on_batch:
            on_batch(len(numbers))


def chunks(items: Iterable[T], size: int, weigh: Callable[[T], int] | None = None) -> Iterator[list[T]]:
    """Cut a stream into lists of `size`. Where reading raises any `Exception`, what came before comes out first.

    Args:
        items: of any number.
        size: of each list; one with more than BUFFER_BYTES ends earlier, and the next one where it would have ended.
        weigh: tells the bytes of an item; None where all are small.
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
    """Share a buffer out in slices of like length and like cost: what a batch holds then depends on the buffer alone.

    Args:
        pairs: the buffer.
        words: of both sides in each slice, about.

    Returns:
        Numbers of the pairs, from 0, in order in each slice, none of which is empty; every number once.
    """
    order = sorted(range(len(pairs)), key=lambda n: max(len(pairs[n].source), len(pairs[n].target)))
    ends = list(accumulate(len(pairs[n].source) + len(pairs[n].target) for n in order))
    count = max(1, round(ends[-1] / words)) if ends else 0
    found: list[list[int]] = [[] for _ in range(count)]
    for n, end in zip(order, ends, strict=True):
        found[max(0, end * count - 1) // max(1, ends[-1])].append(n)
    return [sorted(numbers) for numbers in found if numbers]


def batches(lengths: Sequence[tuple[int, int]], tokens: int) -> Iterator[list[int]]:
    """Cut items into batches of like length: by their longer side, and then by the other one.

    Args:
        lengths: source and target length of each item, in pieces.
        tokens: the most that a batch may hold, counted as its items times its longest side, pads included.

    Yields:
        Positions in `lengths`; every position once. An item longer than `tokens` is a batch of its own.
    """
    sides = [(source, target) if source > target else (target, source) for source, target in lengths]
    batch: list[int] = []
    most = 0
    for position in sorted(range(len(sides)), key=sides.__getitem__):
        longest = sides[position][0]
        if batch and (longest > most or (len(batch) + 1) * longest > tokens):
            yield batch
            batch = []
        if not batch:
            most = int(longest * SPREAD) + 2
        batch.append(position)
    if batch:
        yield batch


def of_one_length(lengths: Sequence[int], tokens: int, times: int = 1) -> Iterator[list[int]]:
    """Cut items into batches that need no padding at all.

    Args:
        lengths: of each item, in pieces.
        tokens: the most that a batch may hold.
        times: how often each item counts, as in a beam search.

    Yields:
        Positions in `lengths`, of items of the same length; every position once, the shortest items first.
    """
    for length, group in groupby(sorted(range(len(lengths)), key=lengths.__getitem__), key=lengths.__getitem__):
        positions = list(group)
        for batch in batches([(length * times, 0)] * len(positions), tokens):
            yield [positions[n] for n in batch]
