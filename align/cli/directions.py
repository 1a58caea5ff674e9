"""The aligner that a program is asked for, of one model or of two, and its signature."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from align.cli.models import Asked, load_models
from align.links.symmetrize import SOFT
from align.signature import describe, describe_reverse, signature
from align.types import Choice

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.aligners.two_way import TwoWayAligner


def load_aligner(program: str, options: Asked) -> Aligner | TwoWayAligner:
    """The model, or both of them, with the settings asked for."""
    forward, *reverse = load_models(program, options.models, options.quiet)
    if not reverse:
        return forward
    from align.aligners.two_way import TwoWayAligner

    return TwoWayAligner(forward, reverse[0], options.method, threshold=options.threshold)


def names_of(aligner: Aligner | TwoWayAligner) -> Sequence[str]:
    """What messages about each of its models begin with."""
    return ("forward: ", "reverse: ") if len(aligner.directions) == 2 else ("",)


def reading_at(aligner: Aligner | TwoWayAligner, choices: Sequence[Choice]) -> Aligner | TwoWayAligner:
    """The same aligner, but reading where an earlier run did.

    Args:
        aligner: of one model or two.
        choices: for each direction; none where that was still open.

    Raises:
        ValueError: if there are not as many choices as models, or they are not what the settings allow.
    """
    from align.aligners.two_way import TwoWayAligner

    if not choices:
        return aligner
    models = aligner.directions
    if len(choices) != len(models):
        raise ValueError(f"layer and head of {len(choices)} models, and there are {len(models)}")
    forward, *reverse = (replace(model, choice=choice) for model, choice in zip(models, choices, strict=True))
    if not isinstance(aligner, TwoWayAligner):
        return forward
    with warnings.catch_warnings():  # which came with the first of the two
        warnings.simplefilter("ignore")
        return replace(aligner, forward=forward, reverse=reverse[0])


def sign(
    aligner: Aligner | TwoWayAligner, options: Asked, choices: Sequence[Choice] = (), words: str = "spaces"
) -> str:
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
