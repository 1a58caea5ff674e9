"""`analyse-attention patterns`: what maps of attention look like."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from align.analysis.commands.asked import ask
from align.analysis.commands.common import Common, Texts, add_text_files, read_texts
from align.cli.options import number_up_to, seed_number
from align.cli.parser import Parser
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "What do maps of attention look like: stripes, diagonals, blocks?"

EXAMPLES = """examples:
  analyse-attention patterns text --plots figures/patterns   shares, and the most typical maps
  analyse-attention patterns -s text.de --threshold 0.4      a rule that asks for less; the encoder alone
"""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        texts: what to read.
        threshold: of the rule.
        seed: of the bootstrap.
    """

    texts: Texts
    threshold: float
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, which the decoder reads")
    parser.add_argument(
        "--threshold",
        type=number_up_to(1),
        default=0.5,
        metavar="N",
        help="how far above chance attention to a pattern's cells has to be, from 0 to 1",
    )
    parser.add_argument("--seed", type=seed_number, default=1, metavar="N", help="of the bootstrap")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    return Options(read_texts(parser, args), args.threshold, args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.patterns.question` finds in a text."""
    from align.analysis.patterns.question import patterns

    finding, signed = ask(
        common,
        options.texts,
        lambda model, pairs, parts: patterns(model, pairs, parts, options.threshold, options.seed),
    )
    return finding, {**signed, "threshold": f"{options.threshold:g}", "seed": options.seed}
