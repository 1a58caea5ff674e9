"""Divide the time per pair among the parts of alignment, and compare it with the time of their multiplications.

One process in one thread, from words to Pharaoh lines; layer and head are chosen before. Functions and methods of the
program are replaced by ones that are timed, and the time of a part is without that of the parts inside it. The clocks
themselves take time: the last rows are measured without them, the very last with one of the first pairs in each call.

The floor is the number of multiplications divided by this machine's rate in a large product of the same arithmetic.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from common import chosen, swapped, write_table
from programs import machine
from timing import read
from torch import Tensor

from align import Aligner, Pair, load, two_way
from align.core import aligner as core_aligner
from align.core import scores, stream
from align.core.formats import format_pharaoh
from align.core.types import Dtype
from align.evaluation.tables import Column, Value
from align.models.engine import forward, linear
from align.models.recorder import ModelRecorder, TransformerAttention

PRODUCTS, ATTENTION, LINES, REST = "products", "attention", "writing lines", "all else, mostly Python"
WHOLE, CLOCKLESS, SINGLE = "whole", "whole, without clocks", "one pair at a time, without clocks"

PARTS: dict[str, list[tuple[Any, str]]] = {
    "cutting words into pieces": [(ModelRecorder, "encode")],
    "batches and padding": [
        *((core_aligner, "cut"), (stream, "slices"), (scores, "collate"), (TransformerAttention, "padded")),
        *((forward.Layout, "pad"), (forward.Layout, "flatten")),
    ],
    "embedding": [(forward.Stack, "begin")],
    "layer norms": [(forward.Norm, "__call__")],
    PRODUCTS: [(linear.PlainLinear, "__call__")],
    "rows to eight bits and back, residuals": [(linear.PackedLinear, "__call__"), (linear.Int8Linear, "__call__")],
    ATTENTION: [
        *((forward.SelfAttention, "__call__"), (forward.CrossAttention, "weights")),
        (forward.CrossAttention, "context"),
    ],
    "layers, other": [(TransformerAttention, "record")],
    "scores of pieces": [(scores, "cell_scores")],
    "merging pieces into words": [(scores, "merge_sources"), (scores, "merge_targets")],
    "shares of words": [(scores, "sharpen")],
    "soft scores and links": [(scores, "soft_links"), (core_aligner, "soft_links")],
}
"""Functions and methods of each part."""

ROWS, WIDTH = 2_048, 1_024
"""Size of a large product."""

SINGLE_PAIRS = 300
"""Pairs that are aligned one at a time."""


class Watch:
    """Seconds of each part, without those of the parts inside it, and multiplications."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.multiplications: dict[str, float] = defaultdict(float)
        self._inside = [0.0]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside as this part's."""
        self._inside.append(0.0)
        start = time.perf_counter()
        yield
        spent = time.perf_counter() - start
        self.seconds[name] += spent - self._inside.pop()
        self._inside[-1] += spent

    def timed(
        self, name: str, function: Callable[..., Any], count: Callable[..., int] | None = None
    ) -> Callable[..., Any]:
        """Return a function whose time is counted, also each step of an iterator that it returns.

        Args:
            count: returns the multiplications of a call, of its arguments and its result.
        """

        def steps(iterator: Iterator[Any]) -> Iterator[Any]:
            while True:
                with self.part(name):
                    item = next(iterator, self)
                if item is self:
                    return
                yield item

        def wrapper(*args: Any, **named: Any) -> Any:
            with self.part(name):
                result = function(*args, **named)
            if count:
                self.multiplications[name] += count(args, result)
            return steps(result) if isinstance(result, Iterator) else result

        return wrapper


def of_self(args: tuple[Any, ...], result: Tensor) -> int:
    """Return the multiplications of self-attention: queries by keys, weights by values."""
    batch, length = args[2].size
    return int(2 * batch * length * length * result.shape[1])


def of_weights(args: tuple[Any, ...], result: tuple[Tensor, Tensor]) -> int:
    """Return the multiplications of queries by keys."""
    return result[0].numel() * result[1].shape[-1]


def of_context(args: tuple[Any, ...], result: Tensor) -> int:
    """Return the multiplications of weights by values."""
    return int(args[1].numel() * args[2].shape[-1])


def of_plain(args: tuple[Any, ...], result: Tensor) -> int:
    """Return the multiplications of a linear layer."""
    return int(args[1].numel() * result.shape[-1])


def of_product(args: tuple[Any, ...], result: Tensor) -> int:
    """Return the multiplications of one of torch's products."""
    return int(args[0].numel() * result.shape[-1])


COUNTS: dict[tuple[Any, str], Callable[..., int]] = {
    (forward.SelfAttention, "__call__"): of_self,
    (forward.CrossAttention, "weights"): of_weights,
    (forward.CrossAttention, "context"): of_context,
    (linear.PlainLinear, "__call__"): of_plain,
}
"""What returns the multiplications of a call, of its arguments and its result."""


@contextmanager
def timed_parts(watch: Watch) -> Iterator[None]:
    """Replace the functions of all parts, and torch's products, until the context ends."""
    pointwise, eight_bits = torch.ops.mkldnn._linear_pointwise, torch.ops.onednn.qlinear_pointwise
    mkldnn = watch.timed(PRODUCTS, pointwise, of_product)
    vars(mkldnn)["binary"] = watch.timed(PRODUCTS, pointwise.binary, of_product)
    onednn = SimpleNamespace(qlinear_pointwise=watch.timed(PRODUCTS, eight_bits, of_product))
    ops = SimpleNamespace(mkldnn=SimpleNamespace(_linear_pointwise=mkldnn), onednn=onednn)
    with ExitStack() as stack:
        for name, functions in PARTS.items():
            for owner, attribute in functions:
                replaced = watch.timed(name, getattr(owner, attribute), COUNTS.get((owner, attribute)))
                stack.enter_context(mock.patch.object(owner, attribute, replaced))
        stack.enter_context(mock.patch.object(linear, "_ops", return_value=ops))
        yield


def align_all(aligner: Aligner, pairs: list[Pair], watch: Watch | None = None) -> float:
    """Return the seconds from words to lines; with a watch, of each part too."""
    write = watch.timed(LINES, format_pharaoh) if watch else format_pharaoh
    start = time.perf_counter()
    with timed_parts(watch) if watch else ExitStack():
        for alignment in aligner(pairs):
            write(alignment, False)
    seconds = time.perf_counter() - start
    if watch:
        watch.seconds[REST] = seconds - sum(watch.seconds.values())
    return seconds


def product_rate(dtype: Dtype) -> float:
    """Return the multiplications a second of a large product, the best of several."""
    layer = linear.make_linear(torch.randn(WIDTH, WIDTH), None, "none", dtype)
    x = torch.randn(ROWS, WIDTH)
    watch = Watch()
    rates: list[float] = []
    with timed_parts(watch):
        for _ in range(20):
            before = watch.seconds[PRODUCTS]
            layer(x)
            rates.append(ROWS * WIDTH * WIDTH / (watch.seconds[PRODUCTS] - before))
    return max(rates)


def aligner_of(model: str, reverse_model: str | None, dtype: Dtype, pairs: list[Pair]) -> Aligner:
    """Return an aligner that reads its models where they would be read for these pairs."""
    ahead = load(model, device="cpu", dtype=dtype, too_long="blank")
    if not reverse_model:
        return ahead.reading_at([chosen(ahead, pairs)])
    back = load(reverse_model, device="cpu", dtype=dtype, too_long="blank")
    return two_way(ahead, back).reading_at([chosen(ahead, pairs), chosen(back, swapped(pairs))])


def run(
    source: str,
    target: str,
    model: str,
    reverse_model: str | None,
    dtypes: list[Dtype],
    lines: int,
    rounds: int,
    name: str,
    output: Path,
) -> None:
    """Measure, print, write."""
    torch.set_num_threads(1)
    pairs = read(source, target, lines)
    rows: dict[str, dict[str, Value]] = {
        part: {"part": part} for part in (*PARTS, LINES, REST, WHOLE, CLOCKLESS, SINGLE)
    }
    columns = [Column("part", "part")]
    about = []
    for dtype in dtypes:
        aligner = aligner_of(model, reverse_model, dtype, pairs)
        align_all(aligner, pairs[:500])
        watch = Watch()
        wholes = []
        for _ in range(rounds):
            wholes.append(align_all(aligner, pairs))
            align_all(aligner, pairs, round_watch := Watch())
            for part, seconds in round_watch.seconds.items():
                watch.seconds[part] += seconds / rounds
        watch.multiplications = round_watch.multiplications
        rate = product_rate(dtype)
        watch.seconds[WHOLE] = total = sum(watch.seconds.values())
        watch.seconds[CLOCKLESS] = min(wholes)
        few = pairs[:SINGLE_PAIRS]
        seconds_of_few = min(sum(align_all(aligner, [pair]) for pair in few) for _ in range(2))
        watch.seconds[SINGLE] = seconds_of_few * lines / len(few)
        watch.multiplications[WHOLE] = sum(watch.multiplications.values())
        about.append(f"{dtype}: {2 * rate / 1e9:.0f} GFLOP/s in a large product")
        for part, row in rows.items():
            seconds, floor = watch.seconds[part], watch.multiplications[part] / rate
            row[dtype] = f"{1e6 * seconds / lines:.1f}"
            row[f"{dtype}_share"] = f"{100 * seconds / total:.1f}"
            row[f"{dtype}_floor"] = f"{1e6 * floor / lines:.1f}" if floor else "n/a"
        heads = ((dtype, f"{dtype}, µs per pair"), (f"{dtype}_share", "%"), (f"{dtype}_floor", "floor, µs"))
        columns += [Column(key, head) for key, head in heads]
    models = " and ".join(direction.recorder.name for direction in aligner.directions)
    sign = f"python eval/run.py parts, {models}, {lines:,} pairs; {'; '.join(about)}; {machine(1)}"
    write_table(columns, list(rows.values()), sign, output / f"{name}.tsv")
