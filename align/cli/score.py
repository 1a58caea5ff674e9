"""`extract-align score`: bitext in, how well the sides of each line match out."""

from __future__ import annotations

from collections.abc import Sequence

from align.cli import extract
from align.cli.args import ModelArgs, OutputArgs, RunArgs, TextArgs
from align.cli.options import add_group, new_parser
from align.cli.parser import Parser
from align.core.formats import AGREEMENT

PROGRAM = "extract-align score"

EXAMPLES = """examples:
  extract-align score bitext.tsv > scores   two numbers from 0 to 1 for each line
  extract-align score --reverse-model en-de bitext.tsv > scores   by two models: slower, more reliable
  extract-align score bitext.tsv | paste - bitext.tsv | awk -F'\\t' '$1 > 0.2 && $2 > 0.2' | cut -f 3-   keep good pairs
"""

SHORT_HELP = ("source", "target", "model", "reverse_model", "output")


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = (
        "Score how well the sides of each line match, by two numbers from 0 to 1: the probability that both directions "
        "link a word to the same word, as the geometric mean over the target words and over the source words"
    )
    parser = new_parser(PROGRAM, f"{description}.", EXAMPLES, SHORT_HELP)
    add_group(parser, TextArgs)
    add_group(parser, OutputArgs, without=("format", "scores"))
    add_group(parser, ModelArgs, without=("template",))
    add_group(parser, RunArgs, without=("buffer",), workers={"default": None})
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align score`, which aligns and writes another column than links."""
    return extract.main(arguments, build_parser(), AGREEMENT)
