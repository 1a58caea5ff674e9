"""What the drop-ins share: their models, and a report of the options that mean nothing to them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from align.core.aligner import Aligner
from align.models.defaults import ALIGNING_MODEL, ALIGNING_REVERSE, forward_for
from align.models.load import load, two_way
from align.models.model_toml import ModelOptions


def load_both(forward: str | None, reverse: str | None, **options: Any) -> Aligner:
    """Load an aligner of one model, or of two for soft links, which skips pairs that are too long.

    Args:
        forward: model that translates source to target, as for `load`. None is what suits the reverse model: "de-en"
            for all but the bundled ones.
        reverse: model that translates target to source; None for one direction.
        options: other arguments of `load`, for both; `options` itself is for the first.
    """
    aligner = load(forward or forward_for(reverse), too_long="blank", **options)
    if reverse is None:
        return aligner
    if not forward and reverse == ALIGNING_REVERSE and aligner.forward.recorder.languages == ("en", "de"):
        reverse = ALIGNING_MODEL  # the languages in the options turn the default
    swapped = ModelOptions(reverse_of=aligner.forward.recorder.languages)
    return two_way(aligner, load(reverse, too_long="blank", **options | {"options": swapped}))


def for_single_pairs(aligner: Aligner, threshold: float) -> Aligner:
    """Return an aligner whose links of a pair depend on nothing but the pair."""
    forward = replace(aligner.forward, settings=replace(aligner.forward.settings, threshold=threshold))
    return replace(
        aligner, forward=forward if aligner.reverse is None else aligner.forward, threshold=threshold
    ).fixed()


def as_words(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return tokens without the spaces that some tokenizers keep; one of spaces becomes a word without pieces."""
    return tuple(re.sub("[ \t]", "_", token.strip(" \t")) or "\u00ad" for token in tokens)


def report_unused(program: str, names: Collection[str]) -> None:
    """Warn of options that the other program has and that have no effect here, by default once for each call."""
    for name in names:
        message = f"{program}'s option {name} has no effect on alignments of a translation model"
        warnings.warn(message, stacklevel=3)
