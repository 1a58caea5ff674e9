"""`extract-align` in two directions: of two models, of two files, or of a statistical aligner."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import align
from align.cli.models import load_models, requested_models
from align.cli.options import number_or
from align.cli.translate import search_of
from align.links.symmetrize import DEFAULT_METHOD, DIRECTIONS, METHODS, SOFT, THRESHOLD
from align.signature import describe, describe_reverse, signature
from align.statistical.tools import TOOLS
from align.types import Choice, Settings

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.aligners.two_way import TwoWayAligner

MODEL_ONLY = (
    *("source_lang", "target_lang", "dictionaries", "tokenizer", "subwords", "source_subwords", "target_subwords"),
    *(
        "score",
        "position",
        "layer",
        "head",
        "null",
        "threshold",
        "device",
        "dtype",
        "batch_tokens",
        "buffer",
        "too_long",
    ),
    *("reverse_model", "reverse_layer", "reverse_head", "translate", "resume"),
)
"""Options without a meaning for links that no model makes."""


def add_direction_options(parser: argparse.ArgumentParser) -> None:
    """A second model, and what does without any."""
    group = parser.add_argument_group("two directions (--reverse-model, --combine, or -m fast_align, eflomal or giza)")
    group.add_argument(
        "--reverse-model",
        metavar="MODEL",
        help="align with this model too, which translates target to source, and symmetrise; a bundled model, a folder, "
        "or a checkpoint with its model.toml: --source-lang, --case and the like only speak of the other one",
    )
    group.add_argument(
        "--reverse-layer", metavar="N", type=number_or("auto"), default="auto", help="as --layer, of the reverse model"
    )
    group.add_argument(
        "--reverse-head",
        metavar="N",
        type=number_or("auto", "all"),
        default="auto",
        help="as --head, of the reverse model",
    )
    group.add_argument(
        "--symmetrize",
        choices=(SOFT, *METHODS, *DIRECTIONS),
        help="how; soft: by the scores of two models; forward and reverse: one direction, as it is "
        f"(default: {SOFT} with --reverse-model, else {DEFAULT_METHOD})",
    )
    group.add_argument(
        "--combine",
        nargs=2,
        metavar=("FWD", "REV"),
        help="combine two files of links, source first, counted alike; possible links (0p1) count as links",
    )
    group.add_argument(
        "--reverse-swapped", action="store_true", help="REV has the target side first, as lilt's .reverse files"
    )
    group.add_argument("--train-source", metavar="FILE", help="train the aligner on this text, not on the input")
    group.add_argument("--train-target", metavar="FILE", help="goes with --train-source")
    group.add_argument("--append-test", action="store_true", help="train on that text with the input appended")


def check_directions(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse combinations that make no sense, with exit code 2."""
    statistical = args.model in TOOLS
    if (args.train_source is None) != (args.train_target is None):
        parser.error("--train-source and --train-target go together")
    if args.combine and (args.input or args.source):
        parser.error("--combine takes two files of links and no text")
    if args.symmetrize == SOFT and (args.combine or statistical):
        parser.error(f"--symmetrize {SOFT} needs the scores of two models: take one of {', '.join(METHODS)}")
    if args.symmetrize in DIRECTIONS and args.combine:
        wanted = "is for statistical aligners and two models"
        parser.error(f"--symmetrize {args.symmetrize} {wanted}: one of the two files has it already")
    if (args.train_source or (args.symmetrize and not args.reverse_model)) and not (args.combine or statistical):
        tools = ", ".join(TOOLS)
        parser.error(
            f"--symmetrize and --train-source go with --combine or -m {tools}; --symmetrize with --reverse-model"
        )
    if args.append_test and not args.train_source:
        parser.error("--append-test goes with --train-source and --train-target")
    if args.combine and args.format not in ("pharaoh", "talp"):
        parser.error(f"--combine knows neither words nor where counting starts: -f {args.format} cannot be written")
    if args.combine and args.train_source:
        parser.error("--combine takes links that are there: --train-source has no part in it")
    if args.combine or statistical:
        idle = [*MODEL_ONLY, *(("model", "case", "threads") if args.combine else ())]
        for name in idle:
            if getattr(args, name) != parser.get_default(name):
                way = "--combine" if args.combine else f"-m {args.model}"
                parser.error(f"--{name.replace('_', '-')} is for a translation model: {way} has no use for it")
    if args.reverse_model in TOOLS:
        parser.error(f"--reverse-model is a translation model: -m {args.reverse_model} has both directions already")
    for name in ("reverse_layer", "reverse_head"):
        if getattr(args, name) != parser.get_default(name) and not args.reverse_model:
            parser.error(f"--{name.replace('_', '-')} goes with --reverse-model")
    if args.reverse_swapped and not args.combine:
        parser.error("--reverse-swapped goes with --combine")
    if args.scores and (args.combine or statistical):
        parser.error("--scores are a model's: there are none here")


def load_aligner(program: str, args: argparse.Namespace) -> Aligner | TwoWayAligner:
    """The model, or both of them, with the settings asked for."""
    method = args.symmetrize or SOFT
    threshold = args.threshold
    if args.reverse_model and method == SOFT:  # which takes the threshold itself
        threshold = None
    settings = Settings(args.score, args.position, args.layer, args.head, args.null, threshold)
    reverse_settings = replace(settings, layer=args.reverse_layer, head=args.reverse_head)
    forward, *others = load_models(program, requested_models(args, settings, reverse_settings), args.quiet)
    if not others:
        return forward
    from align.aligners.two_way import TwoWayAligner

    return TwoWayAligner(forward, others[0], method, threshold=THRESHOLD if args.threshold is None else args.threshold)


def directions(aligner: Aligner | TwoWayAligner) -> dict[str, Aligner]:
    """The one aligner that there is, or both, by what their messages begin with."""
    from align.aligners.two_way import TwoWayAligner

    if isinstance(aligner, TwoWayAligner):
        return {"forward: ": aligner.forward, "reverse: ": aligner.reverse}
    return {"": aligner}


def sign(aligner: Aligner | TwoWayAligner, args: argparse.Namespace, choices: Sequence[Choice] = ()) -> str:
    """The signature, with what "auto" came to in each direction, once that is known."""
    forward, *reverse = directions(aligner).values()
    choice = choices[0] if choices else None
    more = {"translate": str(search_of(args))} if args.translate else {}
    for one, chosen in zip_longest(reverse, choices[1:]):
        method = args.symmetrize or SOFT
        if method == SOFT:
            method = f"{SOFT}:{THRESHOLD if args.threshold is None else args.threshold:g}"
        more |= describe_reverse(one.recorder.name, one.settings, chosen, method)
    recorder = forward.recorder
    return signature(describe(recorder.name, forward.settings, choice, align.__version__, recorder.dtype, more))
