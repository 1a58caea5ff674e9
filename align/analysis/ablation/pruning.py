"""Which heads a translation model needs least, and what is left of it without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from align.analysis.ablation.question import Ablation, by_layer, pruning_order
from align.analysis.models.heads import AttentionHead, all_heads
from align.core.errors import DataError
from align.evaluation.tables import Column
from align.models.engine.weights import stored_numbers
from align.models.fairseq.checkpoint import load_checkpoint
from align.view.findings import Finding, Table

Order = Literal["importance", "effect"]
"""By the gradient of each head's gate, or by the loss without each head alone."""


class Size(NamedTuple):
    """How large a model is, and how good: heads, numbers that its checkpoint holds, loss in nats per piece."""

    heads: int
    weights: int
    loss: float


def least_needed(ablation: Ablation, number: int, order: Order) -> list[AttentionHead]:
    """So many heads, those first that matter least; each layer keeps one.

    Args:
        ablation: the model and a text.
        number: how many.
        order: what decides.

    Raises:
        DataError: the model has not so many to spare.
    """
    most = len(all_heads(ablation.blocks)) - len(ablation.blocks)
    if number > most:
        raise DataError(f"{number:,} heads cannot go: the model can spare {most:,}, for each layer keeps one")
    if order == "importance":
        return pruning_order(ablation.blocks, by_layer(ablation.blocks, ablation.importance()))[:number]
    effects = [ablation.measure([head], complete=False).losses.sum() for head in all_heads(ablation.blocks)]
    return pruning_order(ablation.blocks, effects)[:number]


def size_of(ablation: Ablation, checkpoint: Path) -> Size:
    """The size of a fairseq model, and its loss with all heads that it has."""
    losses = ablation.measure(complete=False).losses
    weights = stored_numbers(load_checkpoint(checkpoint)["model"])
    return Size(len(all_heads(ablation.blocks)), weights, float(losses.sum() / ablation.pieces.sum()))


def pruning(heads: Sequence[AttentionHead], sizes: Mapping[str, Size]) -> Finding:
    """What went, and what is left.

    Args:
        heads: in the order in which they went.
        sizes: of each model by name.
    """
    columns = [
        Column("model", "model"),
        Column("heads", "heads"),
        Column("weights", "weights"),
        Column("loss", "loss", 3),
    ]
    rows = [{"model": name, **size._asdict()} for name, size in sizes.items()]
    models = Table(
        columns, rows, ["weights: numbers in the checkpoint; loss: nats per piece of the target, </s> among them"]
    )
    columns = [Column("number", "number"), *(Column(key, key) for key in AttentionHead._fields)]
    gone = [{"number": n, **head._asdict()} for n, head in enumerate(heads, 1)]
    return Finding({"models": models, "pruned": Table(columns, gone, ["the least needed first"])})
