"""`analyse-attention adversary`: taggers that say the same and attend elsewhere."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from align.analysis.commands.common import PROGRAM, Common
from align.cli.common import say
from align.cli.input_options import check_files
from align.cli.models import MODEL_OPTIONS
from align.cli.options import number_up_to, seed_number, whole_number
from align.cli.parser import Idle, Parser
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Is attention exclusive? Taggers of chunks that say the same and attend elsewhere"

EXAMPLES = """examples:
  analyse-attention adversary --train train.txt --test test.txt       files as CoNLL-2000 has them
  analyse-attention adversary --train train.txt --test test.txt --divergence kl --lambdas 0.2,1,3
"""

REFUSED = ("model", "device", *sorted(MODEL_OPTIONS))
"""Options of all commands that do nothing in this one."""

IDLE = Idle(REFUSED, lambda args: True, "has no effect: taggers are trained here, on the CPU")

DIVERGENCES = ("js", "kl")


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        train: the file to learn from.
        test: the file to be tagged.
        lambdas: of the adversaries.
        divergence: of attention, that these are trained with.
        seed: of the original.
        seeds: of other taggers.
        epochs: of all.
        threshold: of the safe point; None for what other seeds have.
    """

    train: str
    test: str
    lambdas: tuple[float, ...]
    divergence: str
    seed: int
    seeds: tuple[int, ...]
    epochs: int
    threshold: float | None


def lambda_list(text: str) -> tuple[float, ...]:
    """An argument of one or more numbers from 0, with commas between; lowest first, each once."""
    return tuple(sorted({number or 0.0 for number in map(number_up_to(1000), text.split(","))}))


def _seed_list(text: str) -> tuple[int, ...]:
    """An argument of one or more seeds, with commas between; each once."""
    return tuple(dict.fromkeys(map(seed_number, text.split(","))))


def add_adversary_options(group: argparse._ArgumentGroup, lambdas: str) -> None:
    """What adversaries are trained with.

    Args:
        group: whose options these are.
        lambdas: the default.
    """
    group.add_argument(
        "--lambdas",
        type=lambda_list,
        default=lambdas,
        metavar="L,L",
        help="how much it counts that attention moves, of an adversary each",
    )
    group.add_argument(
        "--divergence",
        choices=DIVERGENCES,
        default="js",
        help="how far attention has moved: js has an upper end, kl (as published) has none",
    )


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    group = parser.add_argument_group(
        "text (word, part of speech and B-NP, I-NP or O on a line; blank between sentences)"
    )
    group.add_argument("--train", required=True, metavar="FILE", help="what taggers learn from")
    group.add_argument("--test", required=True, metavar="FILE", help="what they are measured on")
    group = parser.add_argument_group("taggers")
    add_adversary_options(group, "0.02,0.05,0.2,1,3")
    group.add_argument(
        "--epochs", type=whole_number(1), default=6, metavar="N", help="passes over what they learn from"
    )
    group.add_argument(
        "--seed", type=seed_number, default=1, metavar="N", help="of the original; adversaries: the next"
    )
    group.add_argument("--seeds", type=_seed_list, default="2,3", metavar="N,N", help="of taggers to compare with")
    group.add_argument(
        "--threshold",
        type=number_up_to(1, "seeds"),
        default=None,
        metavar="TVD",
        help="distance of predictions up to which attention has moved safely (default: the mean of the other seeds')",
    )


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    parser.refuse_idle(args, (IDLE,))
    check_files(parser, (args.train, args.test), None)
    if args.seed in args.seeds:
        parser.error("--seeds takes others than --seed")
    return Options(
        args.train, args.test, args.lambdas, args.divergence, args.seed, args.seeds, args.epochs, args.threshold
    )


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.adversary.chunking` finds in two files."""
    from align.analysis.data.chunks import read_sentences

    train, test = read_sentences(options.train), read_sentences(options.test)
    import torch

    from align.analysis.adversary.chunking import Asked, exclusive
    from align.analysis.adversary.tagger import Learning
    from align.io.process import keep_freed_memory

    keep_freed_memory()
    if common.models.threads:
        torch.set_num_threads(common.models.threads)
    learning = Learning(epochs=options.epochs, seed=options.seed)
    asked = Asked(options.lambdas, options.divergence, options.seeds, options.threshold, learning)
    finding = exclusive(
        train, test, asked, (lambda text: None) if common.quiet else lambda text: say(f"{PROGRAM}: {text}")
    )
    return finding, {
        "train": f"{Path(options.train).name}({len(train)})",
        "test": f"{Path(options.test).name}({len(test)})",
        "lambda": ",".join(f"{one:g}" for one in options.lambdas),
        "divergence": options.divergence,
        "threshold": "seeds" if options.threshold is None else f"{options.threshold:g}",
        "epochs": options.epochs,
        "seed": options.seed,
        "seeds": ",".join(map(str, options.seeds)),
    }
