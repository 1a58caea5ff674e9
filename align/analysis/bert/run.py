"""Trains a small BERT to predict hidden pieces and following segments, with transformers' own model.

There is no dropout: a small model sees its text a few times only. The saved model has the usual dropout for
fine-tuning.
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
from align.analysis.models.native_transformers import import_transformers
from align.io.output import replace_file

RATE, DECAY, MOMENTS, CLIP = 1e-3, 0.01, (0.9, 0.98), 1.0
"""The peak learning rate, weight decay, Adam's betas, and the norm at which gradients are clipped."""

WARM_UP = 0.06
"""Share of the updates in which the learning rate rises; after it the rate falls linearly to 0."""

VALIDATION_SEED = 1
"""Seed for hiding pieces of the validation text, the same in every run."""


@dataclass(frozen=True)
class Settings:
    """All settings that the result depends on, except for the text.

    Attributes:
        layers: number of layers.
        heads: attention heads per layer.
        width: model size; the feed-forward network is four times as wide.
        pieces: maximum number of pieces of the tokenizer, special pieces included.
        cased: whether text keeps its capitals and accents.
        longest: maximum number of pieces that the model takes, special pieces included.
        tokens: maximum number of pieces in a batch.
        updates: number of updates.
        valid: number of lines at the end of the text to validate on.
        seed: seed of weights, order, and hidden pieces.
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
    """A point of the learning curve.

    Attributes:
        updates: number of updates so far.
        loss: mean training loss since the last point, hidden pieces and following segments together.
        valid: validation loss in nats per hidden piece.
        told: share of hidden pieces that the model predicts correctly.
        follows: share of pairs for which the model correctly predicts whether the second segment follows; NaN without
            pairs.
    """

    updates: int
    loss: float
    valid: float
    told: float
    follows: float


def build(settings: Settings, vocabulary: int) -> Any:
    """Return a model with random weights: transformers' `BertForPreTraining`.

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
    """Predictions of a model for a batch, with the right answers.

    Attributes:
        pieces: logits at M hidden positions `[M, V]`.
        positions: hidden pieces `[M]`.
        follows: logits of whether the second segment follows, for P pairs `[P, 2]`.
        other: index of the right one `[P]`.
    """

    pieces: Tensor
    positions: Tensor
    follows: Tensor
    other: Tensor

    @property
    def loss(self) -> Tensor:
        """Cross-entropy of hidden pieces, plus that of following segments if there are any."""
        loss = nn.functional.cross_entropy(self.pieces, self.positions) if len(self.positions) else self.pieces.sum()
        return loss + nn.functional.cross_entropy(self.follows, self.other) if len(self.other) else loss


def tell_hidden(model: Any, batch: Batch) -> Told:
    """Return the model's predictions; only hidden positions pass through the wide output layer."""
    device = model.device
    ids, segments, mask, pieces, answers = (torch.from_numpy(array).to(device) for array in batch)
    with torch.autocast(device.type, torch.bfloat16):
        out = model.bert(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
        hidden, pairs = pieces != NOT_ASKED, answers != NOT_ASKED
        logits = model.cls.predictions(out.last_hidden_state[hidden])
        follows = model.cls.seq_relationship(out.pooler_output[pairs])
    return Told(logits.float(), pieces[hidden], follows.float(), answers[pairs])


@torch.no_grad()
def validate(model: Any, text: Text, settings: Settings) -> tuple[float, float, float]:
    """Return loss per hidden piece, and the shares of hidden pieces and of pairs that are predicted correctly."""
    random = np.random.default_rng(VALIDATION_SEED)
    loss = pieces = correct = pairs = follows = 0.0
    for start in range(0, len(text), 32):
        lines = range(start, min(start + 32, len(text)))
        examples = [example(text, n, settings.longest, random) for n in lines]
        predicted = tell_hidden(model, collate(examples, len(text.begins), random))
        loss += float(nn.functional.cross_entropy(predicted.pieces, predicted.positions, reduction="sum"))
        pieces, pairs = pieces + len(predicted.positions), pairs + len(predicted.other)
        correct += float((predicted.pieces.argmax(1) == predicted.positions).sum())
        follows += float((predicted.follows.argmax(1) == predicted.other).sum())
    return loss / max(pieces, 1), correct / max(pieces, 1), follows / pairs if pairs else float("nan")


class Run:
    """A training run that can be stopped and resumed.

    Args:
        model: the result of `build`, on the device of the training.
        settings: settings of the training.
        folder: folder of the checkpoint.
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
        """Load the last checkpoint; return False if there is none."""
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
        with replace_file(str(self._checkpoint)) as out:
            torch.save(state, out)

    def train(self, text: Text, valid: Text, every: int, tell: Callable[[str], None]) -> None:
        """Train to the end, with regular checkpoints.

        Args:
            text: text to train on.
            valid: text to validate on.
            every: updates between two checkpoints, each with a validation.
            tell: receives progress messages.
        """
        settings = self._settings
        stream = training_batches(text, settings.longest, settings.tokens, settings.seed)
        losses, started, first = 0.0, time.monotonic(), self.updates
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
            seconds_left = (settings.updates - self.updates) * (time.monotonic() - started) / (self.updates - first)
            tell(
                f"update {point.updates:,} of {settings.updates:,}: loss {point.loss:.3f}; validation "
                f"{point.valid:.3f} nats a hidden piece, {point.told:.1%} told right, following segments "
                f"{point.follows:.1%}; {seconds_left / 60:.0f} min left"
            )

    def _update(self, batch: Batch) -> float:
        loss = tell_hidden(self._model, batch).loss
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._model.parameters(), CLIP)
        self._optimizer.step()
        self._schedule.step()
        return float(loss.detach())
