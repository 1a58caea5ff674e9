"""The scores and links that `markup` puts tags by: of models, of all their words or above a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import Text, load_model

from align import Aligner, Direction, two_way
from align.core.settings import THRESHOLD, Settings

Links = Mapping[tuple[int, int], float]
"""Links of a sentence pair with their scores; 1 where they have none."""


def model_scores(about: dict[str, Any], data: Path, text: Text) -> tuple[dict[str, list[Links]], list[str]]:
    """All soft scores of each sentence, by the experiment's first models together and by its first one alone.

    Returns:
        The scores, and the models' own names.
    """
    forward, reverse = (load_model(about[key][0], data, "cpu").forward.recorder for key in ("models", "reverse_models"))
    sharp = Settings(threshold=None)
    aligners: dict[str, Aligner] = {
        "two models": two_way(Aligner(Direction(forward, sharp)), Aligner(Direction(reverse, sharp)), threshold=0.0),
        "one model": Aligner(Direction(forward, Settings(threshold=0.0))),
    }
    found = {name: [one.scores for one in aligner(text.pairs)] for name, aligner in aligners.items()}
    return found, [forward.name, reverse.name]


def above(scores: Sequence[Links], floor: float) -> list[Links]:
    """Those of the scores of each sentence that are above a floor."""
    return [{link: score for link, score in some.items() if score > floor} for some in scores]


def links_of(scores: Sequence[Links]) -> list[Links]:
    """The links that `extract-align` makes of all soft scores."""
    return [dict.fromkeys(some, 1.0) for some in above(scores, THRESHOLD)]
