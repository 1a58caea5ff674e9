"""Train a link scorer: a small network that turns a model's shares into probabilities of links.

The links are those of better aligners, such as an ensemble's with their scores. The models stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from align.core.aligner import Aligner
from align.core.stream import BATCH_TOKENS, BUFFER, chunks, cut
from align.core.types import Pair
from align.models.link_scorer import Cells, Network, cells_of

BATCH = 32  # pairs of an update
RATE = 0.002  # highest learning rate
WARM_UP = 100  # updates after which it is reached
FALLING = 0.7  # share of the updates, the last ones, in which it falls to 0
LONGEST = 60  # words of either side of a pair that is trained on
EVERY = 20  # one in this number of pairs gets a run of one word
RUNS = (2, 8)  # fewest and most words of a run

NO_LINK = 0.1
"""Labels up to this are of words that are not linked, and those of linked ones have more than the rest of 1."""

Labels = Mapping[tuple[int, int], float]
"""Probabilities of the links of a pair, (source word, target word); others have 0."""


class Example(NamedTuple):
    """A pair to train on."""

    forward: Tensor  # shares of the source words for each target word [J, I]
    reverse: Tensor | None  # shares of the target words for each source word [I, J]; None with one model
    labels: Tensor  # probabilities of links [J, I]


def with_runs(labelled: Sequence[tuple[Pair, Labels]], random: Random) -> list[tuple[Pair, Labels]]:
    """Return pairs with labels, of which some have a run of one word, whose words only their places tell apart."""
    return [item if n % EVERY else _with_run(*item, random) for n, item in enumerate(labelled)]


def _with_run(pair: Pair, labels: Labels, random: Random) -> tuple[Pair, Labels]:
    """Return a pair, if it is short, with two words repeated that are linked to each other alone, linked in order."""
    counts = Counter(("source", i) for (i, _), score in labels.items() if score > NO_LINK)
    counts += Counter(("target", j) for (_, j), score in labels.items() if score > NO_LINK)
    alone = [
        (i, j)
        for (i, j), score in sorted(labels.items())
        if score > 1 - NO_LINK and counts["source", i] == counts["target", j] == 1
    ]
    if not alone or max(len(pair.source), len(pair.target)) + RUNS[1] > LONGEST:
        return pair, labels
    i, j = random.choice(alone)
    more = random.randint(*RUNS) - 1
    source, target = (
        (*words[:at], *words[at : at + 1] * more, *words[at:]) for words, at in ((pair.source, i), (pair.target, j))
    )
    moved = {(a + more * (a > i), b + more * (b > j)): score for (a, b), score in labels.items() if (a, b) != (i, j)}
    return replace(pair, source=source, target=target), moved | {(i + n, j + n): labels[i, j] for n in range(more + 1)}


def read_examples(aligner: Aligner, pairs: Iterable[tuple[Pair, Labels]]) -> Iterator[Example]:
    """Yield what a scorer is trained on; pairs that the models cannot read, or that are long, are left out.

    The aligner is of one model or of two, and its choices are fixed (`Aligner.fixed`).
    """

    def trained_on(pair: Pair) -> bool:
        return not pair.blank and max(len(pair.source), len(pair.target)) <= LONGEST

    reading = replace(aligner, too_long="blank")
    for chunk in chunks((item for item in pairs if trained_on(item[0])), BUFFER):
        encoded = [(reading.encode(pair), links) for pair, links in chunk]
        readable = [(of_pair, links) for of_pair, links in encoded if of_pair[0].pieces]
        shares: list[dict[int, Tensor]] = []  # of each direction [J, I], by number
        for n, (direction, choice) in enumerate(zip(aligner.directions, aligner.choices, strict=True)):
            shares.append({})
            for numbers, batch in cut([of_pair[n] for of_pair, _ in readable], BATCH_TOKENS):
                rows = direction.reader.shares(batch, choice.place).cpu()
                for number, pieces, row in zip(numbers, batch, rows, strict=True):
                    sources, targets = pieces.words
                    shares[-1][number] = row[:targets, :sources].half().clone()
        for number, (_, links) in enumerate(readable):
            of_directions = [of_direction[number] for of_direction in shares]
            labels = torch.zeros_like(of_directions[0])
            for (i, j), score in links.items():
                labels[j, i] = score
            yield Example(of_directions[0], of_directions[1] if len(shares) == 2 else None, labels)


def collate(examples: Sequence[Example], both: bool) -> tuple[Cells, Tensor]:
    """Return the network's input, and the labels of its pairs of words `[K]`.

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
    cells = cells_of(forward, reverse, sizes)
    return cells, labels.flatten()[cells.place]


def train_network(
    examples: Sequence[Example], epochs: int, seed: int, on_epoch: Callable[[int, float], None] = lambda *_: None
) -> Network:
    """Train a network; the loss is the binary cross-entropy of each pair of words that it sees.

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
            cells, labels = collate(batches[n], both=(n + epoch) % 2 == 0)
            loss = functional.binary_cross_entropy_with_logits(network(cells), labels, reduction="sum")
            count = sum(len(example.labels) for example in batches[n])
            optimizer.zero_grad()
            (loss / count).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses, words = losses + float(loss.detach()), words + count
        on_epoch(epoch, losses / words)
    return network.eval()
