"""Measures a translation model without some of its attention heads (Michel, Levy and Neubig 2019).

A masked head outputs zero; nothing is trained again. The effect on translation is measured by the loss under teacher
forcing and by BLEU, the effect on alignment by AER: once at the layer and head chosen for the whole model, and once at
those chosen for the model without the head.

Letters: N sentences, H heads of all layers in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from align.analysis.models.heads import (
    AttentionBlock,
    AttentionHead,
    all_heads,
    attention_blocks,
    gradients_of,
    without_heads,
)
from align.analysis.models.native import own_model, sentence_losses
from align.core.aligner import Aligner, align_encoded
from align.core.backend import Translator
from align.core.errors import DataError
from align.core.stream import cut, encode
from align.core.types import Choice, Gold, Pair, Part
from align.evaluation.metrics import Counts, count_all
from align.models.recorder import ModelRecorder

Doubles = NDArray[np.float64]

Tick = Callable[[int, int], None]
"""Receives the number of measurements done, and their total."""


class Measured(NamedTuple):
    """Loss, links and translations of a model with some heads masked."""

    losses: Doubles  # loss of each sentence that the model can read, in nats `[N]`
    # counts of the links at the whole model's layer and head, for each line of the text `[lines, 4]`
    counts: Counts | None = None
    place: Choice | None = None  # layer and head chosen for the masked model
    rechosen: Counts | None = None  # counts of the links at that layer and head `[lines, 4]`
    translations: Sequence[str] = ()  # of the first sentences


class Ablation:
    """A model and the text on which it is measured.

    Args:
        aligner: aligner with the model; its settings decide how links are read.
        pairs: the text; lines that the model cannot read have no loss and no link.
        translator: translates so many `lines` with the model; None for no BLEU.

    Attributes:
        blocks: all attention blocks of the model.
        choice: layer and head of the whole model.
        pieces: number of target pieces of each readable sentence, `</s>` included `[N]`.
        references: of the sentences that are translated.
    """

    def __init__(
        self,
        aligner: Aligner,
        pairs: Iterable[Pair],
        gold: Sequence[Gold] | None = None,
        translator: Translator | None = None,
        lines: int = 0,
        file: str = "",
    ) -> None:
        self.recorder: ModelRecorder = aligner.forward.recorder  # type: ignore[assignment]  # of a backend, and so open
        self._aligner, self._gold, self._translator = aligner, gold, translator
        self._encoded = [encode(aligner.forward.recorder, pair, "blank") for pair in pairs]
        self._batches = list(cut(self._encoded, aligner.batch_tokens))
        if not self._batches:
            raise DataError("there is no line that the model can read: all are blank, or too long for it", file=file)
        self.blocks = attention_blocks(own_model(self.recorder))
        readable = [item for item in self._encoded if item.pieces]
        self.pieces = np.array([len(item.pieces.target) + 1 for item in readable if item.pieces])
        sample = readable[:lines] if translator else []
        self._sources = [item.pieces.source for item in sample if item.pieces]
        self.references = [" ".join(item.pair.target) for item in sample]
        self.choice = aligner.forward.choose(self._encoded, aligner.batch_tokens)

    def measure(self, heads: Collection[AttentionHead] = (), complete: bool = True) -> Measured:
        """Measure the model with some heads masked.

        Args:
            complete: also translate, and read links at the layer and head that the masked model would choose.
        """
        with without_heads(self.recorder, self.blocks, heads):
            losses = self._losses()
            counts = self._count(self.choice)
            if not complete:
                return Measured(losses, counts)
            place = self._aligner.forward.choose(self._encoded, self._aligner.batch_tokens)
            counts_at_place = counts if place.place == self.choice.place else self._count(place)
            translated = self._translator(self._sources) if self._translator else []
            return Measured(losses, counts, place, counts_at_place, [" ".join(words) for words in translated])

    def importance(self) -> Doubles:
        """Return the importance `I_h` of each head: mean |dL/dxi_h| over sentences, in nats per piece `[H]` (eq. 2).

        L is a sentence's loss, and xi_h a gate of value 1 that multiplies the head's output.
        """
        total = torch.zeros(len(all_heads(self.blocks)), dtype=torch.float64)
        with gradients_of(self.blocks):
            for item in self._encoded:
                if item.pieces:
                    torch.autograd.backward(sentence_losses(self.recorder, [item.pieces]))
                    total += torch.cat([block.gate_gradients() for block in self.blocks]).abs().double().cpu()
                    for block in self.blocks:
                        block.projection.weight.grad = None
        importance: Doubles = total.numpy() / self.pieces.sum()
        return importance

    @torch.no_grad()
    def _losses(self) -> Doubles:
        losses: dict[int, float] = {}
        for numbers, batch in self._batches:
            losses |= zip(numbers, sentence_losses(self.recorder, batch).tolist(), strict=True)
        return np.array([losses[n] for n in sorted(losses)])

    def _count(self, choice: Choice) -> Counts | None:
        if self._gold is None:
            return None
        links = align_encoded(self._aligner.forward.reader, self._encoded, choice.place, self._aligner.batch_tokens)
        return count_all((alignment.links for alignment in links), self._gold)


@dataclass
class Study:
    """A model measured without each of its heads, and with more and more heads pruned."""

    whole: Measured  # with all heads
    heads: list[AttentionHead]  # the H heads that were studied
    masked: list[Measured]  # without each of these heads
    alone: list[Measured]  # without all other heads of its layer
    importance: Doubles  # `I_h` `[H]`
    # by the name of an order, the heads in the order of pruning, each with the measurement after it
    curves: dict[str, list[tuple[AttentionHead, Measured]]] = field(default_factory=dict)


def study(ablation: Ablation, parts: Collection[Part], tick: Tick = lambda done, total: None) -> Study:
    """Measure a model without each head of some parts, with one head per layer, and with heads pruned."""
    blocks = [block for block in ablation.blocks if block.part in parts]
    heads_of_parts = all_heads(blocks)
    by_part = len(parts) > 1
    total = 1 + 2 * len(heads_of_parts) + (3 if by_part else 2) * (len(heads_of_parts) - len(blocks))
    done = count(1)

    def measure(heads: Collection[AttentionHead], complete: bool = False) -> Measured:
        measured = ablation.measure(heads, complete)
        tick(next(done), total)
        return measured

    studied = [head.part in parts for head in all_heads(ablation.blocks)]
    result = Study(
        measure((), complete=True),
        heads_of_parts,
        [measure([head], complete=True) for head in heads_of_parts],
        [
            measure([sibling for sibling in heads_of_parts if sibling[:2] == head[:2] and sibling != head])
            for head in heads_of_parts
        ],
        ablation.importance()[studied],
    )
    effects = [measured.losses.sum() for measured in result.masked]
    orders = {
        "by importance": pruning_order(blocks, by_layer(blocks, result.importance)),
        "by effect": pruning_order(blocks, effects),
    }
    for part in parts if by_part else ():
        orders[part] = [head for head in orders["by importance"] if head.part == part]
    for name, order in orders.items():
        result.curves[name] = [(head, measure(order[: n + 1])) for n, head in enumerate(order)]
    return result


def by_layer(blocks: Sequence[AttentionBlock], values: Doubles) -> Doubles:
    """Divide values of heads `[H]` by the Euclidean norm of their layer, after Molchanov et al. (2017)."""
    ends = np.cumsum([block.heads for block in blocks])
    layers = np.split(values, ends[:-1])
    return np.concatenate([layer / max(float(np.linalg.norm(layer)), np.finfo(float).tiny) for layer in layers])


def pruning_order(blocks: Sequence[AttentionBlock], values: Sequence[float] | Doubles) -> list[AttentionHead]:
    """Return heads from the lowest value `[H]` to the highest, without the last of each layer, which stays."""
    heads = all_heads(blocks)
    left = {(block.part, block.layer): block.heads for block in blocks}
    order = []
    for n in np.argsort(values, kind="stable"):
        head = heads[n]
        if left[head[:2]] > 1:
            left[head[:2]] -= 1
            order.append(head)
    return order
