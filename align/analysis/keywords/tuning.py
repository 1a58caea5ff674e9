"""An encoder fine-tuned to mark key words, end to end, and what it does without some of its heads.

Letters: B batch, S pieces, W words, D model size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from align.analysis.data.keyphrases import Corpus, Doubles, Marks
from align.analysis.maps import SPECIAL, Inspected
from align.analysis.models.encoder import EncoderModel
from align.core.batching import batches
from align.core.types import Pair

BATCH_TOKENS = 2000
"""Pieces in a batch."""


class Sentence(NamedTuple):
    """A sentence as an encoder reads it.

    Attributes:
        ids: of its pieces.
        words: the word of each piece, from 0; SPECIAL for those of none.
        place: where its words stand in the corpus.
    """

    ids: Sequence[int]
    words: Sequence[int]
    place: slice


Read = Callable[[Sequence[str]], tuple[Sequence[int], Sequence[int]] | None]


@dataclass(frozen=True)
class Encoder:
    """An encoder that can be trained.

    Attributes:
        module: a framework's own, which has the encoder inside.
        read: pieces of a sentence and the word of each; None where the model does not take them.
        vectors: what the module makes of ids `[B, S]`, and where there are any `[B, S]`: `[B, S, D]`.
        size: D.
        pad: id of padding.
    """

    module: Any
    read: Read
    vectors: Callable[[Any, Tensor, Tensor], Tensor]
    size: int
    pad: int


def own_encoder(model: Inspected) -> Encoder:
    """The encoder of a model as its framework's own module, a copy that may be changed.

    Raises:
        ValueError: the framework cannot build it.
        ModuleNotFoundError: the framework is not installed.
    """
    if isinstance(model, EncoderModel):
        module = deepcopy(model.model).requires_grad_(True)
        return Encoder(module, model.pieces, _bert_vectors, module.config.hidden_size, module.config.pad_token_id)
    recorder: Any = model.recorder  # type: ignore[attr-defined]

    def read(words: Sequence[str]) -> tuple[Sequence[int], Sequence[int]] | None:
        pieces = recorder.encode(Pair(tuple(words), (), 0))
        fits = len(pieces.source) <= recorder.max_positions[0] and max(pieces.source_words) >= 0
        return (pieces.source, pieces.source_words) if fits else None

    module = deepcopy(recorder.own_model()).float().requires_grad_(True)
    vectors = _transformers_vectors if hasattr(module, "get_encoder") else _fairseq_vectors
    size = recorder.transformer.encoder.layers[0].attention_block.out.weight().shape[0]
    return Encoder(module, read, vectors, size, recorder.pad)


def _bert_vectors(module: Any, ids: Tensor, kept: Tensor) -> Tensor:
    found: Tensor = module(input_ids=ids, attention_mask=kept.long()).last_hidden_state
    return found


def _fairseq_vectors(module: Any, ids: Tensor, kept: Tensor) -> Tensor:
    found: Tensor = module.encoder(ids, kept.sum(1))["encoder_out"][0]  # [S, B, D]
    return found.transpose(0, 1)


def _transformers_vectors(module: Any, ids: Tensor, kept: Tensor) -> Tensor:
    found: Tensor = module.get_encoder()(input_ids=ids, attention_mask=kept.long()).last_hidden_state
    return found


class Marker(torch.nn.Module):
    """An encoder, and a linear layer that says of each word how likely it is a key word.

    Args:
        encoder: whose module is trained.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder, self.module = encoder, encoder.module
        self.linear = torch.nn.Linear(encoder.size, 1).to(next(encoder.module.parameters()).device)

    def forward(self, ids: Tensor, words: Tensor) -> Tensor:
        """Of ids and words of pieces `[B, S]`, where pads have the word SPECIAL - 1; logits `[B, W]`."""
        vectors = self.encoder.vectors(self.module, ids, words >= SPECIAL)  # [B, S, D]
        numbers = torch.arange(int(words.max()) + 1, device=ids.device)  # [W]
        share = (words[:, None] == numbers[:, None]).float()  # [B, W, S]
        mean = share / share.sum(2, keepdim=True).clamp(min=1)  # [B, W, S]
        logits: Tensor = self.linear(mean @ vectors)[..., 0]  # [B, W]
        return logits


def _padded(sentences: Sequence[Sentence], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and words of a batch `[B, S]`."""
    longest = max(len(one.ids) for one in sentences)
    ids = torch.tensor([[*one.ids, *[pad] * (longest - len(one.ids))] for one in sentences], device=device)
    words = [[*one.words, *[SPECIAL - 1] * (longest - len(one.words))] for one in sentences]
    return ids, torch.tensor(words, device=device)


def read_sentences(corpus: Corpus, split: str, read: Read) -> Iterator[Sentence]:
    """The sentences of a part of the data that an encoder can read, as its pieces."""
    for n in corpus.numbers(split):
        start = corpus.places[n].start
        for words in corpus.documents[n].sentences:
            if pieces := read(words):
                yield Sentence(*pieces, slice(start, start + len(words)))
            start += len(words)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """With torch's random numbers from this seed on; later ones are as if nothing had been drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def predict(marker: Marker, sentences: Sequence[Sentence], size: int) -> Doubles:
    """How likely each word is a key word: logits `[N]`, of N words in the corpus; -inf for those not read.

    Args:
        marker: is put into evaluation mode.
        sentences: to read.
        size: N.
    """
    found = np.full(size, -np.inf)
    marker.eval()
    device = marker.linear.weight.device
    with torch.no_grad():
        for batch in batches([(len(one.ids), 0) for one in sentences], BATCH_TOKENS):
            chosen = [sentences[n] for n in batch]
            logits = marker(*_padded(chosen, marker.encoder.pad, device)).double().numpy(force=True)
            for one, row in zip(chosen, logits, strict=True):
                there = [word for word in dict.fromkeys(one.words) if word != SPECIAL]
                found[one.place.start + np.array(there)] = row[there]
    return found


def tune(
    marker: Marker, sentences: Sequence[Sentence], gold: Marks, epochs: int, rate: float, seed: int
) -> Iterator[float]:
    """Train encoder and classifier together by Adam, the rate going up for a tenth of the way, then down to zero.

    Args:
        marker: is changed.
        sentences: to learn from.
        gold: whether each word of the corpus is a key word `[N]`.
        epochs: how often to go through them.
        rate: Adam's highest.
        seed: of the order of batches; dropout draws torch's own numbers.

    Yields:
        The mean loss of each epoch, when it is over.
    """
    device = marker.linear.weight.device
    groups = list(batches([(len(one.ids), 0) for one in sentences], BATCH_TOKENS))
    weights = [weight for weight in marker.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    updates = epochs * len(groups)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / (0.1 * updates), 1 - n / updates))
    numbers = np.random.default_rng(seed)
    for _ in range(epochs):
        marker.train()
        total = words = 0.0
        for group in numbers.permutation(len(groups)):
            chosen = [sentences[n] for n in groups[group]]
            ids, of_word = _padded(chosen, marker.encoder.pad, device)
            logits = marker(ids, of_word)  # [B, W]
            there = (of_word[:, None] == torch.arange(logits.shape[1], device=device)[:, None]).any(2)  # [B, W]
            wanted = torch.zeros_like(logits)
            for row, one in enumerate(chosen):
                marks = torch.from_numpy(gold[one.place][: logits.shape[1]]).to(wanted)
                wanted[row, : len(marks)] = marks
            loss = functional.binary_cross_entropy_with_logits(logits[there], wanted[there])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            falling.step()
            total += loss.item() * int(there.sum())
            words += int(there.sum())
        yield total / words
