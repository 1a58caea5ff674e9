"""Trains a small BERT to predict hidden pieces and following segments, with transformers' own model.

There is no dropout: a small model sees its text a few times only. The saved model has the usual dropout for
fine-tuning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from align.analysis.bert.settings import Settings
from align.analysis.bert.text import NOT_ASKED, PAD, SPECIAL, Batch, Text, collate, example, training_batches
from align.analysis.models.native_transformers import import_transformers
from align.io.output import replace_file

RATE, DECAY, MOMENTS, CLIP = 1e-3, 0.01, (0.9, 0.98), 1.0
"""The peak learning rate, weight decay, Adam's betas, and the norm at which gradients are clipped."""

WARM_UP = 0.06
"""Share of the updates in which the learning rate rises; after it the rate falls linearly to 0."""

VALIDATION_SEED = 1
"""Seed for hiding pieces of the validation text, the same in every run."""


class Point(NamedTuple):
    """A point of the learning curve."""

    updates: int
    loss: float  # mean training loss since the last point, hidden pieces and following segments together
    valid: float  # validation loss in nats per hidden piece
    told: float  # share of hidden pieces that the model predicts correctly
    # share of pairs for which the model correctly predicts whether the second segment follows; NaN without
    # pairs
    follows: float


def build(settings: Settings, vocabulary: int) -> Any:
    """Return a model with random weights: transformers' `BertForPreTraining`."""
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


def predict(model: Any, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the model's predictions, each with the right answers.

    Returns:
        Logits at M hidden positions `[M, V]`, the hidden pieces `[M]`, logits of whether the second segment
        follows, for P pairs `[P, 2]`, and the index of the right one `[P]`.
    """
    device = model.device
    ids, segments, mask, pieces, answers = (torch.from_numpy(array).to(device) for array in batch)
    with torch.autocast(device.type, torch.bfloat16):
        out = model.bert(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
        hidden, pairs = pieces != NOT_ASKED, answers != NOT_ASKED
        logits = model.cls.predictions(out.last_hidden_state[hidden])  # not of all positions: this layer is wide
        follows = model.cls.seq_relationship(out.pooler_output[pairs])
    return logits.float(), pieces[hidden], follows.float(), answers[pairs]


def loss_of(model: Any, batch: Batch) -> Tensor:
    """Return the cross-entropy of hidden pieces, plus that of following segments if there are any."""
    logits, pieces, follows, answers = predict(model, batch)
    loss = nn.functional.cross_entropy(logits, pieces) if len(pieces) else logits.sum()
    return loss + nn.functional.cross_entropy(follows, answers) if len(answers) else loss


@torch.no_grad()
def validate(model: Any, text: Text, longest: int) -> tuple[float, float, float]:
    """Return loss per hidden piece, and the shares of hidden pieces and of pairs that are predicted correctly."""
    random = np.random.default_rng(VALIDATION_SEED)
    loss = hidden = correct = pairs = following = 0.0
    for start in range(0, len(text), 32):
        examples = [example(text, n, longest, random) for n in range(start, min(start + 32, len(text)))]
        logits, pieces, follows, answers = predict(model, collate(examples, len(text.begins), random))
        loss += float(nn.functional.cross_entropy(logits, pieces, reduction="sum"))
        hidden, pairs = hidden + len(pieces), pairs + len(answers)
        correct += float((logits.argmax(1) == pieces).sum())
        following += float((follows.argmax(1) == answers).sum())
    return loss / max(hidden, 1), correct / max(hidden, 1), following / pairs if pairs else float("nan")


def train(
    model: Any, settings: Settings, text: Text, valid: Text, checkpoint: Path, every: int, tell: Callable[[str], None]
) -> list[Point]:
    """Train a model, the result of `build`, to the end, or from its last checkpoint on, and return the learning curve.

    Args:
        every: updates between two checkpoints, each with a validation.
    """
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    rest = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=MOMENTS)
    updates, warm = settings.updates, max(1, int(WARM_UP * settings.updates))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min((done + 1) / warm, (updates - done) / max(1, updates - warm))
    )
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    points: list[Point] = []
    first = 0
    if checkpoint.is_file():
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        points = [Point(*point) for point in saved["points"]]
        first = points[-1].updates
        tell(f"going on from update {first:,}")
    stream = training_batches(text, settings.longest, settings.tokens, settings.seed)
    losses: list[float] = []
    started = time.monotonic()
    for done, batch in enumerate(islice(stream, first, updates), first + 1):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if done % every and done < updates:
            continue
        point = Point(done, sum(losses) / len(losses), *validate(model, valid, settings.longest))
        points.append(point)
        losses = []
        state = {name: part.state_dict() for name, part in parts.items()}
        with replace_file(str(checkpoint)) as out:
            torch.save({**state, "points": [tuple(point) for point in points]}, out)
        seconds_left = (updates - done) * (time.monotonic() - started) / (done - first)
        tell(
            f"update {done:,} of {updates:,}: loss {point.loss:.3f}; validation {point.valid:.3f} nats a hidden piece, "
            f"{point.told:.1%} told right, following segments {point.follows:.1%}; {seconds_left / 60:.0f} min left"
        )
    return points
