"""The aligner that a program is asked for, of one model or of two, and its signature."""

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
    """The model, or both of them, with the settings asked for."""
    forward, *reverse = load_models(program, options.models, options.quiet)
    if not reverse:
        return forward
    from align.models.load import two_way

    return two_way(forward, reverse[0], options.method, threshold=options.threshold)


def names_of(aligner: Aligner) -> Sequence[str]:
    """What messages about each of its models begin with."""
    return ("forward: ", "reverse: ") if len(aligner.directions) == 2 else ("",)


def sign(aligner: Aligner, options: Asked, choices: Sequence[Choice] = (), words: str = "spaces") -> str:
    """The signature, with what "auto" came to in each direction once that is known."""
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
