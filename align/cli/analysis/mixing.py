"""`analyse-attention mixing`: norms against weights."""

from __future__ import annotations

import argparse

from align.cli.analysis.common import Common, add_text_files, load_inspected, open_pairs, read_texts
from align.cli.options import whole_number
from align.cli.parser import Parser
from align.signature import Parts
from align.view.report import Finding

SUMMARY = "Which kinds of pieces get attention, and how much of it arrives? Norms against weights"

EXAMPLES = """examples:
  analyse-attention mixing -s text.de -t text.en            encoder, decoder and cross-attention
  analyse-attention mixing -s text.de                       the encoder alone, which needs no translation
"""


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, which the decoder reads")
    parser.add_argument("--seed", type=whole_number(0), default=1, metavar="N", help="of points drawn for correlations")


def answer(parser: Parser, args: argparse.Namespace, common: Common) -> tuple[Finding, Parts]:
    """What `align.analysis.mixing` finds in a text."""
    texts = read_texts(parser, args)
    model = load_inspected(common)
    from align.analysis.mixing import mixing

    with open_pairs(texts) as pairs:
        finding = mixing(model, pairs, texts.parts_of(model), args.seed)
    return finding, {"model": model.name, "seed": args.seed}
