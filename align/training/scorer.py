"""Train a link scorer: a small network that turns a model's shares into probabilities of links.

The links are those of better aligners, such as an ensemble's with their scores. The models stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from align.core.aligner import Aligner
from align.core.stream import BATCH_TOKENS, BUFFER, Encoded, chunks, cut, encode
from align.core.types import Pair
from align.models.link_scorer import Network, channels_of, real_cells

BATCH = 32
"""Pairs of an update."""

RATE = 0.002
"""Highest learning rate."""

WARM_UP = 100
"""Updates after which it is reached."""

FALLING = 0.7
"""Share of the updates, the last ones, in which it falls to 0."""

LONGEST = 60
"""Words of either side of a pair that is trained on."""

Labels = Mapping[tuple[int, int], float]
"""Probabilities of the links of a pair, (source word, target word); others have 0."""


class Example(NamedTuple):
    """A pair to train on."""

    forward: Tensor  # shares of the source words for each target word [J, I]
    reverse: Tensor | None  # shares of the target words for each source word [I, J]; None with one model
    labels: Tensor  # probabilities of links [J, I]


def read_examples(aligner: Aligner, pairs: Iterable[tuple[Pair, Labels]]) -> Iterator[Example]:
    """Yield what a scorer is trained on; pairs that the models cannot read, or that are long, are left out.

    The aligner is of one model or of two, and its choices are fixed (`Aligner.fixed`).
    """

    def trained_on(pair: Pair) -> bool:
        return not pair.blank and max(len(pair.source), len(pair.target)) <= LONGEST

    for chunk in chunks((item for item in pairs if trained_on(item[0])), BUFFER):
        text = [pair for pair, _ in chunk]
        swapped = [Pair(pair.target, pair.source, pair.id) for pair in text]
        shares: list[dict[int, Tensor]] = []  # of each direction [J, I], by number, of the pairs that it can read
        for direction, choice, side in zip(aligner.directions, aligner.choices, (text, swapped), strict=False):
            shares.append({})
            encoded: list[Encoded] = [encode(direction.recorder, pair, "blank") for pair in side]
            for numbers, batch in cut(encoded, BATCH_TOKENS):
                rows = direction.reader.shares(batch, choice.place).cpu()
                for n, pieces, row in zip(numbers, batch, rows, strict=True):
                    sources, targets = pieces.words
                    shares[-1][n] = row[:targets, :sources].half().clone()
        for n, (pair, links) in enumerate(chunk):
            if all(n in of_direction for of_direction in shares):
                labels = torch.zeros(len(pair.target), len(pair.source))
                for (i, j), score in links.items():
                    labels[j, i] = score
                reverse = shares[1][n] if len(shares) == 2 else None
                yield Example(shares[0][n], reverse, labels.half())


def collate(examples: Sequence[Example], both: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the network's input `[B, C, J, I]`, 1 for its pairs of words `[B, 1, J, I]`, and labels `[B, J, I]`.

    The input is of both directions if there are two and `both` is set.
    """
    sizes = [(example.labels.shape[1], example.labels.shape[0]) for example in examples]
    sources, targets = (max(size[side] for size in sizes) for side in (0, 1))

    def padded(matrices: Iterable[Tensor], rows: int, columns: int) -> Tensor:
        sides = ((matrix.float(), (0, columns - matrix.shape[1], 0, rows - matrix.shape[0])) for matrix in matrices)
        return torch.stack([functional.pad(*side) for side in sides])

    forward = padded((example.forward for example in examples), targets, sources)
    labels = padded((example.labels for example in examples), targets, sources)
    reverse = None
    if both and examples[0].reverse is not None:
        reverse = padded((example.reverse for example in examples if example.reverse is not None), sources, targets)
    return channels_of(forward, reverse, sizes), real_cells(sizes, forward.shape[1:]), labels


def train_network(
    examples: Sequence[Example], epochs: int, seed: int, on_epoch: Callable[[int, float], None] = lambda *_: None
) -> Network:
    """Train a network on pairs of words; the loss is the binary cross-entropy of each pair of words.

    With two models every other epoch of a batch sees the forward model alone, so that the scorer serves it, too.
    `on_epoch` receives the number of each epoch, from 1, and its mean loss per target word.
    """
    if not examples:
        raise ValueError("there are no pairs to train on")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network()
    network.state_dict()["leave.bias"].fill_(-3.0)  # most pairs of words are no links
    ordered = sorted(examples, key=lambda example: tuple(example.labels.shape))
    batches = [ordered[begin : begin + BATCH] for begin in range(0, len(ordered), BATCH)]
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.01)
    total, update, random = epochs * len(batches), 0, Random(seed)
    order = [*range(len(batches))]
    for epoch in range(1, epochs + 1):
        random.shuffle(order)
        losses, words = 0.0, 0.0
        for n in order:
            update += 1
            optimizer.param_groups[0]["lr"] = RATE * min(1, update / WARM_UP, (total - update + 1) / (FALLING * total))
            channels, real, labels = collate(batches[n], both=(n + epoch) % 2 == 0)
            cells = functional.binary_cross_entropy_with_logits(network(channels, real), labels, reduction="none")
            loss, count = (cells * real[:, 0]).sum(), real.amax(3).sum()
            optimizer.zero_grad()
            (loss / count).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses, words = losses + float(loss.detach()), words + float(count)
        on_epoch(epoch, losses / words)
    return network.eval()
