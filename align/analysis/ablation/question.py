"""What a translation model loses without some of its attention heads (Michel, Levy and Neubig 2019).

A head is masked: its output is zero, and nothing is trained again. What that does to translating is measured by the
loss under teacher forcing and by BLEU, what it does to aligning by AER: of the links that are read where those of the
whole model are, and of those read where the model without the head would be read.

Letters: N sentences, H heads of all layers in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray

from align.analysis.models.forced import sentence_losses
from align.analysis.models.heads import AttentionBlock, AttentionHead, all_heads, attention_blocks, gradients_of
from align.analysis.models.masking import without_heads
from align.core.aligner import Aligner, align_encoded
from align.core.backend import Translator
from align.core.batching import cut, encode
from align.core.errors import DataError
from align.core.types import Choice, Gold, Pair, Part
from align.evaluation.metrics import Counts, count_all
from align.models.recorder import ModelRecorder

Doubles = NDArray[np.float64]

Tick = Callable[[int, int], None]
"""Is told how often the model has been measured, of how many times in all."""


@dataclass(frozen=True)
class Measured:
    """What a model does with some heads masked.

    Attributes:
        losses: of each sentence that the model can read, in nats `[N]`.
        counts: of the links read where the whole model is read, for each line of the text `[lines, 4]`.
        place: where the model as it is now would be read.
        anew: counts of the links read there, likewise.
        translations: of the first sentences.
    """

    losses: Doubles
    counts: Counts | None = None
    place: Choice | None = None
    anew: Counts | None = None
    translations: Sequence[str] = ()


class Ablation:
    """A model and a text on which it is measured.

    Args:
        aligner: of the model; how links are read is its settings'.
        pairs: the text; lines that the model cannot read have no loss and no link.
        gold: links of each pair, if they are known.
        translator: of the model, if it is to translate.
        lines: how many sentences to translate.
        file: what errors call the text.

    Attributes:
        blocks: all attention of the model.
        choice: where the whole model is read.
        pieces: of each sentence that can be read, `</s>` among them `[N]`.
        references: of the sentences that are translated.

    Raises:
        DataError: there is no line that the model can read.
        ValueError: the framework cannot build the model.
        ModuleNotFoundError: the framework is not installed.
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
        self.blocks = attention_blocks(self.recorder.own_model())
        readable = [one for one in self._encoded if one.pieces]
        self.pieces = np.array([len(one.pieces.target) + 1 for one in readable if one.pieces])
        sample = readable[:lines] if translator else []
        self._sources = [one.pieces.source for one in sample if one.pieces]
        self.references = [" ".join(one.pair.target) for one in sample]
        self.choice = aligner.forward.choose(self._encoded, aligner.batch_tokens)

    def measure(self, heads: Collection[AttentionHead] = (), complete: bool = True) -> Measured:
        """What the model does without some heads.

        Args:
            heads: those to mask.
            complete: whether to translate and to choose anew where to read, too.
        """
        with without_heads(self.recorder, self.blocks, heads):
            losses = self._losses()
            counts = self._count(self.choice)
            if not complete:
                return Measured(losses, counts)
            place = self._aligner.forward.choose(self._encoded, self._aligner.batch_tokens)
            anew = counts if place.place == self.choice.place else self._count(place)
            spoken = self._translator(self._sources) if self._translator else []
            return Measured(losses, counts, place, anew, [" ".join(words) for words in spoken])

    def importance(self) -> Doubles:
        """Of each head, `I_h`: the mean of |dL/dxi_h| over sentences, in nats per piece `[H]` (eq. 2 of the paper).

        L is a sentence's loss and xi_h a gate that the head's output is multiplied by, which is 1.
        """
        total = torch.zeros(len(all_heads(self.blocks)), dtype=torch.float64)
        with gradients_of(self.blocks):
            for one in self._encoded:
                if one.pieces:
                    torch.autograd.backward(sentence_losses(self.recorder, [one.pieces]))
                    total += torch.cat([block.gate_gradients() for block in self.blocks]).abs().double().cpu()
                    for block in self.blocks:
                        block.projection.weight.grad = None
        found: Doubles = total.numpy() / self.pieces.sum()
        return found

    @torch.no_grad()
    def _losses(self) -> Doubles:
        found: dict[int, float] = {}
        for numbers, batch in self._batches:
            found |= zip(numbers, sentence_losses(self.recorder, batch).tolist(), strict=True)
        return np.array([found[n] for n in sorted(found)])

    def _count(self, choice: Choice) -> Counts | None:
        if self._gold is None:
            return None
        links = align_encoded(self._aligner.forward.reader, self._encoded, choice.place, self._aligner.batch_tokens)
        return count_all((alignment.links for alignment in links), self._gold)


@dataclass
class Study:
    """A model measured without each of its heads, and with ever fewer of them.

    Attributes:
        whole: with all of them.
        heads: those that were looked at.
        masked: without each of these.
        alone: without all others of its layer.
        importance: `I_h` `[H]`.
        curves: by the name of an order, the heads pruned one after the other, and what the model then does.
    """

    whole: Measured
    heads: list[AttentionHead]
    masked: list[Measured]
    alone: list[Measured]
    importance: Doubles
    curves: dict[str, list[tuple[AttentionHead, Measured]]] = field(default_factory=dict)


def study(ablation: Ablation, parts: Collection[Part], tick: Tick = lambda done, total: None) -> Study:
    """Measure a model without each head, with one head a layer, and with heads pruned in several orders.

    Args:
        ablation: the model and the text.
        parts: whose heads to look at.
        tick: is told of each measurement.
    """
    blocks = [block for block in ablation.blocks if block.part in parts]
    every = all_heads(blocks)
    apart = len(parts) > 1
    total = 1 + 2 * len(every) + (3 if apart else 2) * (len(every) - len(blocks))
    done = count(1)

    def measure(heads: Collection[AttentionHead], complete: bool = False) -> Measured:
        measured = ablation.measure(heads, complete)
        tick(next(done), total)
        return measured

    kept = [head.part in parts for head in all_heads(ablation.blocks)]
    found = Study(
        measure((), complete=True),
        every,
        [measure([head], complete=True) for head in every],
        [measure([other for other in every if other[:2] == head[:2] and other != head]) for head in every],
        ablation.importance()[kept],
    )
    effects = [one.losses.sum() for one in found.masked]
    orders = {
        "by importance": pruning_order(blocks, by_layer(blocks, found.importance)),
        "by effect": pruning_order(blocks, effects),
    }
    for part in parts if apart else ():
        orders[part] = [head for head in orders["by importance"] if head.part == part]
    for name, order in orders.items():
        found.curves[name] = [(head, measure(order[: n + 1])) for n, head in enumerate(order)]
    return found


def by_layer(blocks: Sequence[AttentionBlock], values: Doubles) -> Doubles:
    """Values of heads `[H]` by the root of the sum of squares over their layer, as Molchanov et al. (2017) have it."""
    ends = np.cumsum([block.heads for block in blocks])
    layers = np.split(values, ends[:-1])
    return np.concatenate([layer / max(float(np.linalg.norm(layer)), np.finfo(float).tiny) for layer in layers])


def pruning_order(blocks: Sequence[AttentionBlock], values: Sequence[float] | Doubles) -> list[AttentionHead]:
    """Heads from the lowest value to the highest, without the last one of each layer, which is never pruned.

    Args:
        blocks: whose heads they are.
        values: of each head `[H]`.
    """
    heads = all_heads(blocks)
    left = {(block.part, block.layer): block.heads for block in blocks}
    order = []
    for n in np.argsort(values, kind="stable"):
        head = heads[n]
        if left[head[:2]] > 1:
            left[head[:2]] -= 1
            order.append(head)
    return order
