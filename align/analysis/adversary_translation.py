"""Tests whether a translation model's cross-attention is exclusive, and aligns words after it has moved.

A copy of a trained model learns to predict what the model predicts while its cross-attention moves away; only queries
and keys of cross-attention learn, so that only the decoder's attention to the source can change. Then links are read
from both.

Letters: B sentence pairs, T steps of the decoder, S source pieces, L layers, H heads in each, N steps in all, V pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from align.analysis.adversary import Distance, Output, adversarial_loss, distance
from align.analysis.commands.common import Answer, load_aligner, names_of, progress_of
from align.analysis.commands.questions import AdversaryTranslation
from align.analysis.models.native import own_model
from align.analysis.plots import curves
from align.analysis.recording import split_heads
from align.cli.loading import Request
from align.core.aligner import Aligner, Direction
from align.core.errors import DataError
from align.core.scores import collate
from align.core.stream import cut, encode
from align.core.types import Gold, Pair, Score
from align.evaluation.gold import read_as
from align.evaluation.metrics import estimate
from align.evaluation.sweep import POSITIONS, SCORES, sweep
from align.evaluation.tables import interval, percent
from align.io.checks import open_text
from align.io.reader import Input, name_shown, read_text
from align.models.fairseq.architecture import attention_of
from align.models.recorder import ModelRecorder
from align.view.findings import Finding, make_table

RATE = 3e-3  # initial learning rate; it falls to 0
BATCH_TOKENS = 1000  # maximum number of pieces in a batch
MIN_WEIGHT = 1e-30  # lower bound of weights before their logarithm is taken


class Forced(NamedTuple):
    """A batch under teacher forcing: source ids `[B, S]`; decoder inputs, targets and mask of steps `[B, T]`."""

    source: Tensor
    steps: Tensor
    target: Tensor
    mask: Tensor


def forced(recorder: ModelRecorder, pairs: Sequence[Pair], tokens: int, file: str = "") -> list[Forced]:
    """Return a text in batches of at most so many tokens, without pairs that are blank, or too long for the model."""
    encoded = [encode(recorder, pair, "blank") for pair in pairs]
    batches = []
    for _, pieces in cut(encoded, tokens):
        source, steps = recorder.padded(collate(pieces, recorder.pad))
        target = torch.nn.functional.pad(steps.ids[:, 1:], (0, 1), value=recorder.pad)
        end = recorder.start[0]  # </s>, which a decoder begins with
        target[torch.arange(len(target)), steps.kept.sum(1) - 1] = end
        batches.append(Forced(source.ids, steps.ids, target, steps.kept))
    if not batches:
        raise DataError("there is no pair that the model can read: all are blank, or too long for it", file=file)
    return batches


@contextmanager
def recorded(model: Any) -> Iterator[list[Tensor]]:
    """Record cross-attention of fairseq's model: each pass appends that of each layer to the list `[H, B, T, S]`."""
    maps: list[Tensor] = []

    def ask(module: Any, arguments: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return arguments, {**named, "need_head_weights": True}

    with ExitStack() as stack:
        for layer in model.decoder.layers:
            attention = layer.encoder_attn
            for handle in (
                attention.register_forward_pre_hook(ask, with_kwargs=True),
                attention.register_forward_hook(lambda module, arguments, output: maps.append(output[1])),
            ):
                stack.callback(handle.remove)
        yield maps


def run(model: Any, batch: Forced, attention: list[Tensor], score: Score = "weight") -> tuple[Tensor, Tensor]:
    """Return a model's log-probabilities of pieces `[N, V]`, and logarithms of its cross-attention `[N, L H, S]`.

    Args:
        attention: the list that `recorded` yields for this model.
        score: "weight" for attention weights, "norm" for norms of weighted vectors as shares of their row's sum.
    """
    attention.clear()
    with torch.no_grad():
        lengths = torch.full((len(batch.source),), batch.source.shape[1])
        encoded = model.encoder(batch.source, lengths)  # nothing in it learns
    features, _ = model.decoder(batch.steps, encoder_out=encoded, features_only=True)  # [B, T, D]
    log_probabilities = model.decoder.output_layer(features[batch.mask]).log_softmax(-1)  # [N, V]
    weights = torch.stack(attention)  # [L, H, B, T, S]
    if score == "norm":
        norms = []  # `||f(x)||` of the encoder's output for each head of a layer `[H, B, S]`
        with torch.no_grad():
            for layer in model.decoder.layers:
                module = layer.encoder_attn
                values = module.v_proj(encoded["encoder_out"][0])  # [S, B, H d]
                values = values.view(*values.shape[:2], module.num_heads, -1)
                values = values.permute(2, 1, 0, 3)  # [H, B, S, d]
                outs = split_heads(module.out_proj.weight, module.num_heads)  # [H, d, D]
                pairs = zip(values, outs, strict=True)
                norms.append(torch.stack([(vectors @ out).norm(dim=-1) for vectors, out in pairs]))
        weights = weights * torch.stack(norms)[:, :, :, None]
        weights = weights / weights.sum(-1, keepdim=True)
    by_step = weights.flatten(0, 1).permute(1, 2, 0, 3)[batch.mask]  # [N, L H, S]
    return log_probabilities, by_step.clamp_min(MIN_WEIGHT).log()


def train(original: Any, batches: Sequence[Forced], options: AdversaryTranslation, weight: float) -> Any:
    """Return a copy of fairseq's model, trained to move its cross-attention by lambda; see `adversarial_loss`."""
    model = deepcopy(original)
    learnt = [
        parameter.requires_grad_()
        for layer in model.decoder.layers
        for part in (layer.encoder_attn.q_proj, layer.encoder_attn.k_proj)
        for parameter in part.parameters()
    ]
    optimizer = torch.optim.Adam(learnt, RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, options.updates)
    draw = torch.Generator().manual_seed(options.seed)
    with recorded(original) as before, recorded(model) as after:
        order: list[int] = []
        for _ in range(options.updates):
            order = order or torch.randperm(len(batches), generator=draw).tolist()
            batch = batches[order.pop()]
            with torch.no_grad():
                expected, expected_attention = run(original, batch, before, options.move)
            said, attention = run(model, batch, after, options.move)
            optimizer.zero_grad()
            loss = adversarial_loss(said, expected, attention, expected_attention, weight, options.divergence)
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return model.requires_grad_(False)


@torch.no_grad()
def loss_of(model: Any, batches: Sequence[Forced]) -> float:
    """Return the mean negative log-likelihood of the target's pieces, `</s>` included, in nats."""
    total, count = 0.0, 0
    with recorded(model) as attention:
        for batch in batches:
            said, _ = run(model, batch, attention)
            total += float(torch.nn.functional.nll_loss(said, batch.target[batch.mask], reduction="sum"))
            count += len(said)
    return total / count


@torch.no_grad()
def outputs(model: Any, batches: Sequence[Forced], score: Score = "weight") -> Iterator[Output]:
    """Yield a model's predictions for each batch, as one row of steps, and its attention `[L H, N, S]`."""
    with recorded(model) as attention:
        for batch in batches:
            said, by_step = run(model, batch, attention, score)
            yield said.exp().numpy(), by_step.exp().transpose(0, 1).numpy()


def moved(
    recorder: ModelRecorder,
    tuning: Sequence[Pair],
    held_out: Sequence[Pair],
    text: Sequence[Pair],
    gold: Sequence[Gold],
    options: AdversaryTranslation,
    say: Callable[[str], None] = lambda name: None,
    file: str = "",
) -> Finding:
    """Move a model's cross-attention as far as it can by `tuning`, and measure its loss and its links."""
    original = own_model(recorder)
    training_batches = forced(recorder, tuning, BATCH_TOKENS, file)
    held_out_batches = forced(recorder, held_out, BATCH_TOKENS, file)
    by_model: list[dict[str, Any]] = []
    by_layer: list[dict[str, Any]] = []
    for weight in (None, *sorted(options.lambdas)):
        model, name = original, "original"
        distances: dict[Score, Distance] = {}  # from the original, by the score that attention is measured by
        if weight is not None:
            model, name = train(original, training_batches, options, weight), f"adversary {weight:g}"
            for score in SCORES:
                both = (outputs(each, held_out_batches, score) for each in (original, model))
                distances[score] = distance(*both)
        trained = recorder.with_transformer(attention_of(model, recorder.name).transformer)
        swept = sweep(Aligner(Direction(trained), too_long="blank"), text, gold)
        loss = loss_of(model, held_out_batches)
        say(f"{name}: loss {loss:.3f}" + (f", JSD {distances[options.move].js:.3f}" if distances else ""))

        by_weight = distances.get("weight")
        row: dict[str, Any] = {"model": name, "lambda": weight, "loss": loss, "tvd": by_weight and by_weight.tvd}
        row["ranks"] = by_weight and by_weight.ranks
        of_layers = np.array([cell.head == "all" for cell in swept.cells])
        rates = 100 * swept.rates()  # [2, 2, C]
        assert swept.counts is not None
        for n, score in enumerate(SCORES):
            # the position and the layer whose links are most consistent, without gold
            consistency = np.where(of_layers, swept.consistency[n], -np.inf)  # [2, C]
            position, cell = map(int, np.unravel_index(np.argmax(consistency), consistency.shape))
            rate = estimate(swept.counts[:, n, position, cell], "aer")
            row[f"js_{score}"] = distances[score].js if distances else None
            row[score] = percent(rate.value)
            row[f"{score}_interval"] = interval(percent(rate.low), percent(rate.high))
            row[f"{score}_place"] = f"{POSITIONS[position]}, layer {swept.cells[cell].layer}"
            row[f"{score}_lowest"] = np.nanmin(rates[n][:, of_layers])
        by_model.append(row)
        unlinked = 100 * swept.null[:, POSITIONS.index("input")] / max(1, swept.target_words)
        for cell in np.flatnonzero(of_layers).tolist():
            row = {"model": name, "layer": swept.cells[cell].layer}
            heads = slice((row["layer"] - 1) * recorder.heads, row["layer"] * recorder.heads)
            for n, score in enumerate(SCORES):
                row[f"js_{score}"] = distances[score].heads[heads].mean() if distances else None
                row |= {f"{score}_{position}": rates[n, m, cell] for m, position in enumerate(POSITIONS)}
                row[f"{score}_null"] = unlinked[n, cell]
            by_layer.append(row)

    of_scores = " | ".join(
        f"{score}: AER, {score} .1 | {score}_interval: interval, {score} .1 + | {score}_place: read at, {score} + | "
        f"{score}_lowest: lowest, {score} .1 +"
        for score in SCORES
    )
    moves = " | ".join(f"js_{score}: JSD, {score} .3" for score in SCORES)
    columns = [f"{score}_{position}: AER, {score}, {position} .1" for score in SCORES for position in POSITIONS]
    columns += [f"{score}_null: no link, {score}, input .1" for score in SCORES]
    tables = {
        "models": make_table(
            f"model | lambda + | loss .3 | tvd: TVD .3 | {moves} | ranks: rank corr. .2 + | {of_scores}",
            by_model,
            "loss: nats a piece, of text held out; TVD of predictions, JSD and rank correlation of attention: "
            "from the original; JSD by norm: of shares of a row's weighted norms",
            "AER, %, of the layer and position whose links are most consistent (without gold); lowest: of all layers",
        ),
        "layers": make_table(
            f"model | layer | {moves} | {' | '.join(columns)}",
            by_layer,
            "AER, %, of all heads of a layer together; no link: of target words, %, because </s> has the largest score",
            wide=True,
        ),
    }
    lines = {
        f"AER, {score}": np.array([(row[f"js_{options.move}"] or 0.0, row[score]) for row in by_model], float)
        for score in SCORES
    }
    x = f"JSD of cross-attention by {options.move}, nats"
    return Finding(tables, {"aer": partial(curves, lines, x, "AER, %", "")})


def answer(question: AdversaryTranslation, request: Request) -> Answer:
    """Answer the question of `extract-align analyse adversary-translation`."""
    files = (question.tune_source, question.tune_target)
    with open_text(Input(files, parallel=True)) as lines:
        tuning = list(islice(lines, question.pairs + question.held_out))
    if len(tuning) <= question.pairs:
        raise DataError(f"{len(tuning):,} lines: none is left to measure on", file=name_shown(files[0]))
    sides = question.source, question.target
    text = read_text(*sides, (name_shown(sides[0]), name_shown(sides[1])))
    shown = name_shown(str(question.gold))
    gold = read_as("gold", str(question.gold), question.options, text, shown)
    if not any(pair.possible for pair in gold.pairs):
        raise DataError("no sentence has a link", file=shown)
    recorder: Any = load_aligner(request).forward.recorder
    if recorder.backend != "fairseq":
        raise DataError(f"{recorder.name}: only models of fairseq can be trained here")
    file = " and ".join(map(name_shown, files))
    halves = tuning[: question.pairs], tuning[question.pairs :]
    return moved(recorder, *halves, text, gold.pairs, question, progress_of(request), file), {
        "model": recorder.name,
        "tuned": f"{names_of(files[0])}({question.pairs})",
        "held-out": len(tuning) - question.pairs,
        "text": names_of(question.source),
        "n": len(text),
        "gold": gold.kind,
        "lambda": ",".join(f"{weight:g}" for weight in sorted(question.lambdas)),
    }
