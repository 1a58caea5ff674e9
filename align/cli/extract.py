"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, get_args

import align
from align.baselines import TOOLS
from align.cli.combine import DEFAULT_METHOD, DIRECTIONS, align_statistically, combine
from align.cli.common import Progress, open_output, run, say, show_warnings, write_links
from align.cli.inputs import add_input_options, check_inputs, open_pairs
from align.cli.options import Help, add_model_options, add_null_option, add_speed_options, load_model, number_or
from align.formats import FORMATS
from align.memory import keep_freed_memory
from align.signature import describe, signature
from align.symmetrize import METHODS
from align.types import Pair, PairError, Position, Score, TextWarning

if TYPE_CHECKING:
    from align.aligner import Aligner

PROGRAM = "extract-align"

MODEL_ONLY = (
    *("source_lang", "target_lang", "dictionaries", "tokenizer", "subwords", "source_subwords", "target_subwords"),
    *("score", "position", "layer", "head", "null", "device", "dtype", "batch_tokens", "buffer", "too_long"),
)
"""Options without a meaning for links that no model makes."""

EXAMPLES = """examples:
  extract-align bitext.de-en > links                     lines `source ||| target` or `source TAB target`
  zcat big.tsv.gz | extract-align -o big.links           millions of lines, in a pipe
  extract-align -s test.de -t test.en -m wmt/model.pt -f jsonl    two files and a fairseq model of your own
  extract-align --combine de-en.links en-de.links --symmetrize grow-diag-final-and
  extract-align -m eflomal bitext.de-en > links          a statistical aligner, to compare with
"""


def build_parser() -> argparse.ArgumentParser:
    """All options, in groups."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Word alignments of translated sentences, out of a translation model's attention.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {align.__version__}")
    parser.add_argument("--signature", action="store_true", help="print the signature of these settings and stop")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but warnings and errors")
    add_input_options(parser)
    _output_options(parser)
    add_model_options(parser, f", or a statistical aligner: {', '.join(TOOLS)}")
    _method_options(parser)
    _symmetrize_options(parser)
    add_speed_options(parser, "lines read ahead and sorted by length; 1 answers every line at once")
    return parser


def _output_options(parser: argparse.ArgumentParser) -> None:
    """Where the links go, and in which form."""
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="written whole or not at all; .gz and .xz are packed (default: stdout)"
    )
    group.add_argument(
        "-f",
        "--format",
        choices=tuple(FORMATS),
        default="pharaoh",
        help="pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, links, scores, NULL words; "
        "naacl: a line for each link, from 1; giza: three lines for each pair, as in A3.final",
    )
    group.add_argument("--scores", action="store_true", help="links as 0-1:0.83, the share of the target word's score")


def _method_options(parser: argparse.ArgumentParser) -> None:
    """How links are read off attention."""
    group = parser.add_argument_group("method (Kobayashi et al., EMNLP 2020)")
    group.add_argument(
        "--score",
        choices=get_args(Score),
        default="norm",
        help="attention weight, or norm of the attention-weighted vector",
    )
    group.add_argument(
        "--position",
        choices=get_args(Position),
        default="input",
        help="align a target word by the decoder step that reads it (input) or predicts it (output)",
    )
    group.add_argument(
        "--layer",
        type=number_or("auto"),
        default="auto",
        help="decoder layer, from 1; auto: by lexical consistency on the first buffer of lines",
    )
    group.add_argument(
        "--head",
        type=number_or("auto", "all"),
        default="auto",
        help="attention head, from 1; all: together; auto: as for --layer",
    )
    add_null_option(group)


def _symmetrize_options(parser: argparse.ArgumentParser) -> None:
    """Two directions, of two files or of a statistical aligner."""
    group = parser.add_argument_group("two directions (no model: --combine, or -m fast_align, eflomal or giza)")
    group.add_argument(
        "--combine",
        nargs=2,
        metavar=("FWD", "REV"),
        help="combine two files of links, source first, counted alike; possible links (0p1) count as links",
    )
    group.add_argument(
        "--reverse-swapped", action="store_true", help="REV has the target side first, as lilt's .reverse files"
    )
    group.add_argument(
        "--symmetrize",
        choices=(*METHODS, *DIRECTIONS),
        help=f"how; forward and reverse: one direction of an aligner, as it is (default: {DEFAULT_METHOD})",
    )
    group.add_argument("--train-source", metavar="FILE", help="train the aligner on this text, not on the input")
    group.add_argument("--train-target", metavar="FILE", help="goes with --train-source")
    group.add_argument("--append-test", action="store_true", help="train on that text with the input appended")


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse combinations that make no sense, with exit code 2."""
    statistical = args.model in TOOLS
    others = (args.train_source, args.train_target, *(args.combine or ()))
    check_inputs(parser, args, *others)
    if (args.train_source is None) != (args.train_target is None):
        parser.error("--train-source and --train-target go together")
    if args.combine and (args.input or args.source):
        parser.error("--combine takes two files of links and no text")
    if args.symmetrize in DIRECTIONS and args.combine:
        parser.error(f"--symmetrize {args.symmetrize} is for statistical aligners: one of the two files has it already")
    if (args.symmetrize or args.train_source) and not (args.combine or statistical):
        parser.error("--symmetrize and --train-source go with --combine or -m " + ", ".join(TOOLS))
    if args.append_test and not args.train_source:
        parser.error("--append-test goes with --train-source and --train-target")
    if args.combine and args.format not in ("pharaoh", "talp"):
        parser.error(f"--combine knows neither words nor where counting starts: -f {args.format} cannot be written")
    if args.combine and args.train_source:
        parser.error("--combine takes links that are there: --train-source has no part in it")
    if args.combine or statistical:
        idle = [*MODEL_ONLY, *(("model", "case", "threads") if args.combine else ())]
        for name in idle:
            if getattr(args, name) != parser.get_default(name):
                way = "--combine" if args.combine else f"-m {args.model}"
                parser.error(f"--{name.replace('_', '-')} is for a translation model: {way} has no use for it")
    if args.reverse_swapped and not args.combine:
        parser.error("--reverse-swapped goes with --combine")
    if args.scores and (args.combine or statistical):
        parser.error("--scores are a model's: there are none here")


def load_aligner(args: argparse.Namespace) -> Aligner:
    """The model, with the settings asked for."""
    names = ("score", "position", "layer", "head", "null", "too_long")
    return load_model(PROGRAM, args, **{name: getattr(args, name) for name in names})


def extract(args: argparse.Namespace) -> None:
    """Align all of the input."""
    if args.combine:
        combine(PROGRAM, args)
        return
    if args.model in TOOLS:
        with open_pairs(args) as (pairs, _):
            align_statistically(PROGRAM, pairs, args)
        return
    keep_freed_memory()
    if args.signature:
        with open_output(None) as out:
            out.write(sign(load_aligner(args)).encode() + b"\n")
        return
    with open_pairs(args) as (pairs, name), open_output(args.output) as out:  # both before the model, which takes long
        aligner = load_aligner(args)
        if name == "stdin" and sys.stdin.isatty() and not args.quiet:
            say(f"{PROGRAM}: reading `source ||| target` lines from the keyboard; Ctrl-D ends")
        progress = Progress(PROGRAM, args.quiet)
        try:
            counts = write_all(aligner, pairs, out, progress, args)
        except PairError as error:
            raise ValueError(f"{name}, {error}") from None
        finally:
            progress.close()
    progress.write(
        f"{PROGRAM}: {progress.lines:,} lines, {counts['blank']:,} blank, {counts['too long']:,} too long, "
        f"{progress.rate:,.0f} lines/s"
    )
    progress.write(sign(aligner))


def write_all(
    aligner: Aligner, pairs: Iterator[Pair], out: BinaryIO, progress: Progress, args: argparse.Namespace
) -> Counter[str]:
    """Write a line for each pair as its buffer is done; counts what got none for a reason."""
    counts: Counter[str] = Counter()
    told = False
    for alignment in aligner(pairs):
        if not told and aligner.cell:
            progress.write(f"{PROGRAM}: {aligner.cell} ({aligner.reason})")
            told = True
        write_links(out, alignment, args.format, args.scores)
        counts["blank"] += alignment.pair.blank
        counts["too long"] += alignment.skipped == "too long"
        progress.add()
        if progress.lines % args.buffer == 0:
            out.flush()
    return counts


def sign(aligner: Aligner) -> str:
    """The signature, with what "auto" came to."""
    recorder = aligner.recorder
    return signature(describe(recorder.name, aligner.settings, aligner.cell, align.__version__, recorder.dtype))


def main() -> int:
    """Entry point of `extract-align`."""
    parser = build_parser()
    args = parser.parse_args()
    check(parser, args)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: extract(args))


if __name__ == "__main__":
    sys.exit(main())
