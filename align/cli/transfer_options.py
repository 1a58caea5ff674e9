"""The command line of `transfer-align`: its options, which of them go together, and what they ask for."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from align.cli.input_options import add_bad_lines_option, check_files
from align.cli.method_options import METHOD, OF_REVERSE, add_method_options, add_reverse_options, requested_settings
from align.cli.models import MODEL_OPTIONS, Asked, requested_models
from align.cli.options import (
    MODEL_IDLE,
    WORKERS_IDLE,
    add_model_options,
    add_output_option,
    add_quiet_option,
    add_speed_options,
    add_workers_option,
    new_parser,
)
from align.cli.parser import Idle, Parser
from align.cli.translate import SEARCH, add_translate_options, requested_search
from align.core.symmetrize import SOFT
from align.transfer.columns import COLUMNS
from align.transfer.spans import SPANS
from align.transfer.tags import PARSERS
from align.transfer.windows import FLOOR

PROGRAM = "transfer-align"

LABELS = (*COLUMNS, SPANS)

TAGS = (*PARSERS, *LABELS)

READING = (
    *("model", "reverse_model", "score", "position", "layer", "head", "null", *OF_REVERSE),
    *("device", "dtype", "threads", "workers", "batch_tokens", "buffer", "translate"),
    *sorted(MODEL_OPTIONS),
)
"""Options of models."""

EXAMPLES = """examples:
  transfer-align --tags html page.tsv > page.en          lines `source with tags ||| target`, with the bundled model
  transfer-align --tags xml -s a.de.xml -t a.en --reverse-model en-de    two files, and both directions, which is best
  transfer-align --tags xml -s a.de.xml -t a.en --links a.links    with links that are there already
  transfer-align --tags html --strip page.de > plain.de  the lines without tags, to translate or align elsewhere
  transfer-align --tags html --translate page.de         translate lines with tags, and put the tags in
  transfer-align --tags bio -s ner.de.bio -t ner.en      labels in columns, on to the words of a translation
  transfer-align --tags spans -s ner.jsonl -t ner.en     labels of characters, as annotation tools write them
"""

IDLE = (
    *WORKERS_IDLE,
    MODEL_IDLE,
    Idle(READING, lambda args: args.links, "has no effect with --links"),
    Idle((*READING, "links", "split", "report"), lambda args: args.strip, "has no effect with --strip"),
    Idle(OF_REVERSE, lambda args: not args.reverse_model, "requires --reverse-model"),
    Idle(SEARCH, lambda args: not args.translate, "requires --translate"),
    Idle(("bad_lines",), lambda args: args.tags in LABELS, "requires tags, not labels"),
    Idle(("split",), lambda args: args.tags in LABELS, "requires tags, not labels"),
)
"""Options that have no effect with certain others."""


@dataclass(frozen=True)
class Options(Asked):
    """What `transfer-align` is asked for.

    Attributes:
        files: one of both sides, or of the source alone, or one of each; "-" is stdin.
        one_side: whether there is no target to read.
        tags: a key of `align.transfer.tags.PARSERS`, or one of LABELS.
        links: the file of links, if there is one.
        split: whether a tag may come more than once.
        strip: whether to write the source without its tags.
        output: a file; None for stdout.
        report: the file that says where each tag was put, if there is to be one.
    """

    files: tuple[str, ...]
    one_side: bool
    tags: str
    links: str | None
    split: bool
    strip: bool
    output: str | None
    report: str | None


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM, "Puts the tags or labels of source sentences into their translations, along word alignments.", EXAMPLES
    )
    add_quiet_option(parser)
    _tag_options(parser)
    group = parser.add_argument_group("input (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("input", nargs="?", metavar="FILE", help="lines `source with tags ||| target` (default: stdin)")
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences with tags, or in columns; requires -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences, a line each; requires -s")
    group.add_argument(
        "--links",
        metavar="FILE",
        help="links of the lines without tags, as extract-align writes them: Pharaoh, or jsonl; best with --scores. "
        "Without it a model aligns the lines",
    )
    add_bad_lines_option(
        group,
        "a line that has not two fields, is not UTF-8, has tags that cannot be read, or is longer than the model takes",
    )
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    add_output_option(group)
    group.add_argument(
        "--report",
        metavar="FILE",
        help="a JSON line for each line: where each tag was put, how surely, and what is odd",
    )
    add_model_options(parser)
    add_method_options(parser.add_argument_group(METHOD))
    add_reverse_options(parser.add_argument_group("two directions"))
    add_translate_options(parser, "each translation with the tags")
    add_workers_option(add_speed_options(parser, "lines read ahead and sorted by length; 1: every line at once"))
    return parser


def _tag_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of tags."""
    group = parser.add_argument_group("tags")
    group.add_argument(
        "--tags",
        choices=TAGS,
        required=True,
        metavar="KIND",
        help="xml: well-formed; html: anything; placeholders: {0}, {name}, %%s, %%1$d and the like; bio: labels B-X, "
        "I-X and O in the last column of -s, words in its first; conll: labels NER= in the last column of CoNLL-U; "
        'spans: JSON lines {"text": ..., "labels": [[0, 4, "PER"], ...], "target": ...}, counted in characters',
    )
    group.add_argument(
        "--split",
        action="store_true",
        help="a tag may come more than once, around all words that are linked to its own",
    )
    group.add_argument("--strip", action="store_true", help="write the source without tags; read no target")


def read_options(parser: Parser) -> Options:
    """Read and check the command line."""
    args = parser.parse_args()
    parser.refuse_idle(args, IDLE)
    settings, reverse = requested_settings(parser, args, None if args.reverse_model else FLOOR)
    return Options(
        models=requested_models(args, settings, reverse),
        method=SOFT,
        threshold=FLOOR,
        search=requested_search(args) if args.translate else None,
        quiet=args.quiet,
        files=_files(parser, args),
        one_side=args.strip or args.translate,
        tags=args.tags,
        links=args.links,
        split=args.split,
        strip=args.strip,
        output=args.output,
        report=args.report,
    )


def _files(parser: Parser, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the files to read; conflicting ones exit with code 2."""
    one_side = "--strip" if args.strip else "--translate" if args.translate else ""
    if one_side and args.target is not None:
        parser.error(f"{one_side} reads the source alone: leave out -t/--target")
    if not one_side and (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input is not None:
        parser.error("either FILE, or -s and -t")
    if args.tags in COLUMNS and (one_side or args.source is None):
        parser.error(f"--tags {args.tags} reads columns with -s, and lines with -t")
    files = (args.input or "-",) if args.source is None else (args.source, *filter(None, [args.target]))
    check_files(parser, (*files, args.links), args.output)
    if args.report is not None:
        if args.report in ("", "-") or args.report == args.output:
            parser.error("--report needs the name of a file, another than that of -o")
        check_files(parser, (*files, args.links), args.report, "--report")
    return files
