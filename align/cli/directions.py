"""Loads the aligner of a program, with one model or two, and signs its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from align.cli.models import Asked, load_models
from align.core.symmetrize import SOFT
from align.core.types import Choice
from align.io.signature import describe, describe_reverse, signature

if TYPE_CHECKING:
    from align.core.aligner import Aligner


def load_aligner(program: str, options: Asked) -> Aligner:
    """Load the model or both models with the requested settings."""
    forward, *reverse = load_models(program, options.models, options.quiet)
    if not reverse:
        return forward
    from align.models.load import two_way

    return two_way(forward, reverse[0], options.method, threshold=options.threshold)


def names_of(aligner: Aligner) -> Sequence[str]:
    """Return the prefix of messages about each model."""
    return ("forward: ", "reverse: ") if len(aligner.directions) == 2 else ("",)


def sign(aligner: Aligner, options: Asked, choices: Sequence[Choice] = (), words: str = "spaces") -> str:
    """Return the signature, with the result of "auto" in each direction once it is known."""
    forward, *reverse = aligner.directions
    known: Sequence[Choice | None] = choices or [None, None]
    more = {"translate": str(options.search)} if options.search else {}
    if words != "spaces":
        more["words"] = words
    method = f"{SOFT}:{options.threshold:g}" if options.method == SOFT else options.method
    for model in reverse:
        more |= describe_reverse(model.recorder.name, model.settings, known[1], method)
    recorder = forward.recorder
    return signature(describe(recorder.name, forward.settings, known[0], recorder.dtype, more))
