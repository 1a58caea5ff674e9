"""Fine-tunes an encoder end to end to mark key words, and measures F1 as its heads are masked one after another.

Letters: B batch, S pieces, W words of a sentence, N words of all documents, D model size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from align.analysis.data.keyphrases import DEV, TEST, TRAIN, Corpus, Doubles, Marks
from align.analysis.keywords.scores import Judged, Plan, best_threshold, f1_of, judge_marks
from align.analysis.maps import SPECIAL, Inspected
from align.analysis.models.encoder import EncoderModel
from align.analysis.models.heads import AttentionHead, attention_blocks, masked
from align.analysis.models.native import own_model
from align.core.stream import batches
from align.core.types import Pair

BATCH_TOKENS = 2000
"""Maximum number of pieces in a batch."""


class Sentence(NamedTuple):
    """A sentence as the pieces of an encoder."""

    ids: Sequence[int]  # ids of the pieces
    words: Sequence[int]  # the word of each piece, from 0; SPECIAL for special pieces
    place: slice  # positions of its words in the corpus


Read = Callable[[Sequence[str]], tuple[Sequence[int], Sequence[int]] | None]


class Encoder(NamedTuple):
    """An encoder that can be trained."""

    module: Any  # the framework's own module, which contains the encoder
    read: Read  # returns the pieces of a sentence and the word of each; None if the model cannot take them
    # returns the module's output `[B, S, D]` for ids `[B, S]` and a mask of non-padding pieces `[B, S]`
    vectors: Callable[[Any, Tensor, Tensor], Tensor]
    size: int  # D
    pad: int  # id of padding


def own_encoder(model: Inspected) -> Encoder:
    """Return a copy of a model's encoder as its framework's own module."""

    def run_transformers(encoder: Any, ids: Tensor, mask: Tensor) -> Any:
        return encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state

    if isinstance(model, EncoderModel):
        module = deepcopy(model.model).requires_grad_(True)
        return Encoder(module, model.pieces, run_transformers, module.config.hidden_size, module.config.pad_token_id)
    recorder: Any = model.recorder  # type: ignore[attr-defined]

    def read(words: Sequence[str]) -> tuple[Sequence[int], Sequence[int]] | None:
        pieces = recorder.encode(Pair(tuple(words), (), 0))
        fits = len(pieces.source) <= recorder.max_positions[0] and max(pieces.source_words) >= 0
        return (pieces.source, pieces.source_words) if fits else None

    def run(module: Any, ids: Tensor, mask: Tensor) -> Any:
        if hasattr(module, "get_encoder"):
            return run_transformers(module.get_encoder(), ids, mask)
        return module.encoder(ids, mask.sum(1))["encoder_out"][0].transpose(0, 1)  # fairseq's is [S, B, D]

    module = deepcopy(own_model(recorder)).float().requires_grad_(True)
    size = recorder.transformer.encoder.layers[0].attention_block.out.weight().shape[0]
    return Encoder(module, read, run, size, recorder.pad)


class Marker(torch.nn.Module):
    """An encoder, whose module is trained, with a linear layer that scores each word as a key word."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder, self.module = encoder, encoder.module
        self.linear = torch.nn.Linear(encoder.size, 1).to(next(encoder.module.parameters()).device)

    def forward(self, ids: Tensor, words: Tensor) -> Tensor:
        """Return the logits of words `[B, W]`.

        Args:
            ids: ids of pieces `[B, S]`.
            words: word of each piece, SPECIAL - 1 for padding `[B, S]`.
        """
        vectors = self.encoder.vectors(self.module, ids, words >= SPECIAL)  # [B, S, D]
        numbers = torch.arange(int(words.max()) + 1, device=ids.device)  # [W]
        share = (words[:, None] == numbers[:, None]).float()  # [B, W, S]
        mean = share / share.sum(2, keepdim=True).clamp(min=1)  # [B, W, S]
        logits: Tensor = self.linear(mean @ vectors)[..., 0]  # [B, W]
        return logits


def _padded(sentences: Sequence[Sentence], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pad sentences to a batch: ids and words of pieces `[B, S]`."""
    longest = max(len(sentence.ids) for sentence in sentences)
    ids = torch.tensor(
        [[*sentence.ids, *[pad] * (longest - len(sentence.ids))] for sentence in sentences], device=device
    )
    words = [[*sentence.words, *[SPECIAL - 1] * (longest - len(sentence.words))] for sentence in sentences]
    return ids, torch.tensor(words, device=device)


def read_sentences(corpus: Corpus, split: str, read: Read) -> Iterator[Sentence]:
    """Yield the sentences of a part of the data that an encoder can read."""
    for n in corpus.numbers(split):
        start = corpus.places[n].start
        for words in corpus.documents[n].sentences:
            if pieces := read(words):
                yield Sentence(*pieces, slice(start, start + len(words)))
            start += len(words)


def predict(marker: Marker, sentences: Sequence[Sentence], size: int) -> Doubles:
    """Return the logit of each of N words of the corpus, of which `size` is the number; -inf for unread words `[N]`."""
    scores = np.full(size, -np.inf)
    marker.eval()
    device = marker.linear.weight.device
    with torch.no_grad():
        for batch in batches([(len(sentence.ids), 0) for sentence in sentences], BATCH_TOKENS):
            chosen = [sentences[n] for n in batch]
            logits = marker(*_padded(chosen, marker.encoder.pad, device)).double().numpy(force=True)
            for sentence, row in zip(chosen, logits, strict=True):
                there = [word for word in dict.fromkeys(sentence.words) if word != SPECIAL]
                scores[sentence.place.start + np.array(there)] = row[there]
    return scores


def tune(
    marker: Marker, sentences: Sequence[Sentence], gold: Marks, epochs: int, rate: float, seed: int
) -> Iterator[float]:
    """Train encoder and linear layer together by AdamW.

    The learning rate rises for a tenth of the updates, then falls to 0.

    Args:
        marker: the model, changed in place.
        gold: key words of the corpus `[N]`.
        rate: peak learning rate.

    Yields:
        The mean loss of each epoch, after the epoch.
    """
    device = marker.linear.weight.device
    groups = list(batches([(len(sentence.ids), 0) for sentence in sentences], BATCH_TOKENS))
    weights = [weight for weight in marker.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    updates = epochs * len(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / (0.1 * updates), 1 - n / updates))
    numbers = np.random.default_rng(seed)
    for _ in range(epochs):
        marker.train()
        total = words = 0.0
        for group in numbers.permutation(len(groups)):
            chosen = [sentences[n] for n in groups[group]]
            ids, of_word = _padded(chosen, marker.encoder.pad, device)
            logits = marker(ids, of_word)  # [B, W]
            there = (of_word[:, None] == torch.arange(logits.shape[1], device=device)[:, None]).any(2)  # [B, W]
            labels = torch.zeros_like(logits)
            for row, sentence in enumerate(chosen):
                marks = torch.from_numpy(gold[sentence.place][: logits.shape[1]]).to(labels)
                labels[row, : len(marks)] = marks
            loss = functional.binary_cross_entropy_with_logits(logits[there], labels[there])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * int(there.sum())
            words += int(there.sum())
        yield total / words


STEPS = 6
"""Maximum number of steps in which heads are masked."""


class Tuned(NamedTuple):
    """Results of fine-tuning, and F1 of the model without some heads."""

    # loss on the training part and F1 on the development part, for each epoch
    epochs: list[tuple[float, float]]
    judged: Judged  # scores of the best epoch's marks on the test part
    removed: list[int]  # numbers of masked heads, from none to all
    worst: list[float]  # F1 on the test part, with the worst heads masked first
    best: list[float]  # F1 on the test part, with the best heads masked first
    random: Doubles  # F1 on the test part, with heads masked in R random orders `[R, steps]`


def ablate(model: Inspected, corpus: Corpus, ranked: NDArray[np.int64], plan: Plan) -> Tuned:
    """Fine-tune a copy of the model's encoder, and mask its heads.

    Args:
        model: model of a framework, whose own module is trained; see `own_encoder`.
        ranked: cells of the encoder, the best first.
    """
    encoder = own_encoder(model)
    sentences = {split: list(read_sentences(corpus, split, encoder.read)) for split in (TRAIN, DEV, TEST)}
    with torch.random.fork_rng():
        torch.manual_seed(plan.seed)
        marker = Marker(encoder)
        epochs, threshold = train(marker, corpus, sentences[TRAIN], sentences[DEV], plan)
    test = corpus.within(TEST)

    def marks() -> Marks:
        return test & (predict(marker, sentences[TEST], len(test)) >= threshold)

    blocks = [block for block in attention_blocks(encoder.module) if block.part == "encoder"]
    heads = model.shape["encoder"][1]
    order = [AttentionHead("encoder", int(cell) // heads + 1, int(cell) % heads + 1) for cell in ranked]
    removed = sorted({round(len(order) * n / STEPS) for n in range(STEPS + 1)})

    @cache
    def without(heads: frozenset[AttentionHead]) -> float:
        with masked(blocks, heads):
            return f1_of(marks()[test], corpus.gold[test])

    def curve(order: Sequence[AttentionHead]) -> list[float]:
        return [without(frozenset(order[:count])) for count in removed]

    numbers = np.random.default_rng(plan.seed)
    random = [curve([order[n] for n in numbers.permutation(len(order))]) for _ in range(plan.orders)]
    judged = judge_marks(corpus, marks(), plan.samples, plan.seed)
    by_order = np.array(random).reshape(len(random), len(removed))
    return Tuned(epochs, judged, removed, curve(order[::-1]), curve(order), by_order)


def train(
    marker: Marker, corpus: Corpus, sentences: Sequence[Sentence], dev: Sequence[Sentence], plan: Plan
) -> tuple[list[tuple[float, float]], float]:
    """Train a marker, and restore its state after the epoch that is best on the development part.

    Returns:
        Loss of each epoch and its F1 on the development part, and the score from which words are marked.
    """
    within = corpus.within(DEV)
    gold = corpus.gold[within]
    epochs: list[tuple[float, float]] = []
    best, threshold, best_state = -1.0, 0.0, marker.state_dict()
    for loss in tune(marker, sentences, corpus.gold, plan.epochs, plan.rate, plan.seed):
        scores = predict(marker, dev, len(within))[within]
        chosen = best_threshold(scores, gold)
        epochs.append((loss, f1_of(scores >= chosen, gold)))
        if epochs[-1][1] > best:
            best, threshold, best_state = epochs[-1][1], chosen, deepcopy(marker.state_dict())
    marker.load_state_dict(best_state)
    return epochs, threshold
