"""Models for `positions` that have a head of the last decoder layer which aligns in the output position.

OPUS-MT's "transformer-align" models have one, trained on links together with the model (Chen et al., 2016). Here a
bundled model is changed: either that head alone learns, all else staying as it is; or it is given the attention of the
head that aligns best in the input position, a step earlier, which no model is known to have. Where all other heads
attend to every piece alike, nothing else aligns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from align import Pair
from align.core.batching import encode
from align.core.merging import collate
from align.core.types import Batch, Cell, CrossAttention, Links, Pieces
from align.evaluation.metrics import SEED
from align.models.fairseq.architecture import attention_of
from align.models.fairseq.dictionary import EOS, PAD
from align.models.recorder import ModelRecorder

BATCH, EPOCHS, RATE = 50, 15, 0.003


class Copied(ModelRecorder):
    """A model whose last layer's head 1 attends, when it predicts, as a cell does when it reads.

    Args:
        recorder: the model.
        cell: which.
        alone: whether all other heads attend to every piece alike.
    """

    def __init__(self, recorder: ModelRecorder, cell: Cell, alone: bool) -> None:
        vars(self).update(vars(recorder))
        self.cell, self.alone = cell, alone

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention with that head in it."""
        assert self.cell.head != "all"
        read = torch.empty(0)
        for attention in super().record(batch, sorted({*layers, self.cell.layer})):
            weights = attention.weights.clone()  # [B, H, T+1, S]
            if attention.layer == self.cell.layer:
                read = attention.weights[:, self.cell.head - 1, 1:]  # [B, T, S]
            if self.alone:
                present = (batch.source != self.pad)[:, None, None].to(weights)
                weights[:] = present / present.sum(-1, keepdim=True)
            if attention.layer == self.layers:
                weights[:, 0, :-1] = read
            if attention.layer in layers:
                yield replace(attention, weights=weights)


def pieces_linked(pieces: Pieces, links: Links, shape: tuple[int, int]) -> Tensor:
    """What a target piece should attend to `[T, S]`: alike on all pieces of the words that its word is linked to."""
    sources, targets = torch.tensor(pieces.source_words), torch.tensor(pieces.target_words)
    wanted = torch.zeros(shape)
    for i, j in links:
        wanted[: len(targets), : len(sources)] += (targets == j)[:, None] * (sources == i)
    return wanted / wanted.sum(-1, keepdim=True).clamp(min=1)


@torch.no_grad()
def lessons(model: Any, batch: Sequence[tuple[Pieces, Links]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What goes into the last layer's queries `[B, T, D]` and keys `[B, S, D]`, pads `[B, S]`, what to attend to."""
    taken: dict[str, Tensor] = {}

    def take(module: Any, arguments: Any, named: dict[str, Any]) -> None:
        taken.update(query=named["query"].transpose(0, 1), key=named["key"].transpose(0, 1))

    collated = collate([pieces for pieces, _ in batch], PAD)
    steps = torch.nn.functional.pad(collated.target, (1, -1), value=EOS)  # [B, T]: those that predict
    hook = model.decoder.layers[-1].encoder_attn.register_forward_pre_hook(take, with_kwargs=True)
    pads = collated.source == PAD
    encoded = model.encoder(collated.source, src_lengths=(~pads).sum(1))
    model.decoder(steps, encoder_out=encoded, features_only=True)
    hook.remove()
    shape = collated.target.shape[1], collated.source.shape[1]
    wanted = torch.stack([pieces_linked(pieces, links, shape) for pieces, links in batch])  # [B, T, S]
    return taken["query"], taken["key"], pads, wanted


def train_head(recorder: ModelRecorder, pairs: Sequence[Pair], links: Sequence[Links]) -> None:
    """Train the last layer's head 1 on links, in the output position: its queries and keys alone.

    The loss is the cross-entropy of attention to the linked pieces; words without links count nothing.
    """
    model = recorder.own_model()
    encoded = [(encode(recorder, pair, "blank").pieces, some) for pair, some in zip(pairs, links, strict=True)]
    known = [(pieces, some) for pieces, some in encoded if pieces and some]
    known.sort(key=lambda one: len(one[0].source) + len(one[0].target))
    material = [lessons(model, known[n : n + BATCH]) for n in range(0, len(known), BATCH)]
    attention = model.decoder.layers[-1].encoder_attn
    size = attention.head_dim
    weights = [part for name in ("q_proj", "k_proj") for part in getattr(attention, name).parameters()]
    query, query_bias, key, key_bias = learned = [weight[:size].clone().requires_grad_() for weight in weights]
    optimiser = torch.optim.Adam(learned, lr=RATE)
    generator = torch.Generator().manual_seed(SEED)
    for n in (n for _ in range(EPOCHS) for n in torch.randperm(len(material), generator=generator).tolist()):
        states, memory, pads, wanted = material[n]
        scores = (states @ query.T + query_bias) @ (memory @ key.T + key_bias).mT / size**0.5  # [B, T, S]
        likely = scores.masked_fill(pads[:, None], torch.finfo(scores.dtype).min).log_softmax(-1)
        optimiser.zero_grad()
        (-(wanted * likely).sum() / wanted.sum()).backward()
        optimiser.step()
    with torch.no_grad():
        for weight, part in zip(weights, learned, strict=True):
            weight[:size] = part
    recorder.transformer = attention_of(model, name=recorder.name).transformer
