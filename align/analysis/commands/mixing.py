"""`analyse-attention mixing`: norms against weights."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from align.analysis.commands.asked import ask
from align.analysis.commands.common import Common, Texts, add_text_files, read_texts
from align.cli.options import seed_number
from align.cli.parser import Parser
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Which kinds of pieces get attention, and how much of it arrives? Norms against weights"

EXAMPLES = """examples:
  analyse-attention mixing text                       lines `source ||| target`: encoder, decoder, cross-attention
  analyse-attention mixing -s text.de                 the encoder alone, which needs no translation
"""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        texts: what to read.
        seed: of the points that are drawn.
    """

    texts: Texts
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, which the decoder reads")
    parser.add_argument("--seed", type=seed_number, default=1, metavar="N", help="of points drawn for correlations")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    return Options(read_texts(parser, args), args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.mixing` finds in a text."""
    from align.analysis.mixing import mixing

    finding, signed = ask(common, options.texts, lambda model, pairs, parts: mixing(model, pairs, parts, options.seed))
    return finding, {**signed, "seed": options.seed}
