"""How much of what this processor can do does a whole pass reach? Its linear layers' work beside one product alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch
from common import chosen
from timing import Row, batches
from torch import Tensor

from align import Pair, load
from align.core.types import DTYPES, Pieces
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import find_model
from align.models.model_toml import ModelOptions

ROWS, WIDE, NARROW = 2000, 1024, 256
"""The product: a batch of so many pieces, from the bundled models' width to that of their feed-forward layers."""

CALLS = 30
"""Products that are timed at once."""

KEYS_AND_VALUES = ("encoder_attn.k_proj", "encoder_attn.v_proj")
UP_TO_QUERIES = ("self_attn.", "encoder_attn.q_proj")
"""Linear layers of a decoder layer, by fairseq's names: over the source, and the first ones over the target."""

Product = Callable[[], Tensor]


def float32_product(x: Tensor, weight: Tensor) -> Product:
    """By oneDNN, with packed weights."""
    packed, bias = torch.ops.mkldnn._reorder_linear_weight(weight, len(x)), torch.zeros(len(weight), dtype=x.dtype)
    return lambda: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def bfloat16_product(x: Tensor, weight: Tensor) -> Product:
    """The same in bfloat16."""
    return float32_product(x.bfloat16(), weight.bfloat16())


def int8_product(x: Tensor, weight: Tensor) -> Product:
    """The one that `Int8Linear` computes, of bytes that are ready: a scale for each row of the weights."""
    scales = weight.abs().amax(1) / 127
    rounded = (weight / scales[:, None]).round().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(rounded, list(x.shape))
    zeros = torch.zeros(len(weight), dtype=torch.int32)
    shifted = (x * (127 / x.abs().amax(1, keepdim=True))).round().add(128).to(torch.uint8)
    return lambda: torch.ops.onednn.qlinear_pointwise(
        shifted, 1.0, 128, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Product]] = {
    "float32": float32_product,
    "bfloat16": bfloat16_product,
    "int8": int8_product,
}


@torch.inference_mode()
def product_speed(dtype: str) -> float:
    """Floating-point operations (or their like) a second of the product `[2000, 256]` by `[256, 1024]`."""
    product = PRODUCTS[dtype](torch.randn(ROWS, NARROW), torch.randn(WIDE, NARROW))
    product()
    start = time.perf_counter()
    for _ in range(CALLS):
        product()
    return 2 * ROWS * NARROW * WIDE * CALLS / (time.perf_counter() - start)


def linear_work(shapes: Mapping[str, tuple[int, ...]], deepest: int) -> tuple[int, int]:
    """Operations of a model's linear layers, for each source piece and for each decoder step.

    A pass computes the whole encoder, and the decoder up to the keys, queries and values of the deepest layer's
    cross-attention.

    Args:
        shapes: of the weights, by fairseq's names.
        deepest: the last decoder layer that is read, from 1.
    """
    source = target = 0
    for name, shape in shapes.items():
        side, *rest = name.split(".")
        if rest[:1] != ["layers"] or rest[-1] != "weight" or len(shape) != 2:
            continue
        layer, part = int(rest[1]) + 1, ".".join(rest[2:-1])
        work = 2 * shape[0] * shape[1]
        if side == "encoder" or (part in KEYS_AND_VALUES and layer <= deepest):
            source += work
        elif layer < deepest or (layer == deepest and part.startswith(UP_TO_QUERIES)):
            target += work
    return source, target


def work_of(batches: list[list[Pieces]], shapes: Mapping[str, tuple[int, ...]], deepest: int) -> int:
    """Operations of the linear layers for all pairs, pads left out."""
    source, target = linear_work(shapes, deepest)
    return sum(source * len(p.source) + target * (len(p.target) + 1) for batch in batches for p in batch)


def peak_reached(model: str, pairs: list[Pair], rounds: int) -> list[Row]:
    """Part g: a pass with all that is read off it, in turn with the product, in every arithmetic that there is.

    The share is of the linear layers' operations in the time of the whole pass, which does more than these.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return []
    weights = load_checkpoint(find_model(model, ModelOptions()).checkpoint)["model"]
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    place = chosen(load(model, device="cpu"), pairs).place
    deepest = max(cell.layer for cell in place.cells().values())
    rows: list[Row] = []
    for dtype in DTYPES:
        aligner = load(model, device="cpu", dtype=dtype)
        data = batches(aligner, pairs)
        work = work_of(data, shapes, deepest)
        peaks, shares = [], []
        for number in range(rounds + 1):
            start = time.perf_counter()
            for batch in data if number else data[:20]:  # warm up
                aligner.forward.reader.scores(batch, place)
            seconds = time.perf_counter() - start
            if number:
                peaks.append(product_speed(dtype))
                shares.append(work / seconds / peaks[-1])
        rows.append(
            (
                "g",
                f"product of {ROWS}x{NARROW} by {NARROW}x{WIDE} by itself, {dtype}",
                statistics.median(peaks) / 1e9,
                "GFLOP/s",
            )
        )
        share = 100 * statistics.median(shares)
        what = f"of that reached by a whole pass to word scores, of which only linear layers are counted, {dtype}"
        rows.append(("g", what, share, "%"))
    return rows
