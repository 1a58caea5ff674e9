"""Training a small BERT: hidden pieces and following segments are told, with transformers' own model.

There is no dropout: a small model sees its text a few times only. What is saved has the usual dropout for fine-tuning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from align.analysis.bert.segments import NOT_ASKED, PAD, SPECIAL, Batch, Text, collate, example, training_batches
from align.models.huggingface.own_model import import_transformers

RATE, DECAY, MOMENTS, CLIP = 1e-3, 0.01, (0.9, 0.98), 1.0
"""The highest learning rate, weight decay, Adam's betas, and the norm at which gradients are clipped."""

WARM_UP = 0.06
"""Share of the updates in which the learning rate rises; then it falls in a line to 0."""

VALIDATION_SEED = 1
"""Of what is hidden of the text to validate on: the same in every run."""


@dataclass(frozen=True)
class Settings:
    """All that decides the result, but for the text.

    Attributes:
        layers: of the model.
        heads: in each.
        width: of the model; a feed-forward network is four times as wide.
        pieces: of the tokenizer at most, special ones among them.
        cased: whether text keeps its capitals and accents.
        longest: pieces that the model takes at most, special ones among them.
        tokens: pieces in a batch at most.
        updates: how long to train.
        valid: lines at the end of the text to validate on.
        seed: of weights, order, and what is hidden.
    """

    layers: int
    heads: int
    width: int
    pieces: int
    cased: bool
    longest: int
    tokens: int
    updates: int
    valid: int
    seed: int


class Point(NamedTuple):
    """A point of the curve.

    Attributes:
        updates: so far.
        loss: of training since the last point, hidden pieces and following segments together.
        valid: nats for each hidden piece of the text to validate on.
        told: share of those that the model tells right.
        follows: share of pairs of segments of which it tells right whether the second follows; NaN without pairs.
    """

    updates: int
    loss: float
    valid: float
    told: float
    follows: float


def build(settings: Settings, vocabulary: int) -> Any:
    """A model with random weights; transformers' `BertForPreTraining`.

    Raises:
        ModuleNotFoundError: transformers 5 or later is not installed.
    """
    hf = import_transformers("training a BERT")
    torch.manual_seed(settings.seed)
    config = hf.BertConfig(
        vocab_size=vocabulary,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        max_position_embeddings=settings.longest,
        pad_token_id=SPECIAL.index(PAD),
        attn_implementation="eager",  # on a CPU quicker to train than torch's fused attention
    )
    return hf.BertForPreTraining(config).eval()


class Told(NamedTuple):
    """What a model says of a batch.

    Attributes:
        pieces: scores of what stands at the hidden places `[M, V]`.
        asked: what stands there `[M]`.
        follows: scores of whether the second segment follows, or not `[P, 2]`.
        other: which of them is right `[P]`.
    """

    pieces: Tensor
    asked: Tensor
    follows: Tensor
    other: Tensor

    @property
    def loss(self) -> Tensor:
        """Cross-entropy of hidden pieces, and of following segments if there are any."""
        loss = nn.functional.cross_entropy(self.pieces, self.asked) if len(self.asked) else self.pieces.sum()
        return loss + nn.functional.cross_entropy(self.follows, self.other) if len(self.other) else loss


def tell_hidden(model: Any, batch: Batch) -> Told:
    """What the model says: only hidden pieces go through the layer that tells them, which is wide."""
    device = model.device
    ids, segments, kept, pieces, other = (torch.from_numpy(array).to(device) for array in batch)
    with torch.autocast(device.type, torch.bfloat16):
        out = model.bert(input_ids=ids, attention_mask=kept.long(), token_type_ids=segments)
        hidden, paired = pieces != NOT_ASKED, other != NOT_ASKED
        told = model.cls.predictions(out.last_hidden_state[hidden])
        follows = model.cls.seq_relationship(out.pooler_output[paired])
    return Told(told.float(), pieces[hidden], follows.float(), other[paired])


@torch.no_grad()
def validate(model: Any, text: Text, settings: Settings) -> tuple[float, float, float]:
    """Loss of hidden pieces, share of them told right, share of pairs told right."""
    random = np.random.default_rng(VALIDATION_SEED)
    loss = pieces = told = pairs = follows = 0.0
    for start in range(0, len(text), 32):
        lines = range(start, min(start + 32, len(text)))
        examples = [example(text, n, settings.longest, random) for n in lines]
        said = tell_hidden(model, collate(examples, len(text.begins), random))
        loss += float(nn.functional.cross_entropy(said.pieces, said.asked, reduction="sum"))
        pieces, pairs = pieces + len(said.asked), pairs + len(said.other)
        told += float((said.pieces.argmax(1) == said.asked).sum())
        follows += float((said.follows.argmax(1) == said.other).sum())
    return loss / max(pieces, 1), told / max(pieces, 1), follows / pairs if pairs else float("nan")


class Run:
    """A training that can stop and go on.

    Args:
        model: what `build` makes; on the device where it is to be trained.
        settings: how to train.
        folder: gets checkpoints.
    """

    def __init__(self, model: Any, settings: Settings, folder: Path) -> None:
        self._model, self._settings, self._checkpoint = model, settings, folder / "checkpoint.pt"
        decayed = [weight for weight in model.parameters() if weight.dim() > 1]
        rest = [weight for weight in model.parameters() if weight.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
        self._optimizer = torch.optim.AdamW(groups, lr=RATE, betas=MOMENTS)
        warm = max(1, int(WARM_UP * settings.updates))

        def share(done: int) -> float:
            return min((done + 1) / warm, (settings.updates - done) / max(1, settings.updates - warm))

        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, share)
        self.points: list[Point] = []
        self.updates = 0

    def resume(self) -> bool:
        """Go on from the last checkpoint, if there is one."""
        if not self._checkpoint.is_file():
            return False
        saved = torch.load(self._checkpoint, map_location="cpu", weights_only=True)
        self._model.load_state_dict(saved["model"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._schedule.load_state_dict(saved["schedule"])
        self.points = [Point(*point) for point in saved["points"]]
        self.updates = self.points[-1].updates
        return True

    def _save(self) -> None:
        state = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
            "points": [tuple(point) for point in self.points],
        }
        part = self._checkpoint.with_suffix(".part")
        torch.save(state, part)
        part.replace(self._checkpoint)

    def train(self, text: Text, valid: Text, every: int, tell: Callable[[str], None]) -> None:
        """Train to the end, with a checkpoint now and then.

        Args:
            text: to train on.
            valid: to validate on.
            every: updates between two checkpoints, each with a validation.
            tell: is told how it goes.
        """
        settings = self._settings
        stream = training_batches(text, settings.longest, settings.tokens, settings.seed)
        losses, begun, first = 0.0, time.monotonic(), self.updates
        for batch in islice(stream, self.updates, settings.updates):
            losses += self._update(batch)
            self.updates += 1
            if self.updates % every and self.updates < settings.updates:
                continue
            count = (self.updates - 1) % every + 1
            point = Point(self.updates, losses / count, *validate(self._model, valid, settings))
            losses = 0.0
            self.points.append(point)
            self._save()
            left = (settings.updates - self.updates) * (time.monotonic() - begun) / (self.updates - first)
            tell(
                f"update {point.updates:,} of {settings.updates:,}: loss {point.loss:.3f}; validation "
                f"{point.valid:.3f} nats a hidden piece, {point.told:.1%} told right, following segments "
                f"{point.follows:.1%}; {left / 60:.0f} min left"
            )

    def _update(self, batch: Batch) -> float:
        loss = tell_hidden(self._model, batch).loss
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._model.parameters(), CLIP)
        self._optimizer.step()
        self._schedule.step()
        return float(loss.detach())
