"""Turn the shares of one model or of two into probabilities of links, with a small network trained on given links.

Without a link scorer `align.core.scores.soft_scores` does this. The network sees the same shares, those soft scores
and the distance of two words from the diagonal; it does not see the words, or the model's states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from align.core.aligner import Aligner, Direction
from align.core.errors import ModelError, one_line, printable, shorten
from align.core.scores import soft_scores
from align.core.types import Pieces, Settings
from align.models.recorder import file_digest

FORMAT = "extract-align scorer 1"
"""Value of `format` in the file's metadata."""

CHANNELS = 4
"""Of the input: soft score, logarithms of both directions' shares, distance from the diagonal."""

WIDTH = 32
"""Channels of the network."""

CELLS = 1 << 14
"""Pairs of words that pass through the network together; more than fit into a processor's cache are slower."""


class Network(nn.Module):
    """Convolutions over the matrix of word pairs, and the maxima of its rows and columns, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(CHANNELS, WIDTH, 1)
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.rows = nn.Conv2d(WIDTH, WIDTH, 1)
        self.columns = nn.Conv2d(WIDTH, WIDTH, 1, bias=False)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.leave = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, channels: Tensor, real: Tensor) -> Tensor:
        """Return the log odds of links `[B, J, I]` for channels `[B, CHANNELS, J, I]`; see `real_cells`."""
        hidden: Tensor = self.enter(channels).relu_() * real
        hidden = (hidden + self.first(hidden).relu_()) * real
        lines: Tensor = self.rows(hidden.amax(3, keepdim=True)) + self.columns(hidden.amax(2, keepdim=True))
        hidden = (hidden + lines.relu_()) * real
        hidden = (hidden + self.second(hidden).relu_()) * real
        log_odds: Tensor = self.leave(hidden)[:, 0]
        return log_odds


def real_cells(sizes: Sequence[tuple[int, int]], shape: Sequence[int]) -> Tensor:
    """Return 1 for pairs of words and 0 for padding `[B, 1, J, I]`."""
    sources, targets = torch.tensor(sizes).T
    rows, columns = torch.arange(shape[0]) < targets[:, None], torch.arange(shape[1]) < sources[:, None]
    real: Tensor = rows[:, None, :, None] & columns[:, None, None]
    return real.float()


def channels_of(forward: Tensor, reverse: Tensor | None, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Return the network's input `[B, CHANNELS, J, I]`, for pairs of some numbers of source and target words.

    Shares are those of the source words for each target word `[B, J, I]` and of the target words for each
    source word `[B, I, J]`; with one model the former serve as the latter.
    """
    back = forward if reverse is None else reverse.mT
    logs = ((shares.clamp(min=1e-4).log() + 5) / 5 for shares in (forward, back))
    sources, targets = torch.tensor(sizes, device=forward.device).T[..., None, None]
    rows, columns = (torch.arange(size, device=forward.device) for size in forward.shape[1:])
    distance = (columns / sources - rows[:, None] / targets).abs()
    return torch.stack([soft_scores(forward, reverse), *logs, distance], 1)


def how_read(settings: Settings) -> dict[str, str]:
    """Return what a scorer depends on in any model, by the names in its metadata."""
    return {name: str(getattr(settings, name)) for name in ("score", "position", "null")}


@dataclass(frozen=True, eq=False)
class LinkScorer:
    """Gives each pair of words the probability of a link; an aligner uses it in place of soft scores.

    `about` has the metadata of the file: `model` and `reverse`, the names of the models whose shares it was
    trained on, `position`, `score` and `null`, as they were read, `cells` and `reverse_cells`, the layers and
    heads that were, and what else the training noted.
    """

    path: Path
    digest: str
    about: Mapping[str, str]
    device: str
    network: Network

    def of_model(self, model: str, role: str = "model") -> bool:
        """Tell whether it was trained with a model of this name, such as `fairseq:de-en@1f3c9a2`.

        Only the fingerprint at the end counts. The role is "model", for the forward one, or "reverse".
        """
        return self.about.get(role, "").rpartition("@")[2] == model.rpartition("@")[2]

    def mismatch(self, direction: Direction, role: str = "model") -> str:
        """Return why it does not suit a model that is read like this; empty if it does.

        Layers and heads count for the model that it was trained with: other models have their own. The role is
        "model", or "reverse".
        """
        if role == "reverse" and role not in self.about:
            return "the scorer was trained with one model"
        for name, value in how_read(direction.settings).items() if role == "model" else ():
            if value != (own := self.about.get(name)):
                return f"the scorer was trained with {name} {shorten(printable(str(own)))}, not {value}"
        known, model = direction.known_choice, direction.recorder.name
        cells = self.about.get("cells" if role == "model" else "reverse_cells", "unknown ones")
        if not self.of_model(model, role) or (known and str(known.place) == cells):
            return ""
        return f"the scorer was trained at other layers and heads of {model} ({shorten(printable(cells))})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where it was read from, not its weights."""
        return read_again, (self.path, self.digest, self.device)

    @torch.inference_mode()
    def __call__(self, forward: Tensor, reverse: Tensor | None, batch: Sequence[Pieces]) -> Tensor:
        """Return the probabilities of links `[B, J, I]`; arguments as for `align.core.scores.soft_links`."""
        sizes = [pieces.words for pieces in batch]
        channels, real = channels_of(forward, reverse, sizes), real_cells(sizes, forward.shape[1:]).to(forward.device)
        count = max(1, CELLS // max(1, forward[0].numel()))
        starts = range(0, len(channels), count)
        parts = ((channels[begin : begin + count], real[begin : begin + count]) for begin in starts)
        return torch.cat([self.network(*part).sigmoid_().mul_(part[1][:, 0]) for part in parts])


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


def read_scorer(path: Path, device: str = "cpu") -> LinkScorer:
    """Read a link scorer; the file is not trusted."""
    path = path.absolute()
    if not path.is_file():
        raise ModelError("no such file", file=str(path))
    return read_again(path, file_digest(path)[:7], device)


@lru_cache(maxsize=8)
def read_again(path: Path, digest: str, device: str) -> LinkScorer:
    """Return this process's scorer of a file, or read it."""
    from safetensors import SafetensorError, safe_open

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
        raise ModelError(f"not a link scorer: its metadata do not say `format: {FORMAT}`", file=str(path))
    if not all(weight.isfinite().all() for weight in network.state_dict().values()):
        raise ModelError("it has weights that are not finite", file=str(path))
    return LinkScorer(path, digest, about, device, network.float().eval().to(device))
