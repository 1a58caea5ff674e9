"""Selects the heads that a translation model needs least, and reports size and loss without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from align.analysis.ablation.question import Ablation, by_layer, pruning_order
from align.analysis.models.heads import AttentionHead, all_heads
from align.core.errors import DataError
from align.models.engine.weights import stored_numbers
from align.models.fairseq.checkpoint import load_checkpoint
from align.view.findings import Finding, make_table

Order = Literal["importance", "effect"]
"""By the gradient of each head's gate, or by the loss with only that head masked."""


class Size(NamedTuple):
    """Size and quality of a model: number of heads, of stored weights, and loss in nats per piece."""

    heads: int
    weights: int
    loss: float


def least_needed(ablation: Ablation, number: int, order: Order) -> list[AttentionHead]:
    """Return the heads to prune, the least important first; one head per layer is never among them.

    Raises:
        DataError: the model cannot spare that number of heads.
    """
    spare = len(all_heads(ablation.blocks)) - len(ablation.blocks)
    if number > spare:
        raise DataError(f"{number:,} heads cannot go: the model can spare {spare:,}, for each layer keeps one")
    if order == "importance":
        return pruning_order(ablation.blocks, by_layer(ablation.blocks, ablation.importance()))[:number]
    effects = [ablation.measure([head], complete=False).losses.sum() for head in all_heads(ablation.blocks)]
    return pruning_order(ablation.blocks, effects)[:number]


def size_of(ablation: Ablation, checkpoint: Path, pruned: Sequence[AttentionHead] = ()) -> Size:
    """Return the size of a fairseq model in a checkpoint, and the loss of the whole model without its pruned heads."""
    losses = ablation.measure(pruned, complete=False).losses
    weights = stored_numbers(load_checkpoint(checkpoint)["model"])
    heads = len(all_heads(ablation.blocks)) - len(pruned)
    return Size(heads, weights, float(losses.sum() / ablation.pieces.sum()))


def pruning(heads: Sequence[AttentionHead], sizes: Mapping[str, Size]) -> Finding:
    """Report the pruned heads, the first to be pruned first, and size and loss of the models by their names."""
    models = make_table(
        "model | heads | weights | loss .3",
        [[name, *size] for name, size in sizes.items()],
        "weights: numbers in the checkpoint; loss: nats per piece of the target, </s> among them",
    )
    pruned = [[n, *head] for n, head in enumerate(heads, 1)]
    return Finding(
        {"models": models, "pruned": make_table("number | part | layer | head", pruned, "the least needed first")}
    )
