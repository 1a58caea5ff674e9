"""`extract-align baseline`: the links of a statistical aligner, to compare with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count
from typing import ClassVar

from align.baselines.tools import TOOLS, describe_tool, open_run
from align.cli.args import MethodArgs, ModelArgs, OutputArgs, RunArgs, TextArgs, read_input, with_lines
from align.cli.common import Progress, open_output, run, write_alignments
from align.cli.loading import Request, load_models
from align.cli.options import add_group, argument, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.formats import WITH_WORDS
from align.core.symmetrize import DEFAULT_METHOD, DIRECTIONS, MEAN, share_of_directions
from align.core.types import Alignment, Links, Pair
from align.evaluation.dialects import ALL_METHODS, symmetrize
from align.io.checks import open_text
from align.io.reader import Input
from align.io.signature import signature

PROGRAM = "extract-align baseline"

EXAMPLES = """examples:
  extract-align baseline eflomal bitext.de-en > links   trained on the input itself
  extract-align baseline fast_align -s test.de -t test.en --train-source train.de --train-target train.en
  extract-align baseline eflomal bitext.de-en --pieces de-en > links   on the model's pieces, brought back to words
"""


@dataclass(frozen=True)
class BaselineArgs:
    """The tool, and what it learns from."""

    TITLE: ClassVar = "tool"

    tool: str = argument(
        choices=tuple(TOOLS),
        metavar="TOOL",
        help=f"{', '.join(TOOLS)}: run in both directions (giza is GIZA++ or MGIZA)",
    )
    train_source: str | None = option(metavar="FILE", help="train on this text, not on the input")
    train_target: str | None = option(metavar="FILE", help="requires --train-source")
    pieces: str | None = option(
        metavar="MODEL",
        help="cut both texts into the pieces that this translation model reads, instead of words; two words are linked "
        "if any of their pieces are. MODEL is a bundled model, a folder, a fairseq checkpoint or a Hugging Face name",
    )
    symmetrize: str = option(
        default=DEFAULT_METHOD,
        choices=(*ALL_METHODS, MEAN, *DIRECTIONS),
        metavar="HOW",
        short="how to combine the two directions",
        help=f"{', '.join(ALL_METHODS)}; {MEAN}: all links, as 0-1:0.5 in one direction and 0-1:1 in both; forward, "
        "reverse: one direction, as it is",
    )


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Align a whole text with a statistical aligner, for comparison."
    most_used = ("source", "target", "output", "format", "symmetrize", "threads")
    parser = new_parser(PROGRAM, description, EXAMPLES, most_used)
    add_group(parser, BaselineArgs)
    add_group(parser, TextArgs, without=("columns", "bad_lines"))
    add_group(parser, OutputArgs, only=("output", "format"))
    add_group(parser, RunArgs, only=("threads", "quiet"))
    return parser


def align_statistically(args: BaselineArgs, text: Input, train: Input | None, output: OutputArgs, run: RunArgs) -> None:
    """Train on the text, or on another one, align in both directions, symmetrise, and report on stderr."""
    recorder = None
    if args.pieces:  # of which only the text rules are used
        request = Request(ModelArgs(args.pieces), MethodArgs(scorer="none"), replace(run, device="cpu"))
        recorder = load_models(PROGRAM, request)[0].forward.recorder
    with ExitStack() as stack:
        pairs: Iterable[Pair] = stack.enter_context(open_text(text))
        written: Iterable[Pair] = (Pair((), (), number) for number in count(1))
        if output.format in WITH_WORDS:
            pairs = written = list(pairs)
        trained, links = stack.enter_context(
            open_run(
                args.tool,
                pairs,
                train=stack.enter_context(open_text(train)) if train else None,
                threads=run.threads or os.cpu_count() or 1,
                cut=recorder.encode if recorder else None,
            )
        )
        progress = stack.enter_context(closing(Progress(PROGRAM, run.quiet)))
        aligned = alignments(written, links, args.symmetrize)
        with open_output(output.output) as out:
            summary = write_alignments(aligned, out, output.format, progress, args.symmetrize == MEAN)
    progress.write(f"{PROGRAM}: {summary}")
    case = "lower" if TOOLS[args.tool].lower else "keep"
    parts = {
        "tool": describe_tool(args.tool),
        **({"pieces": recorder.name} if recorder else {"case": case}),
        "trained": f"{'train' if train else 'test'}-{trained}",
        "symmetrize": args.symmetrize,
        "words": "unicode" if output.format == "tsv" else None,
    }
    progress.write(signature(parts))


def alignments(pairs: Iterable[Pair], links: Iterable[tuple[Links, Links]], method: str) -> Iterator[Alignment]:
    """Yield links of both directions, symmetrised, or those of one."""
    for pair, (forward, reverse) in zip(pairs, links, strict=False):
        if method == MEAN:
            yield Alignment(pair, share_of_directions(forward, reverse))
        elif method in DIRECTIONS:
            yield Alignment(pair, dict.fromkeys(forward if method == "forward" else reverse, 1.0))
        else:
            yield Alignment(pair, dict.fromkeys(symmetrize(forward, reverse, method), 1.0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align baseline`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    parser.require_both(args, "--train-source", "--train-target")
    words = "unicode" if args.format == "tsv" else "spaces"
    text = replace(with_lines(read_input(parser, read_group(TextArgs, args)), args.format, words), blank=None)
    train = None
    if args.train_source:  # whose lines are not written
        of_train = replace(text, files=(args.train_source, args.train_target), parallel=True)
        train = with_lines(of_train, "pharaoh", words)
    groups = read_group(BaselineArgs, args), text, train, read_group(OutputArgs, args), read_group(RunArgs, args)
    return run(PROGRAM, lambda: align_statistically(*groups))
