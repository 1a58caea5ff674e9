"""`analyse-attention keywords`: which heads look at key words."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from align.analysis.commands.asked import load_inspected
from align.analysis.commands.common import Common
from align.cli.input_options import check_files
from align.cli.options import seed_number, whole_number
from align.cli.parser import Idle, Parser
from align.cli.sweep import need
from align.io.reader import name_shown
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Which heads look at key words, and how well do they find them? With fine-tuning and ablation"

EXAMPLES = """examples:
  analyse-attention keywords -m en-de --keyphrases inspec.jsonl    an encoder's heads, and fine-tuning
  analyse-attention keywords -m en-de --keyphrases inspec.jsonl --epochs 0    without fine-tuning
"""


IDLE = (
    Idle(("rate", "orders"), lambda args: not args.epochs, "has no effect without epochs"),
    Idle(("seed",), lambda args: not args.epochs and not args.samples, "has no effect without epochs and samples"),
)


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        keyphrases: the file of texts.
        documents: of each part of the data; None for all.
        epochs: of fine-tuning.
        rate: of learning.
        orders: random orders in which heads are masked.
        samples: of the bootstrap.
        seed: of all that is drawn.
    """

    keyphrases: str
    documents: int | None
    epochs: int
    rate: float
    orders: int
    samples: int
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    group = parser.add_argument_group("text (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument(
        "--keyphrases",
        required=True,
        metavar="FILE",
        help='JSON lines with "split" (train, dev or test), "sentences" (lists of words) and "keyphrases"',
    )
    group.add_argument(
        "--documents", type=whole_number(1), metavar="N", help="the first N of train, of dev and of test only"
    )
    group = parser.add_argument_group("fine-tuning")
    group.add_argument("--epochs", type=whole_number(0), default=3, metavar="N", help="0: none")
    group.add_argument("--rate", type=_rate, default=3e-4, metavar="X", help="of learning, the highest")
    group.add_argument(
        "--orders", type=whole_number(0), default=5, metavar="N", help="random orders in which heads are masked"
    )
    group = parser.add_argument_group("statistics")
    group.add_argument(
        "--samples", type=whole_number(0), default=1000, metavar="N", help="of the bootstrap over documents; 0: none"
    )
    group.add_argument(
        "--seed", type=seed_number, default=1, metavar="N", help="of samples, fine-tuning and random orders"
    )


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, and at most 1")
    return rate


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    check_files(parser, [args.keyphrases], None)
    parser.refuse_idle(args, IDLE)
    return Options(args.keyphrases, args.documents, args.epochs, args.rate, args.orders, args.samples, args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.keywords.question` finds in texts with keyphrases."""
    need("sklearn", "regressions", "scikit-learn")
    from align.analysis.data.keyphrases import SPLITS, Corpus, read_keyphrases
    from align.analysis.keywords.question import keywords
    from align.analysis.keywords.scores import Plan

    shown = name_shown(options.keyphrases)
    documents = read_keyphrases(options.keyphrases, shown)
    by_split = [[one for one in documents if one.split == split][: options.documents] for split in SPLITS]
    corpus = Corpus([one for part in by_split for one in part], shown)
    model = load_inspected(common)
    plan = Plan(options.samples, options.seed, options.epochs, options.rate, options.orders)
    finding = keywords(model, corpus, plan)
    parts: dict[str, str | int | None] = {"model": model.name, "data": Path(shown).name}
    parts |= {split: len(part) for split, part in zip(SPLITS, by_split, strict=True)}
    parts["epochs"] = options.epochs
    if options.epochs:
        parts |= {"rate": f"{options.rate:g}", "orders": options.orders}
    return finding, {**parts, "samples": options.samples, "seed": options.seed}
