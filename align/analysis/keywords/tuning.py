"""Fine-tunes an encoder end to end to mark key words.

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
from align.analysis.models.native import own_model
from align.core.stream import batches
from align.core.types import Pair

BATCH_TOKENS = 2000
"""Maximum number of pieces in a batch."""


class Sentence(NamedTuple):
    """A sentence as the pieces of an encoder.

    Attributes:
        ids: ids of the pieces.
        words: the word of each piece, from 0; SPECIAL for special pieces.
        place: positions of its words in the corpus.
    """

    ids: Sequence[int]
    words: Sequence[int]
    place: slice


Read = Callable[[Sequence[str]], tuple[Sequence[int], Sequence[int]] | None]


@dataclass(frozen=True)
class Encoder:
    """An encoder that can be trained.

    Attributes:
        module: the framework's own module, which contains the encoder.
        read: returns the pieces of a sentence and the word of each; None if the model cannot take them.
        vectors: returns the module's output `[B, S, D]` for ids `[B, S]` and a mask of non-padding pieces `[B, S]`.
        size: D.
        pad: id of padding.
    """

    module: Any
    read: Read
    vectors: Callable[[Any, Tensor, Tensor], Tensor]
    size: int
    pad: int


def own_encoder(model: Inspected) -> Encoder:
    """Return a copy of a model's encoder as its framework's own module.

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

    module = deepcopy(own_model(recorder)).float().requires_grad_(True)
    vectors = _transformers_vectors if hasattr(module, "get_encoder") else _fairseq_vectors
    size = recorder.transformer.encoder.layers[0].attention_block.out.weight().shape[0]
    return Encoder(module, read, vectors, size, recorder.pad)


def _bert_vectors(module: Any, ids: Tensor, mask: Tensor) -> Tensor:
    vectors: Tensor = module(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return vectors


def _fairseq_vectors(module: Any, ids: Tensor, mask: Tensor) -> Tensor:
    vectors: Tensor = module.encoder(ids, mask.sum(1))["encoder_out"][0]  # [S, B, D]
    return vectors.transpose(0, 1)


def _transformers_vectors(module: Any, ids: Tensor, mask: Tensor) -> Tensor:
    vectors: Tensor = module.get_encoder()(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return vectors


class Marker(torch.nn.Module):
    """An encoder with a linear layer that scores each word as a key word.

    Args:
        encoder: its module is trained.
    """

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


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random numbers in a context, and restore their state after it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def predict(marker: Marker, sentences: Sequence[Sentence], size: int) -> Doubles:
    """Return the logit of each of N words of the corpus; -inf for words that were not read `[N]`.

    Args:
        marker: the model; set to evaluation mode.
        sentences: sentences to read.
        size: N.
    """
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
        sentences: training sentences.
        gold: key words of the corpus `[N]`.
        epochs: number of passes over the sentences.
        rate: peak learning rate.
        seed: seed of the order of batches; dropout uses torch's global random numbers.

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
