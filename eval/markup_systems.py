"""The scores and links that `markup` puts tags by: of models, and of statistical aligners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import Text, letters, load_model, read_train

from align import Aligner, TwoWayAligner
from align.links.symmetrize import METHODS
from align.statistical.tools import align_with, lower_case
from align.types import THRESHOLD, Settings

Links = Mapping[tuple[int, int], float]
"""Links of a sentence pair with their scores; 1 where they have none."""

SYMMETRIZED = "grow-diag-final-and"


def model_scores(about: dict[str, Any], data: Path, text: Text) -> tuple[dict[str, list[Links]], list[str]]:
    """All soft scores of each sentence, by the experiment's first models together and by its first one alone.

    Returns:
        The scores, and the models' own names.
    """
    forward, reverse = (load_model(about[key][0], data, "cpu").recorder for key in ("models", "reverse_models"))
    sharp = Settings(threshold=None)
    aligners: dict[str, Aligner | TwoWayAligner] = {
        "two models": TwoWayAligner(Aligner(forward, sharp), Aligner(reverse, sharp), threshold=0.0),
        "one model": Aligner(forward, Settings(threshold=0.0)),
    }
    found = {name: [one.scores for one in aligner(text.pairs)] for name, aligner in aligners.items()}
    return found, [forward.name, reverse.name]


def above(scores: Sequence[Links], floor: float) -> list[Links]:
    """Those of the scores of each sentence that are above a floor."""
    return [{link: score for link, score in some.items() if score > floor} for some in scores]


def links_of(scores: Sequence[Links]) -> list[Links]:
    """The links that `extract-align` makes of all soft scores."""
    return [dict.fromkeys(some, 1.0) for some in above(scores, THRESHOLD)]


def statistical_links(
    about: dict[str, Any], config: dict[str, Any], data: Path, text: Text
) -> Iterator[tuple[str, list[Links]]]:
    """Both directions' links of each statistical aligner, symmetrised, with the experiment's first training text."""
    tested = {letters(pair) for pair in map(lower_case, text.pairs)}
    for tool in about["baselines"]:
        train = (p for p in read_train(config["train"][about["train"][0]], data) if letters(p) not in tested)
        both = align_with(tool, map(lower_case, text.pairs), train=train, append=True)
        yield f"{tool}, {SYMMETRIZED}", [dict.fromkeys(METHODS[SYMMETRIZED](f, r), 1.0) for f, r in both]
