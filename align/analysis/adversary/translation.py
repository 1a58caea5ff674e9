"""Is a translation model's cross-attention exclusive? What becomes of word alignment where it moves.

A copy of a trained model learns to predict what the model predicts while its cross-attention moves away; only queries
and keys of cross-attention learn, so that all that can change is where the decoder looks. Then links are read off both.

Letters: B sentence pairs, T steps of the decoder, S source pieces, L layers, H heads in each, N steps in all, V pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from align.analysis.adversary.losses import Sentence, adversarial_loss, distance
from align.analysis.adversary.tables import Measured, layer_table, model_table, rate_figure
from align.analysis.recording import split_heads
from align.core.aligner import Aligner, Direction
from align.core.batching import cut, encode
from align.core.errors import DataError
from align.core.merging import collate
from align.core.types import Gold, Pair, Score
from align.evaluation.sweep import sweep
from align.evaluation.swept import SCORES
from align.models.fairseq.architecture import attention_of
from align.models.recorder import ModelRecorder
from align.view.findings import Finding

LEAST = 1e-30
"""What a weight of 0 counts as where its logarithm is taken."""


@dataclass(frozen=True)
class Asked:
    """What is to be trained.

    Attributes:
        weights: lambda of each adversary.
        divergence: a key of `align.analysis.adversary.losses.DIVERGENCES`.
        moved: what is to move: attention by weight, or by norm, as shares of a row's sum.
        updates: of each.
        rate: the learning rate at first; it falls to 0.
        batch_tokens: pieces in a batch.
        seed: of the order of batches.
    """

    weights: Sequence[float]
    divergence: str = "js"
    moved: Score = "weight"
    updates: int = 200
    rate: float = 3e-3
    batch_tokens: int = 1000
    seed: int = 1


class Forced(NamedTuple):
    """A batch under teacher forcing: sources `[B, S]`, what the decoder reads and predicts, and where `[B, T]`."""

    source: Tensor
    steps: Tensor
    target: Tensor
    kept: Tensor


class Told(NamedTuple):
    """Logarithms: of pieces' probabilities `[N, V]`, and of all layers' cross-attention `[N, L H, S]`."""

    said: Tensor
    attention: Tensor


def forced(recorder: ModelRecorder, pairs: Sequence[Pair], tokens: int, file: str = "") -> list[Forced]:
    """A text in batches of like length; pairs that are blank, or too long for the model, are left out.

    Args:
        recorder: of the model.
        pairs: the text.
        tokens: pieces in a batch.
        file: what errors call the text.

    Raises:
        DataError: there is none left.
    """
    encoded = [encode(recorder, pair, "blank") for pair in pairs]
    found = []
    for _, pieces in cut(encoded, tokens):
        source, steps = recorder.padded(collate(pieces, recorder.pad))
        target = torch.nn.functional.pad(steps.ids[:, 1:], (0, 1), value=recorder.pad)
        target[torch.arange(len(target)), steps.kept.sum(1) - 1] = recorder.start[
            0
        ]  # </s>, which a decoder begins with
        found.append(Forced(source.ids, steps.ids, target, steps.kept))
    if not found:
        raise DataError("there is no pair that the model can read: all are blank, or too long for it", file=file)
    return found


@contextmanager
def recorded(model: Any) -> Iterator[list[Tensor]]:
    """A list that each pass of fairseq's model fills with its layers' cross-attention `[H, B, T, S]`."""
    found: list[Tensor] = []

    def ask(module: Any, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return arguments, {**named, "need_head_weights": True}

    with ExitStack() as stack:
        for layer in model.decoder.layers:
            attention = layer.encoder_attn
            for handle in (
                attention.register_forward_pre_hook(ask, with_kwargs=True),
                attention.register_forward_hook(lambda module, arguments, output: found.append(output[1])),
            ):
                stack.callback(handle.remove)
        yield found


def tell(model: Any, batch: Forced, attention: list[Tensor], score: Score = "weight") -> Told:
    """What a model says of a batch.

    Args:
        model: fairseq's.
        batch: the pairs.
        attention: what `recorded` has for this model.
        score: whether attention is weights, or norms of weighted vectors as shares of their row's sum.
    """
    attention.clear()
    with torch.no_grad():
        lengths = torch.full((len(batch.source),), batch.source.shape[1])
        encoded = model.encoder(batch.source, lengths)  # nothing in it learns
    features, _ = model.decoder(batch.steps, encoder_out=encoded, features_only=True)  # [B, T, D]
    said = model.decoder.output_layer(features[batch.kept]).log_softmax(-1)  # [N, V]
    weights = torch.stack(attention)  # [L, H, B, T, S]
    if score == "norm":
        norms = torch.stack([_norms(layer.encoder_attn, encoded) for layer in model.decoder.layers])
        weights = weights * norms[:, :, :, None]
        weights = weights / weights.sum(-1, keepdim=True)
    by_step = weights.flatten(0, 1).permute(1, 2, 0, 3)[batch.kept]  # [N, L H, S]
    return Told(said, by_step.clamp_min(LEAST).log())


@torch.no_grad()
def _norms(attention: Any, encoded: Any) -> Tensor:
    """Norms of the vectors that each head of fairseq's module makes of the encoder's output, `||f(x)||` `[H, B, S]`."""
    values = attention.v_proj(encoded["encoder_out"][0])  # [S, B, H d]
    heads = attention.num_heads
    out_proj = split_heads(attention.out_proj.weight, heads)  # [H, d, D]
    values = values.view(*values.shape[:2], heads, -1).permute(2, 1, 0, 3)  # [H, B, S, d]
    return torch.stack([(one @ out).norm(dim=-1) for one, out in zip(values, out_proj, strict=True)])


def train(original: Any, batches: Sequence[Forced], asked: Asked, weight: float) -> Any:
    """A copy of a model, whose cross-attention has moved; see `adversarial_loss`.

    Args:
        original: fairseq's model, which does not change.
        batches: what to learn from.
        asked: how.
        weight: lambda.
    """
    model = deepcopy(original)
    learnt = [
        parameter.requires_grad_()
        for layer in model.decoder.layers
        for part in (layer.encoder_attn.q_proj, layer.encoder_attn.k_proj)
        for parameter in part.parameters()
    ]
    optimizer = torch.optim.Adam(learnt, asked.rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, asked.updates)
    draw = torch.Generator().manual_seed(asked.seed)
    with recorded(original) as before, recorded(model) as after:
        order: list[int] = []
        for _ in range(asked.updates):
            order = order or torch.randperm(len(batches), generator=draw).tolist()
            batch = batches[order.pop()]
            with torch.no_grad():
                followed = tell(original, batch, before, asked.moved)
            found = tell(model, batch, after, asked.moved)
            optimizer.zero_grad()
            loss = adversarial_loss(
                found.said, followed.said, found.attention, followed.attention, weight, asked.divergence
            )
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return model.requires_grad_(False)


@torch.no_grad()
def loss_of(model: Any, batches: Sequence[Forced]) -> float:
    """Mean negative log-likelihood of the target's pieces, `</s>` included, in nats."""
    total, count = 0.0, 0
    with recorded(model) as attention:
        for batch in batches:
            said = tell(model, batch, attention).said
            total += float(torch.nn.functional.nll_loss(said, batch.target[batch.kept], reduction="sum"))
            count += len(said)
    return total / count


@torch.no_grad()
def sentences(model: Any, batches: Sequence[Forced], score: Score = "weight") -> Iterator[Sentence]:
    """What a model says of each batch, as one row of steps, and its attention `[L H, N, S]`."""
    with recorded(model) as attention:
        for batch in batches:
            told = tell(model, batch, attention, score)
            yield Sentence(told.said.exp().numpy(), told.attention.exp().transpose(0, 1).numpy())


def moved(
    recorder: ModelRecorder,
    tuning: Sequence[Pair],
    held_out: Sequence[Pair],
    text: Sequence[Pair],
    gold: Sequence[Gold],
    asked: Asked,
    say: Callable[[str], None] = lambda name: None,
    file: str = "",
) -> Finding:
    """Move a model's cross-attention as far as it goes, and see what becomes of its loss and its links.

    Args:
        recorder: the model.
        tuning: what adversaries learn from.
        held_out: what losses and distances are measured on.
        text: what is linked.
        gold: its links.
        asked: what to train.
        say: is told of each model that is done.
        file: what errors call what adversaries learn from and are measured on.
    """
    original = recorder.own_model()
    learnt_from = forced(recorder, tuning, asked.batch_tokens, file)
    kept_back = forced(recorder, held_out, asked.batch_tokens, file)

    def measure(name: str, model: Any, weight: float | None = None) -> Measured:
        apart = {
            score: distance(sentences(original, kept_back, score), sentences(model, kept_back, score))
            for score in (SCORES if weight is not None else ())
        }
        trained = recorder.with_transformer(attention_of(model, recorder.name).transformer)
        linked = sweep(Aligner(Direction(trained), too_long="blank"), text, gold)
        loss = loss_of(model, kept_back)
        say(f"{name}: loss {loss:.3f}" + (f", JSD {apart[asked.moved].js:.3f}" if apart else ""))
        return Measured(name, weight, loss, apart, linked)

    models = [measure("original", original)]
    for weight in asked.weights:
        models.append(measure(f"adversary {weight:g}", train(original, learnt_from, asked, weight), weight))
    return Finding(
        {"models": model_table(models), "layers": layer_table(models, recorder.heads)},
        {"aer": lambda: rate_figure(models, asked.moved)},
    )
