"""Train a reader of attention on the links of an ensemble: convolutions over the scores of all heads.

The models stay as they are. The channels of a pair of words are its share of the row in each head and layer, in both
positions, the soft score and the share that the model gives it by default, the distance from the diagonal, and whether
the words are equal. A small network turns them into the probability of a link. The labels are those of `distil`, in
whose folder they are looked for: the mean of both models' soft scores and of MGIZA's share. Gold is not used, and pairs
that are in a gold set are left out.

Rows are the models by themselves, and readers of one model or of several; p compares with the first model by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from random import Random

import torch
from common import find_experiment, load_directions, read_config, read_text, score_columns, score_row, write_table
from distil import FAINT, PART, training_pairs, write_labels, write_partner
from torch import Tensor, nn
from torch.nn import functional

from align import Aligner, Pair, Settings, load, two_way
from align.core.choice import all_cells
from align.core.scores import each_cell, soft_scores
from align.core.stream import BATCH_TOKENS, BUFFER, cut, encode
from align.core.types import THRESHOLD, Links
from align.evaluation.ensemble import mean_links
from align.evaluation.link_formats import parse_scored
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature

WIDTH = 32
"""Channels of the network."""

BATCH = 32
"""Pairs of an update."""

RATE = 0.002

LONGEST = 60
"""Words of either side of a pair that is trained on."""


class Network(nn.Module):
    """Convolutions over pairs of words, and the maxima of their rows and columns.

    Args:
        channels: of its input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(channels, WIDTH, 1)
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.lines = nn.Conv2d(2 * WIDTH, WIDTH, 1)
        self.leave = nn.Conv2d(WIDTH, 1, 1)
        nn.init.constant_(self.leave.bias, -3.0)  # type: ignore[arg-type]

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return the logits of links `[B, J, I]`.

        Args:
            x: channels `[B, C, J, I]`.
            words: 1 for pairs of words, 0 for padding `[B, 1, J, I]`.
        """
        hidden = self.enter(x).relu() * words
        hidden = (hidden + self.first(hidden).relu()) * words
        lines = [hidden.amax(side, keepdim=True).expand_as(hidden) for side in (3, 2)]
        hidden = (hidden + self.lines(torch.cat(lines, 1)).relu()) * words
        hidden = (hidden + self.second(hidden).relu()) * words
        logits: Tensor = self.leave(hidden)[:, 0]
        return logits


def channels_of(aligner: Aligner, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
    """Yield the number of each pair that a model can read, and its channels `[C, J, I]`."""
    direction = aligner.forward
    recorder, settings = direction.recorder, direction.settings
    encoded = [encode(recorder, pair, "blank") for pair in pairs]
    place = direction.choose([item for item in encoded if item.pieces][:BUFFER]).place
    cells = all_cells(recorder) if settings.position == "both" else []
    for numbers, batch in cut(encoded, BATCH_TOKENS):
        shares = direction.reader.shares(batch, place)  # [B, J, I]
        parts = [soft_scores(shares.clone())[:, None], (shares.clamp(min=1e-4).log() + 5)[:, None] / 5]
        if cells:
            for part in each_cell(recorder, batch, {"input": cells, "output": cells}, ["norm"], "eos"):
                rows = part.words / part.words.sum(-1, keepdim=True).clamp(min=1e-9)  # [B, C, J, I+1]
                parts.append((rows[..., :-1].clamp(min=1e-3).log() + 4) / 3)
        of_batch = torch.cat(parts, 1)
        for number, pieces, channels in zip(numbers, batch, of_batch, strict=True):
            sources, targets = pieces.words
            yield number, channels[:, :targets, :sources].half().clone()


def of_words(pair: Pair) -> Tensor:
    """Return the distance of each pair of words from the diagonal, and whether they are equal `[2, J, I]`."""
    sources, targets = len(pair.source), len(pair.target)
    distance = (torch.arange(sources) / sources - torch.arange(targets)[:, None] / targets).abs()
    lower = [[word.lower() for word in side] for side in (pair.source, pair.target)]
    equal = torch.tensor([[float(source == target) for source in lower[0]] for target in lower[1]])
    return torch.stack([distance, equal]).half()


def all_channels(models: Sequence[Aligner], pairs: Sequence[Pair]) -> list[Tensor | None]:
    """Return the channels of each pair from all models, which translate in one direction; None for unread pairs."""
    parts: list[list[Tensor]] = [[] for _ in pairs]
    for model in models:
        for number, channels in channels_of(model, pairs):
            parts[number].append(channels)
    return [
        torch.cat([*of_pair, of_words(pair)]) if len(of_pair) == len(models) else None
        for pair, of_pair in zip(pairs, parts, strict=True)
    ]


def collate(items: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the channels of a batch `[B, C, J, I]`, and 1 for its pairs of words `[B, 1, J, I]`."""
    targets, sources = (max(item.shape[side] for item in items) for side in (1, 2))
    pads = [(0, sources - item.shape[2], 0, targets - item.shape[1]) for item in items]
    padded = [functional.pad(item.float(), pad) for item, pad in zip(items, pads, strict=True)]
    words = [functional.pad(torch.ones(1, *item.shape[1:]), pad) for item, pad in zip(items, pads, strict=True)]
    return torch.stack(padded), torch.stack(words)


def train(pairs: Sequence[tuple[Tensor, Tensor]], epochs: int, seed: int) -> Network:
    """Train a network on channels and labels `[J, I]`; the rate falls to 0 in the last 70 % of the updates."""
    torch.manual_seed(seed)
    ordered = sorted(pairs, key=lambda pair: tuple(pair[1].shape))
    batches = [ordered[begin : begin + BATCH] for begin in range(0, len(ordered), BATCH)]
    network = Network(ordered[0][0].shape[0])
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.01)
    total, number, random = epochs * len(batches), 0, Random(seed)
    for _ in range(epochs):
        random.shuffle(batches)
        for batch in batches:
            number += 1
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1, number / 100, (total - number + 1) / (0.7 * total))
            x, words = collate([channels for channels, _ in batch])
            labels, _ = collate([label[None] for _, label in batch])
            losses = functional.binary_cross_entropy_with_logits(network(x, words), labels[:, 0], reduction="none")
            loss = (losses * words[:, 0]).sum() / words.amax(3).sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return network


def links_of(network: Network, pairs: Sequence[Tensor | None]) -> list[Links]:
    """Return the links of each pair, given by its channels, whose probability exceeds the default threshold."""
    network.eval()
    links: list[Links] = []
    with torch.inference_mode():
        for channels in pairs:
            cells = [] if channels is None else (network(*collate([channels]))[0].sigmoid() > THRESHOLD).nonzero()
            links.append(frozenset((int(source), int(target)) for target, source in cells))
    return links


def labels_of(folder: Path, pairs: Sequence[Pair]) -> Iterator[Tensor]:
    """Yield the mean of the labels in a folder of `distil` for each pair `[J, I]`."""
    lines = [line for path in sorted((folder / "labels").glob("[0-9]*.txt")) for line in path.read_text().splitlines()]
    partner = folder / "giza.txt"
    partners = partner.read_text().splitlines() if partner.exists() else []
    teachers = (lines[: len(pairs)], partners[: len(pairs)])
    for pair, of_pair in zip(pairs, zip_longest(*teachers, fillvalue=""), strict=True):
        label = torch.zeros(len(pair.target), len(pair.source))
        for (source, target), score in mean_links([parse_scored(line) for line in of_pair], 0).items():
            label[target, source] = score
        yield label


def run(
    data: Path,
    config: Path,
    experiment: str,
    folder: Path,
    models: Sequence[str],
    pairs: int,
    partner: int,
    epochs: int,
    seeds: Sequence[int],
    seed: int,
    threads: int,
    output: Path,
) -> None:
    """Label, train, measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    teachers = load_directions(about, data, too_long="blank")
    defaults = [replace(model, forward=replace(model.forward, settings=Settings())) for model in teachers]
    trained = training_pairs(settings, about, data, seed)
    labelled = two_way(defaults[0], defaults[1], threshold=FAINT).fixed(trained[:BUFFER])
    write_labels(folder / "labels", trained[: -(-pairs // PART) * PART], labelled)  # whole parts, which distil may read
    if partner:
        write_partner(folder / "giza.txt", trained[:partner], teachers[0].forward.recorder)
    trained = trained[:pairs]
    alone = {name: load(name, device="cpu", too_long="blank") for group in models for name in group.split("+")}
    counts = {
        name: count_all([frozenset(alignment.scores) for alignment in aligner(text.pairs)], text.gold)
        for name, aligner in alone.items()
    }
    labels = list(labels_of(folder, trained))
    for group in models:
        read = [alone[name] for name in group.split("+")]
        examples = [
            (channels, label)
            for channels, label in zip(all_channels(read, trained), labels, strict=True)
            if channels is not None and max(label.shape) <= LONGEST
        ]
        tested = all_channels(read, text.pairs)
        for number in seeds:
            links = links_of(train(examples, epochs, number), tested)
            counts[f"reader of {group}, seed {number}"] = count_all(links, text.gold)
    reference = counts[next(iter(alone))]
    rows: list[dict[str, Value]] = [
        {"system": name, **score_row(of_system, text, None if of_system is reference else reference)}
        for name, of_system in counts.items()
    ]
    names = [aligner.forward.recorder.name for aligner in alone.values()]
    sign = signature({"model": names, "pairs": f"{pairs}", "epochs": f"{epochs}"}, "reader")
    write_table([Column("system", "system"), *score_columns(text)], rows, sign, output / f"{experiment}.reader.tsv")
