"""Settings of `extract-align analyse train-bert`, and the options that set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from align.cli.options import option, whole_number


def number(name: str, default: int, help: str, least: int = 1) -> Any:
    """Declare the option of a whole number."""
    return option(
        f"--{name}", default=default, type=whole_number(least), metavar="N", help=f"{help} (default: {default})"
    )


@dataclass(frozen=True)
class Settings:
    """All settings that the result depends on, except for the text."""

    TITLE: ClassVar = "model and training"

    layers: int = number("layers", 4, "layers")
    heads: int = number("heads", 8, "attention heads of each")
    width: int = number("width", 256, "of the model; the feed-forward network is four times as wide")
    pieces: int = number("pieces", 8000, "of the tokenizer, special pieces included", 100)
    longest: int = number("longest", 512, "pieces that the model takes at most, special pieces included", 16)
    cased: bool = option("--cased", default=False, help="keep capitals and accents")
    updates: int = number("updates", 8000, "how long to train, by default about an hour on two cores")
    tokens: int = number("tokens", 4096, "pieces in a batch at most")
    valid: int = number("valid", 1000, "lines at the end of the text to validate on")
    seed: int = number("seed", 1, "of weights, order, and hidden pieces", 0)
