"""`analyse-attention adversary-translation`: a translation model that says the same and looks elsewhere."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from align.analysis.commands.adversary import add_adversary_options
from align.analysis.commands.asked import load_aligner
from align.analysis.commands.common import PROGRAM, Common
from align.cli.common import say
from align.cli.evaluation_options import add_link_options, add_range_option, link_options
from align.cli.input_options import check_files
from align.cli.options import seed_number, whole_number
from align.cli.parser import Parser
from align.core.errors import DataError
from align.core.types import Score
from align.evaluation.gold import LinkOptions, read_as
from align.io.reader import Input, name_shown, open_text, read_text
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "How far can a translation model's cross-attention move, and what becomes of its links?"

EXAMPLES = """examples:
  analyse-attention adversary-translation --tune-source valid.de --tune-target valid.en -s test.de -t test.en -g gold
"""

SCORES = ("weight", "norm")


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        tuning: files of both sides that adversaries learn from.
        pairs: how many of their lines to learn from.
        held_out: how many of the lines behind these to measure losses on.
        text: files of both sides that are linked.
        gold: the file of their links.
        gold_options: what it may leave open.
        lambdas: of the adversaries.
        divergence: of attention, that these are trained with.
        moved: attention by weight, or by norm.
        updates: of each.
        seed: of the order of batches.
    """

    tuning: tuple[str, str]
    pairs: int
    held_out: int
    text: tuple[str, str]
    gold: str
    gold_options: LinkOptions
    lambdas: tuple[float, ...]
    divergence: str
    moved: Score
    updates: int
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    group = parser.add_argument_group("text (UTF-8; .gz and .xz are unpacked)")
    for side in ("source", "target"):
        group.add_argument(f"--tune-{side}", required=True, metavar="FILE", help="what adversaries learn from")
    group.add_argument("--pairs", type=whole_number(1), default=1000, metavar="N", help="lines of it to learn from")
    group.add_argument(
        "--held-out", type=whole_number(1), default=500, metavar="N", help="lines behind these, to measure losses on"
    )
    group.add_argument("-s", "--source", required=True, metavar="FILE", help="what is linked")
    group.add_argument("-t", "--target", required=True, metavar="FILE", help="its other side")
    add_link_options(group, "gold", required=True)
    add_range_option(group)
    group = parser.add_argument_group("adversaries")
    add_adversary_options(group, "0.3,1,3")
    group.add_argument(
        "--move", choices=SCORES, default="weight", help="what is to move: attention by weight, or by norm"
    )
    group.add_argument("--updates", type=whole_number(1), default=200, metavar="N", help="of each")
    group.add_argument("--seed", type=seed_number, default=1, metavar="N", help="of the order of batches")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    check_files(parser, (args.tune_source, args.tune_target, args.source, args.target, args.gold), None)
    return Options(
        tuning=(args.tune_source, args.tune_target),
        pairs=args.pairs,
        held_out=args.held_out,
        text=(args.source, args.target),
        gold=args.gold,
        gold_options=link_options(args, "gold"),
        lambdas=args.lambdas,
        divergence=args.divergence,
        moved=args.move,
        updates=args.updates,
        seed=args.seed,
    )


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.adversary.translation` finds.

    Raises:
        DataError: there is no text to measure on, or the model is none of fairseq's.
    """
    with open_text(Input(options.tuning, parallel=True)) as lines:
        tuning = list(islice(lines, options.pairs + options.held_out))
    if len(tuning) <= options.pairs:
        raise DataError(f"{len(tuning):,} lines: none is left to measure on", file=name_shown(options.tuning[0]))
    text = read_text(*options.text, (name_shown(options.text[0]), name_shown(options.text[1])))
    gold = read_as("gold", options.gold, options.gold_options, text, name_shown(options.gold))
    if not any(one.possible for one in gold.pairs):
        raise DataError("no sentence has a link", file=name_shown(options.gold))
    aligner = load_aligner(common)
    from align.analysis.adversary.translation import Asked, moved
    from align.models.recorder import ModelRecorder

    recorder = aligner.forward.recorder
    if not (isinstance(recorder, ModelRecorder) and recorder.backend == "fairseq"):
        raise DataError(f"{recorder.name}: only models of fairseq can be trained here")
    asked = Asked(options.lambdas, options.divergence, options.moved, options.updates, seed=options.seed)
    finding = moved(
        recorder,
        tuning[: options.pairs],
        tuning[options.pairs :],
        text,
        gold.pairs,
        asked,
        (lambda text: None) if common.quiet else lambda text: say(f"{PROGRAM}: {text}"),
        " and ".join(map(name_shown, options.tuning)),
    )
    return finding, {
        "model": recorder.name,
        "tuned": f"{Path(options.tuning[0]).name}({options.pairs})",
        "held-out": len(tuning) - options.pairs,
        "text": Path(options.text[0]).name,
        "n": len(text),
        "gold": gold.kind,
        "lambda": ",".join(f"{one:g}" for one in options.lambdas),
        "divergence": options.divergence,
        "move": options.moved,
        "updates": options.updates,
        "seed": options.seed,
    }
