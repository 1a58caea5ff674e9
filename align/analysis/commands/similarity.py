"""`analyse-attention similarity`: which heads attend alike."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from align.analysis.commands.asked import ask
from align.analysis.commands.common import Common, Texts, add_text_files, read_texts
from align.cli.options import seed_number
from align.cli.parser import Parser
from align.cli.sweep import need
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Which heads attend alike? Divergences of all pairs of heads, and a map of heads"

EXAMPLES = """examples:
  analyse-attention similarity text --plots figures/similarity
  analyse-attention similarity -s text.de --lines 200            the encoder alone
"""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        texts: what to read.
        seed: of the map of heads.
    """

    texts: Texts
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, which the decoder reads")
    parser.add_argument("--seed", type=seed_number, default=1, metavar="N", help="of the map of heads")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    return Options(read_texts(parser, args), args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.similarity` finds in a text."""
    need("sklearn", "maps of heads", "scikit-learn")
    from align.analysis.similarity import similarity

    finding, signed = ask(
        common, options.texts, lambda model, pairs, parts: similarity(model, pairs, parts, options.seed)
    )
    return finding, {**signed, "seed": options.seed}
