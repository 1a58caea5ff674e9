"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, get_args

import align
from align.cli.common import Progress, keep_freed_memory, open_output, run, say, show_warnings
from align.formats import FORMATS
from align.recorders.folder import DEFAULT_MODEL
from align.signature import describe, signature
from align.stream import BATCH_TOKENS, BUFFER, open_lines, read_bitext, read_lines, read_parallel
from align.text import CASES, SUBWORDS, TOKENIZERS
from align.types import Null, Pair, PairError, Position, Score, TextWarning

if TYPE_CHECKING:
    from align.aligner import Aligner

PROGRAM = "extract-align"

EXAMPLES = """examples:
  extract-align bitext.de-en > links                     lines `source ||| target` or `source TAB target`
  zcat big.tsv.gz | extract-align -o big.links           millions of lines, in a pipe
  extract-align -s test.de -t test.en -m wmt/model.pt -f jsonl    two files and a fairseq model of your own
"""


def number_or(*words: str) -> Callable[[str], int | str]:
    """An argument that is a number from 1 or one of some words."""

    def parse(text: str) -> int | str:
        if text in words:
            return text
        if text.isascii() and text.isdigit() and int(text) >= 1:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 nor {' or '.join(words)}")

    return parse


def positive(text: str) -> int:
    """An argument that is a number from 1."""
    if text.isascii() and text.isdigit() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the examples, and adds defaults where there are any."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default not in (None, False) else action.help


def build_parser() -> argparse.ArgumentParser:
    """All options, in groups."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Word alignments of translated sentences, out of a translation model's attention.",
        epilog=EXAMPLES,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {align.__version__}")
    parser.add_argument("--signature", action="store_true", help="print the signature of these settings and stop")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but warnings and errors")
    _input_options(parser)
    _output_options(parser)
    _model_options(parser)
    _method_options(parser)
    _speed_options(parser)
    return parser


def _input_options(parser: argparse.ArgumentParser) -> None:
    """Where the sentences come from."""
    group = parser.add_argument_group("input (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("input", nargs="?", help="lines `source ||| target` or `source TAB target` (default: stdin)")
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; goes with -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; goes with -s")
    group.add_argument(
        "--too-long",
        choices=("stop", "blank"),
        default="stop",
        help="at a line longer than the model takes: stop, or give it a blank line",
    )


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
        help="pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, links, scores, NULL words",
    )
    group.add_argument("--scores", action="store_true", help="links as 0-1:0.83, the share of the target word's score")


def _model_options(parser: argparse.ArgumentParser) -> None:
    """The model, and what its files do not say."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "-m", "--model", default=DEFAULT_MODEL, help="a bundled model, a folder, or a fairseq checkpoint"
    )
    group.add_argument("--source-lang", metavar="LANG", help="source language, as in dict.LANG.txt")
    group.add_argument("--target-lang", metavar="LANG", help="target language")
    group.add_argument(
        "--dictionaries", metavar="DIR", type=Path, help="folder of dict.LANG.txt (default: the model's)"
    )
    group.add_argument("--case", choices=CASES, help="of the text that the model read (default: keep)")
    group.add_argument("--tokenizer", choices=tuple(TOKENIZERS), help="of that text (default: none)")
    group.add_argument(
        "--subwords",
        choices=tuple(SUBWORDS),
        help="how words are cut; none: lines hold the model's pieces already (default: by the files found)",
    )
    group.add_argument("--source-subwords", metavar="FILE", type=Path, help="sentencepiece model or BPE codes")
    group.add_argument("--target-subwords", metavar="FILE", type=Path, help="the same for the target")


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
    group.add_argument(
        "--null",
        choices=get_args(Null),
        default="eos",
        help="eos: words that attend to the source's </s> most stay unaligned; mask: hide </s> from attention; "
        "none: leave </s> out of the choice",
    )


def _speed_options(parser: argparse.ArgumentParser) -> None:
    """Device, arithmetic and sizes."""
    group = parser.add_argument_group("speed")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run the model")
    group.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the model's arithmetic")
    group.add_argument("--threads", type=positive, metavar="N", help="CPU threads (default: all cores)")
    group.add_argument(
        "--batch-tokens", type=positive, default=BATCH_TOKENS, metavar="N", help="pieces in a batch, padding included"
    )
    group.add_argument(
        "--buffer",
        type=positive,
        default=BUFFER,
        metavar="N",
        help="lines read ahead and sorted by length; 1 answers every line at once",
    )


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse combinations that make no sense, with exit code 2."""
    if (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input is not None:
        parser.error("either one file of both sides, or -s and -t")
    if args.source == args.target == "-":
        parser.error("-s and -t cannot both be stdin")
    files = [name for name in (args.input, args.source, args.target) if name and os.path.isfile(name)]
    for name in files if args.output and os.path.isfile(args.output) else []:
        if os.path.samefile(name, args.output):
            parser.error(f"-o would replace the input {name}")


@contextmanager
def open_pairs(args: argparse.Namespace) -> Iterator[tuple[Iterator[Pair], str]]:
    """The input's pairs, and what to call it in messages."""
    names = [args.source, args.target] if args.source is not None else [args.input or "-"]
    shown = ["stdin" if name == "-" else name for name in names]
    with ExitStack() as stack:
        lines = [
            read_lines(stack.enter_context(open_lines(name)), show) for name, show in zip(names, shown, strict=True)
        ]
        if len(lines) == 2:
            yield read_parallel(lines[0], lines[1], (shown[0], shown[1])), " and ".join(shown)
        else:
            yield read_bitext(lines[0], shown[0]), shown[0]


def load_aligner(args: argparse.Namespace) -> Aligner:
    """Import what is heavy, and load the model."""
    import torch

    from align.loading import load
    from align.recorders.folder import ModelOptions

    if args.threads:
        torch.set_num_threads(args.threads)
    names = ("score", "position", "layer", "head", "null", "device", "dtype", "buffer", "batch_tokens", "too_long")
    options = ModelOptions(**{field.name: getattr(args, field.name) for field in fields(ModelOptions)})
    aligner = load(args.model, options=options, **{name: getattr(args, name) for name in names})
    if not args.quiet:
        recorder = aligner.recorder
        threads = f" ({torch.get_num_threads()} threads)" if recorder.device == "cpu" else ""
        say(f"{PROGRAM}: {recorder.name} on {recorder.device}{threads}; text: {recorder.text}")
    return aligner


def extract(args: argparse.Namespace) -> None:
    """Align all of the input."""
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
            counts = write_links(aligner, pairs, out, progress, args)
        except PairError as error:
            raise ValueError(f"{name}, {error}") from None
        finally:
            progress.close()
    progress.write(
        f"{PROGRAM}: {progress.lines:,} lines, {counts['blank']:,} blank, {counts['too long']:,} too long, "
        f"{progress.rate:,.0f} lines/s"
    )
    progress.write(sign(aligner))


def write_links(
    aligner: Aligner, pairs: Iterator[Pair], out: BinaryIO, progress: Progress, args: argparse.Namespace
) -> Counter[str]:
    """Write a line for each pair as its buffer is done; counts what got none for a reason."""
    counts: Counter[str] = Counter()
    write_line = FORMATS[args.format]
    told = False
    for alignment in aligner(pairs):
        if not told and aligner.cell:
            progress.write(f"{PROGRAM}: {aligner.cell} ({aligner.reason})")
            told = True
        out.write(write_line(alignment, args.scores).encode() + b"\n")
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
