"""Turn the shares of one model or of two into probabilities of links, with a small network trained on given links.

Without a link scorer `align.core.scores.soft_scores` does this. The network sees the same shares, those soft scores
and the distance of two words from the diagonal; it does not see the words, or the model's states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from align.core.aligner import Aligner, Direction
from align.core.errors import ModelError, one_line, printable, shorten
from align.core.scores import soft_scores
from align.core.types import Pieces, Settings
from align.models.folder import GENERAL_SCORER
from align.models.recorder import file_digest

FORMAT = "extract-align scorer 2"  # value of `format` in the file's metadata
CHANNELS = 4  # of the input: soft score, logarithms of both directions' shares, distance from the diagonal
WIDTH = 32  # channels of the network
LARGEST = 1 << 20  # bytes of a file, at most

CELLS = 1 << 10
"""Pairs of words that are convolved together: few enough that nine times their channels stay in a processor's cache."""

LEAST = 0.01
"""Share that a pair of words must exceed in a direction to be seen by the network; others have the probability 0."""


class Cells(NamedTuple):
    """The K pairs of words of a batch that the network sees; see `cells_of`."""

    place: Tensor  # of each in the flattened shares, ascending [K]
    channels: Tensor  # the network's input [K, CHANNELS]
    around: Tensor  # numbers of each one's 3 x 3 neighbours, itself included; K where the network sees none [K, 9]
    lines: Tensor  # target word, source word and sentence pair of each, numbered one after the other [K, 3]
    counts: tuple[int, int, int]  # numbers of target words, source words and pairs, padding included


class Network(nn.Module):
    """Convolutions over the matrix of word pairs, and the maxima of its rows and columns, with residuals.

    It computes nothing for pairs of words that it does not see; for convolutions and maxima they are 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(CHANNELS, WIDTH)
        self.first = nn.Linear(9 * WIDTH, WIDTH)
        self.rows = nn.Linear(WIDTH, WIDTH)
        self.columns = nn.Linear(WIDTH, WIDTH, bias=False)
        self.pairs = nn.Linear(WIDTH, WIDTH, bias=False)
        self.second = nn.Linear(9 * WIDTH, WIDTH)
        self.leave = nn.Linear(WIDTH, 1)

    def forward(self, cells: Cells) -> Tensor:
        """Return the log odds of links `[K]`."""
        hidden = self.enter(cells.channels).relu_()
        hidden = hidden + convolve(self.first, hidden, cells.around)
        table = [
            self.rows(maxima(hidden, cells, 0)),
            self.columns(maxima(hidden, cells, 1)),
            self.pairs(means(hidden, cells)),
        ]
        hidden = hidden + functional.embedding_bag(cells.lines, torch.cat(table), mode="sum").relu_()
        hidden = hidden + convolve(self.second, hidden, cells.around)
        log_odds: Tensor = self.leave(hidden)[:, 0]
        return log_odds


def convolve(layer: nn.Linear, hidden: Tensor, around: Tensor) -> Tensor:
    """Return the positive part of a convolution of cells with their neighbours `[K, WIDTH]`."""
    table = functional.pad(hidden, (0, 0, 0, 1))  # its last row is 0
    parts = (functional.embedding(part, table).flatten(1) for part in torch.split(around, CELLS))
    return torch.cat([layer(part).relu_() for part in parts])


def maxima(hidden: Tensor, cells: Cells, side: int) -> Tensor:
    """Return the maximum of the cells of each target word (side 0) or source word (1), 0 without any."""
    index = cells.lines[:, side, None] - sum(cells.counts[:side])
    return hidden.new_zeros(cells.counts[side], WIDTH).scatter_reduce(0, index.expand_as(hidden), hidden, "amax")


def means(hidden: Tensor, cells: Cells) -> Tensor:
    """Return the mean of the cells of each pair, 0 without any."""
    pairs = cells.lines[:, 2] - sum(cells.counts[:2])
    sums = hidden.new_zeros(cells.counts[2], WIDTH).index_add_(0, pairs, hidden)
    return sums / torch.bincount(pairs, minlength=cells.counts[2]).clamp_(min=1)[:, None]


def cells_of(forward: Tensor, reverse: Tensor | None, sizes: Sequence[tuple[int, int]]) -> Cells:
    """Return what the network sees of pairs of some numbers of source and target words.

    Shares are those of the source words for each target word `[B, J, I]` and of the target words for each
    source word `[B, I, J]`, 0 in padding; with one model the former serve as the latter.
    """
    (count, targets, sources), device = forward.shape, forward.device
    both = [forward] if reverse is None else [forward, reverse.mT.contiguous()]
    pair, target, source = (torch.maximum(both[0], both[-1]) > LEAST).nonzero().T
    place = (pair * targets + target) * sources + source

    def chosen(scores: Tensor) -> Tensor:
        return scores.flatten().index_select(0, place)

    lengths = torch.tensor(sizes, device=device).index_select(0, pair)  # [K, 2]
    distance = (source / lengths[:, 0] - target / lengths[:, 1]).abs()
    logs = [chosen(shares).clamp_(min=1e-4).log_().add_(5).div_(5) for shares in both]
    channels = torch.stack([chosen(soft_scores(forward, reverse)), logs[0], logs[-1], distance], 1)
    width = sources + 2  # with a border, so that each cell has eight neighbours
    bordered = (pair * (targets + 2) + target + 1) * width + source + 1
    numbers = torch.full((count * (targets + 2) * width,), len(pair), device=device)
    numbers[bordered] = torch.arange(len(pair), device=device)
    offsets = torch.tensor([down * width + right for down in (-1, 0, 1) for right in (-1, 0, 1)], device=device)
    counts = count * targets, count * sources, count
    lines = torch.stack((pair * targets + target, counts[0] + pair * sources + source, sum(counts[:2]) + pair), 1)
    return Cells(place, channels, numbers.take(bordered[:, None] + offsets), lines, counts)


def how_read(settings: Settings) -> dict[str, str]:
    """Return what a scorer depends on in any model, by the names in its metadata."""
    return {name: str(getattr(settings, name)) for name in ("score", "position", "null")}


@dataclass(frozen=True, eq=False)
class LinkScorer:
    """Gives each pair of words the probability of a link; an aligner uses it in place of soft scores.

    `about` has the metadata of the file: `model` and `reverse`, the names of the models whose shares it was
    trained on, `position`, `score` and `null`, as they were read, `cells` and `reverse_cells`, the layers and
    heads that were, and what else the training noted. The general one has none of these names.
    """

    path: Path
    digest: str
    about: Mapping[str, str]
    device: str
    network: Network = field(repr=False)

    def of_model(self, model: str, role: str = "model") -> bool:
        """Tell whether it was trained with a model of this name, such as `fairseq:de-en@1f3c9a2`.

        Only the fingerprint at the end counts. The role is "model", for the forward one, or "reverse". The
        general one suits every model.
        """
        return self.about.get(role, model).rpartition("@")[2] == model.rpartition("@")[2]

    def mismatch(self, direction: Direction, role: str = "model") -> str:
        """Return why it does not suit a model that is read like this; empty if it does.

        Layers and heads count for the model that it was trained with: other models have their own. The role is
        "model", or "reverse".
        """
        if role not in self.about:
            return "the scorer was trained with one model" if "model" in self.about else ""
        own, read = self.about.get, how_read(direction.settings).items() if role == "model" else ()
        if wrong := [f"{name} {own(name)}, not {value}" for name, value in read if own(name) != value]:
            return f"the scorer was trained with {shorten(printable('; '.join(wrong)))}"
        known, model = direction.known_choice, direction.recorder.name
        cells = self.about.get("cells" if role == "model" else "reverse_cells", "unknown ones")
        if not self.of_model(model, role) or (known and str(known.place) == cells):
            return ""
        return f"the scorer was trained at other layers and heads of {model} ({shorten(printable(cells))})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where it was read from, not its weights; other machines may have the package elsewhere."""
        return read_again, (None if self.path == GENERAL_SCORER else self.path, self.digest, self.device)

    @torch.inference_mode()
    def __call__(self, forward: Tensor, reverse: Tensor | None, batch: Sequence[Pieces]) -> Tensor:
        """Return the probabilities of links `[B, J, I]`; arguments as for `align.core.scores.soft_links`."""
        shares, back = forward.to(self.device), None if reverse is None else reverse.to(self.device)
        cells = cells_of(shares, back, [pieces.words for pieces in batch])
        probabilities = shares.new_zeros(shares.shape)
        probabilities.view(-1)[cells.place] = self.network(cells).sigmoid_()
        return probabilities.to(forward.device)


def about_scorer(aligner: Aligner, **training: int) -> dict[str, str]:
    """Return what a file says of a scorer: a `fixed` aligner's models, how they were read, and numbers."""
    about = {**how_read(aligner.forward.settings), **{name: str(number) for name, number in training.items()}}
    roles = (("model", "cells"), ("reverse", "reverse_cells"))
    for (role, cells), direction, choice in zip(roles, aligner.directions, aligner.choices, strict=False):
        about |= {role: direction.recorder.name, cells: str(choice.place)}
    return about


def scorer_bytes(network: Network, about: Mapping[str, str]) -> bytes:
    """Return a file of a network and what is known about it."""
    from safetensors.torch import save

    weights = {name: weight.detach().contiguous() for name, weight in network.state_dict().items()}
    return bytes(save(weights, {"format": FORMAT, **about}))


def read_scorer(path: Path | None = None, device: str = "cpu") -> LinkScorer:
    """Read a link scorer, which is not trusted, or the general one."""
    file = path.absolute() if path else GENERAL_SCORER
    if not file.is_file():
        hint = "‹scorer› is a file, auto or none" if path else "install extract-align again"
        raise ModelError("no such file", file=str(path or file), hint=hint)
    if file.stat().st_size > LARGEST:
        raise ModelError(f"not a link scorer: larger than {LARGEST:,} bytes", file=str(file))
    return read_again(path and file, file_digest(file)[:7], device)


@lru_cache(maxsize=8)
def read_again(path: Path | None, digest: str, device: str) -> LinkScorer:
    """Return this process's scorer of a file, or the general one, or read it."""
    from safetensors import SafetensorError, safe_open

    path = path or GENERAL_SCORER
    if file_digest(path)[:7] != digest:
        raise ModelError("the file has changed since it was read first", file=str(path))
    network = Network()
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, str] = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if about.get("format") == FORMAT:
            network.load_state_dict(weights)
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise ModelError(f"not a link scorer; it may be damaged ({one_line(error)})", file=str(path)) from None
    if about.get("format") != FORMAT:
        message, hint = "not a link scorer", ""
        if str(about.get("format")).startswith(FORMAT.rstrip("0123456789")):
            message = "a link scorer of another version of extract-align"
            hint = "train another with `extract-align train scorer`, or remove the file"
        raise ModelError(f"{message}: its metadata do not say `format: {FORMAT}`", file=str(path), hint=hint)
    if not all(weight.isfinite().all() for weight in network.state_dict().values()):
        raise ModelError("it has weights that are not finite", file=str(path))
    return LinkScorer(path, digest, about, device, network.float().eval().to(device))
