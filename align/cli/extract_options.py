"""The command line of `extract-align`: its options, which of them go together, and what they ask for."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

from align.cli.input_options import add_input_options, read_input, with_lines
from align.cli.method_options import METHOD, OF_REVERSE, add_method_options, add_reverse_options, requested_settings
from align.cli.models import Asked, requested_models
from align.cli.options import (
    MODEL_IDLE,
    SIGNATURE_IDLE,
    WORKERS_IDLE,
    add_model_options,
    add_quiet_option,
    add_signature_option,
    add_speed_options,
    add_workers_option,
    new_parser,
    number_up_to,
)
from align.cli.parser import Idle, Parser
from align.cli.result_options import add_result_options, check_results
from align.cli.translate import SEARCH, add_translate_options, check_translate, requested_search
from align.core.settings import THRESHOLD
from align.core.symmetrize import DIRECTIONS, METHODS, SOFT
from align.io.reader import Input

PROGRAM = "extract-align"


EXAMPLES = """examples:
  extract-align bitext.de-en > links                     lines `source ||| target` or `source TAB target`
  zcat big.tsv.gz | extract-align -o big.links           millions of lines, in a pipe
  extract-align crawl.tsv --columns 2,3 --bad-lines blank --bad-lines-file bad.tsv    a text with a score before it
  extract-align big.tsv.gz -o big.links.gz --resume      the same command goes on after a stop
  extract-align -s test.de -t test.en -m wmt/model.pt -f jsonl    two files and a fairseq model of your own
  extract-align -m de-en --reverse-model en-de bitext.de-en    both directions, symmetrised
  extract-align --translate -s test.de                   translate, and align: `translation ||| links`
  extract-align --input 'bitext/*.parquet' --source-column de --target-column en --output links/    a file for each file
  extract-align --input --help                           how that is done, in parts and again after a stop

combine-align symmetrises two files of links; baseline-align runs a statistical aligner, to compare with.
extract-align serve answers over HTTP; extract-align serve --help says how.
"""


REVERSE_IDLE = (
    Idle((*OF_REVERSE, "symmetrize"), lambda args: not args.reverse_model, "requires --reverse-model"),
    Idle(OF_REVERSE[:2], lambda args: args.symmetrize == "forward", "has no effect with --symmetrize forward"),
    Idle(("layer", "head"), lambda args: args.symmetrize == "reverse", "has no effect with --symmetrize reverse"),
)
"""Reverse-model options that have no effect with certain others."""

IDLE = (
    *WORKERS_IDLE,
    SIGNATURE_IDLE,
    MODEL_IDLE,
    Idle(("scores",), lambda args: args.format == "jsonl", "has no effect with -f jsonl, which always has them"),
    Idle(("scores",), lambda args: args.format == "giza", "has no effect with -f giza, which has no room for them"),
    *REVERSE_IDLE,
    Idle(SEARCH, lambda args: not args.translate, "requires --translate"),
    Idle(("bad_lines_file",), lambda args: args.bad_lines != "blank", "requires --bad-lines blank"),
)
"""Options that have no effect with certain others."""


@dataclass(frozen=True)
class Options(Asked):
    """What `extract-align` is asked for.

    Attributes:
        input: what to read.
        keyboard: whether someone types it.
        output: a file; None or "-" for stdout.
        bad_list: the file to list bad lines in, if there is to be one.
        resume: whether to go on where an interrupted run was stopped.
        format: a key of `align.core.formats.FORMATS`.
        scores: whether to write them beside the links.
        words: what is a word, one of `align.models.divide.CUTS`.
        signature: whether to print the signature alone.
    """

    input: Input
    keyboard: bool
    output: str | None
    bad_list: str | None
    resume: bool
    format: str
    scores: bool
    words: str
    signature: bool


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM, "Word alignments of translated sentences, out of a translation model's attention.", EXAMPLES
    )
    add_signature_option(parser)
    add_quiet_option(parser)
    add_input_options(parser)
    add_result_options(parser)
    add_model_options(parser)
    add_threshold_options(parser)
    add_direction_options(parser)
    add_translate_options(parser)
    group = add_speed_options(
        parser,
        "lines read ahead and sorted by length; up to 1,000 of the first choose layer and head; 1: every line at once",
    )
    add_workers_option(group)
    return parser


def add_threshold_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of extracting links from attention."""
    group = parser.add_argument_group(METHOD)
    add_method_options(group)
    group.add_argument(
        "--threshold",
        type=number_up_to(1, "none"),
        default=THRESHOLD,
        metavar="T",
        help="link all words whose soft score is above it, from 0 to 1; higher: fewer and surer links; none: link each "
        "target word with its best source word",
    )


def add_direction_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a reverse model."""
    group = parser.add_argument_group("two directions")
    add_reverse_options(group)
    group.add_argument(
        "--symmetrize",
        choices=(SOFT, *METHODS, *DIRECTIONS),
        metavar="HOW",
        help=f"soft: by the scores of both models; {', '.join(METHODS)}; forward, reverse: one direction, as it is "
        f"(default: {SOFT})",
    )


def read_options(parser: Parser) -> Options:
    """Read and check the command line."""
    args = parser.parse_command()
    text = read_input(parser, args, one_side=args.translate)
    keyboard = "-" in text.files and sys.stdin is not None and sys.stdin.isatty()
    if keyboard:  # where a slip is no reason to begin again
        parser.set_defaults(bad_lines="blank", buffer=1)
        args = parser.parse_command()
        text = replace(text, blank=args.bad_lines == "blank")
    parser.refuse_idle(args, IDLE)
    check_results(parser, args, text)
    check_translate(parser, args)
    method = args.symmetrize or SOFT
    joined = takes_threshold(parser, args)
    settings, reverse_settings = requested_settings(parser, args, None if joined else args.threshold)
    return Options(
        input=with_lines(text, args.format, args.words),
        keyboard=keyboard,
        output=args.output,
        bad_list=args.bad_lines_file,
        resume=args.resume,
        format=args.format,
        scores=args.scores,
        words=args.words,
        models=requested_models(args, settings, reverse_settings),
        method=method,
        threshold=args.threshold if joined else THRESHOLD,
        search=requested_search(args) if args.translate else None,
        signature=args.signature,
        quiet=args.quiet,
    )


def takes_threshold(parser: Parser, args: argparse.Namespace) -> bool:
    """Tell whether two models are combined by soft scores, which take the threshold themselves."""
    joined = bool(args.reverse_model) and (args.symmetrize or SOFT) == SOFT
    if joined and args.threshold is None:
        parser.error("--threshold none has no effect with --symmetrize soft, which needs one")
    return joined
