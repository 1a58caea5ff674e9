"""The options of `extract-align` that say where alignments go, and in which form."""

from __future__ import annotations

import argparse
import os

from align.cli.input_options import check_files
from align.cli.options import add_output_option
from align.core.formats import FORMATS
from align.io.reader import Input
from align.models.divide import CUTS


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the output and its format."""
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    add_output_option(group)
    group.add_argument(
        "--bad-lines-file",
        metavar="LIST",
        help="with --bad-lines blank: list those lines, as file, line number and reason between TABs",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="with -o FILE: resume an interrupted run; the result is the same, byte for byte. Finished blocks are in "
        "FILE.parts until the run is complete; remove this folder to start over. FILE.run.json records the run: "
        "repeating the same command does nothing, and another existing FILE is refused",
    )
    group.add_argument(
        "-f",
        "--format",
        choices=tuple(FORMATS),
        default="pharaoh",
        metavar="FORMAT",
        help="pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, links, scores, unlinked words; "
        "naacl: a line for each link, from 1; giza: three lines for each pair, as in A3.final; offsets: 0:2-0:3, by "
        "characters of the lines as given",
    )
    group.add_argument(
        "--scores",
        action="store_true",
        help="links as 0-1:0.83, or 0:2-0:3/0.83: shares of the target word's row, or soft scores",
    )
    group.add_argument(
        "--words",
        choices=CUTS,
        default="spaces",
        help="unit that links count on both sides: words between spaces; in text without spaces each character, each "
        "of the model's pieces, or a word of ICU's dictionaries",
    )


def check_results(parser: argparse.ArgumentParser, args: argparse.Namespace, text: Input) -> None:
    """Refuse output that cannot be written, with exit code 2."""
    _check_bad_list(parser, args, text)
    if args.words != "spaces":
        for name in ("reverse_model", "translate"):
            if getattr(args, name):
                parser.error(f"--words {args.words} cannot be combined with --{name.replace('_', '-')}")
    if args.resume and args.output in (None, "-"):
        parser.error("--resume requires -o FILE")
    if args.output and (args.output.endswith("/") or os.path.isdir(args.output)):
        parser.error(f"-o {args.output} is a folder: --input FILE … --output {args.output} writes a file for each FILE")
    if args.resume and os.path.exists(args.output) and not os.path.isfile(args.output):
        parser.error(f"--resume needs an ordinary file, and {args.output} is not one")


def _check_bad_list(parser: argparse.ArgumentParser, args: argparse.Namespace, text: Input) -> None:
    """Refuse a list of bad lines in the place of another file, with exit code 2."""
    name = args.bad_lines_file
    if name is None:
        return
    if name in ("", "-") or name == args.output:
        parser.error("--bad-lines-file needs the name of a file, another than that of -o")
    check_files(parser, text.files, name, "--bad-lines-file")
