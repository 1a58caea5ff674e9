"""`extract-align score`: bitext in, how well the sides of each line match out."""

from __future__ import annotations

from collections.abc import Sequence

from align.cli import extract
from align.cli.args import (
    METHOD,
    add_input_options,
    add_method_options,
    add_model_options,
    add_quiet_option,
    add_result_files,
    add_reverse_options,
    add_signature_option,
    add_speed_options,
    add_words_option,
    add_workers_option,
    new_parser,
)
from align.cli.parser import Parser
from align.core.formats import AGREEMENT
from align.core.types import THRESHOLD

PROGRAM = "extract-align score"

EXAMPLES = """examples:
  extract-align score bitext.tsv > scores   two numbers from 0 to 1 for each line
  extract-align score --reverse-model en-de bitext.tsv > scores   by two models: slower and surer
  extract-align score bitext.tsv | paste - bitext.tsv | awk -F'\\t' '$1 > 0.2 && $2 > 0.2' | cut -f 3-   what is good
"""

MOST_USED = ("source", "target", "model", "reverse_model", "output")


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = (
        "How well the sides of each line match: the chance that both directions link a word to the same word, as the "
        "geometric mean over the target's words, a TAB, and over the source's"
    )
    parser = new_parser(PROGRAM, f"{description}.", EXAMPLES, MOST_USED)
    add_signature_option(parser)
    add_quiet_option(parser)
    add_input_options(parser)
    add_words_option(add_result_files(parser), "unit that is linked")
    add_model_options(parser)
    add_method_options(parser.add_argument_group(METHOD))
    add_reverse_options(parser.add_argument_group("two directions"))
    group = add_speed_options(
        parser,
        "lines read ahead and sorted by length; 1: every line at once",
    )
    add_workers_option(group)
    parser.set_defaults(
        format=AGREEMENT, scores=False, translate=False, ensemble=None, threshold=THRESHOLD, symmetrize=None
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align score`, which aligns and writes another column than links."""
    return extract.main(arguments, build_parser())
