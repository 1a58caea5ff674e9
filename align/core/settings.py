"""Settings of extracting links and of translating, as frozen dataclasses that check their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from align.core.types import Head, Score

PositionChoice = Literal["input", "output", "both"]
Null = Literal["eos", "mask", "none"]

THRESHOLD = 0.5
"""Words are linked if their soft score exceeds this value, which was chosen on German–English gold."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What links are read from; layers and heads count from 1.

    With the position "both", `layer` and `head` are those of the input position, `output_layer` and `output_head` those
    of the output position; with another position the latter must be "auto".

    With a `threshold`, from 0 to 1, words are linked whose soft score (`align.core.soft`) exceeds it; with None each
    target word is linked to its best source word.

    Raises:
        ValueError: a value that is not listed here.
    """

    score: Score = "norm"
    position: PositionChoice = "both"
    layer: int | Literal["auto"] = "auto"
    head: Head | Literal["auto"] = "auto"
    null: Null = "eos"
    threshold: float | None = THRESHOLD
    output_layer: int | Literal["auto"] = "auto"
    output_head: Head | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("score", self.score, get_args(Score)),
            ("position", self.position, get_args(PositionChoice)),
            ("null", self.null, get_args(Null)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}; not {value!r}")
        numbered: tuple[tuple[str, int | str, tuple[str, ...]], ...] = (
            ("layer", self.layer, ("auto",)),
            ("head", self.head, ("auto", "all")),
            ("output_layer", self.output_layer, ("auto",)),
            ("output_head", self.output_head, ("auto", "all")),
        )
        for name, number, words in numbered:
            if number not in words and not (isinstance(number, int) and number >= 1):
                raise ValueError(f"{name} is a number from 1 or {' or '.join(words)}; not {number!r}")
        if self.position != "both" and (self.output_layer, self.output_head) != ("auto", "auto"):
            raise ValueError(f"output_layer and output_head require the position both; not {self.position}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is a number from 0 to 1; not {self.threshold!r}")


@dataclass(frozen=True, slots=True)
class Search:
    """How translations are searched for; `str()` is what the signature says: the beam, and what is not the default.

    Attributes:
        beam: translations in the making that are kept at each step.
        length_penalty: scores are divided by the length to the power of this; below 1 favours short translations.
        max_len_a: a translation of S source pieces, `</s>` included, has at most a S + b pieces.
        max_len_b: the b of this.
        allow_unk: leave `<unk>` in translations; otherwise the aligned source word stands in its place.

    Raises:
        ValueError: a number outside what makes sense.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 50
    allow_unk: bool = False

    def __post_init__(self) -> None:
        if self.beam < 1 or self.max_len_b < 1:
            raise ValueError(f"beam and max_len_b are numbers from 1; not {self.beam} and {self.max_len_b}")
        for name, value in (("length_penalty", self.length_penalty), ("max_len_a", self.max_len_a)):
            if not 0 <= value <= 10:
                raise ValueError(f"{name} is a number from 0 to 10; not {value}")

    def __str__(self) -> str:
        penalty = f"-penalty{self.length_penalty:g}" if self.length_penalty != 1 else ""
        length = f"-length{self.max_len_a:g}x+{self.max_len_b}" if (self.max_len_a, self.max_len_b) != (1.5, 50) else ""
        return f"beam{self.beam}{penalty}{length}{'-unk' if self.allow_unk else ''}"
