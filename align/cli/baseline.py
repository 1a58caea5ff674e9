"""`extract-align baseline`: the links of a statistical aligner, to compare with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from align.baselines.tools import TOOLS, describe_tool, open_run
from align.cli.args import MethodArgs, ModelArgs, OutputArgs, RunArgs, TextArgs, read_input, with_lines
from align.cli.common import Progress, open_output, run, show_warnings, write_alignments
from align.cli.loading import Request, load_models
from align.cli.options import add_group, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.formats import WITH_WORDS
from align.core.symmetrize import DEFAULT_METHOD, DIRECTIONS
from align.core.types import Alignment, Links, Pair, TextWarning
from align.evaluation.dialects import ALL_METHODS, symmetrize
from align.evaluation.ensemble import MEAN, share_of_directions
from align.io.checks import open_text
from align.io.reader import Input
from align.io.signature import signature

if TYPE_CHECKING:
    from align.core.backend import Recorder

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

    tool: str = option(
        choices=tuple(TOOLS),
        metavar="TOOL",
        help=f"{', '.join(TOOLS)}: run in both directions (giza is GIZA++ or MGIZA)",
    )
    train_source: str | None = option("--train-source", metavar="FILE", help="train on this text, not on the input")
    train_target: str | None = option("--train-target", metavar="FILE", help="requires --train-source")
    pieces: str | None = option(
        "--pieces",
        metavar="MODEL",
        help="cut both texts into the pieces that this translation model reads, instead of words; two words are linked "
        "if any of their pieces are. MODEL is a bundled model, a folder, a fairseq checkpoint or a Hugging Face name",
    )
    symmetrize: str = option(
        "--symmetrize",
        default=DEFAULT_METHOD,
        choices=(*ALL_METHODS, MEAN, *DIRECTIONS),
        metavar="HOW",
        short="how to combine the two directions",
        help=f"{', '.join(ALL_METHODS)}; {MEAN}: all links, as 0-1:0.5 in one direction and 0-1:1 in both; forward, "
        "reverse: one direction, as it is",
    )


@dataclass(frozen=True)
class Options:
    """What `extract-align baseline` is asked for.

    Attributes:
        train: the text to train on; None to train on the input.
    """

    args: BaselineArgs
    text: Input
    train: Input | None
    output: OutputArgs
    run: RunArgs


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Word alignments of a whole text by a statistical aligner, to compare with."
    most_used = ("source", "target", "output", "format", "symmetrize", "threads")
    parser = new_parser(PROGRAM, description, EXAMPLES, most_used)
    add_group(parser, BaselineArgs)
    add_group(parser, TextArgs, without=("columns", "bad_lines"))
    add_group(parser, OutputArgs, only=("output", "format"))
    add_group(parser, RunArgs, only=("threads", "quiet"))
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line."""
    args = parser.parse_command(arguments)
    if (args.train_source is None) != (args.train_target is None):
        parser.error("--train-source and --train-target go together")
    text = read_input(parser, read_group(TextArgs, args), args.output, args.train_source, args.train_target)
    return Options(
        read_group(BaselineArgs, args),
        with_lines(text, args.format),
        Input((args.train_source, args.train_target), parallel=True) if args.train_source else None,
        read_group(OutputArgs, args),
        read_group(RunArgs, args),
    )


def sign_tool(options: Options, recorder: Recorder | None, trained: int) -> str:
    """Return the signature.

    Args:
        trained: how many pairs the tool was trained on.
    """
    case = "lower" if TOOLS[options.args.tool].lower else "keep"
    parts = {
        "tool": describe_tool(options.args.tool),
        **({"pieces": recorder.name} if recorder else {"case": case}),
        "trained": f"{'train' if options.train else 'test'}-{trained}",
        "symmetrize": options.args.symmetrize,
    }
    return signature(parts)


def align_statistically(options: Options) -> None:
    """Train, align in both directions, symmetrise, and report on stderr."""
    args, output, recorder = options.args, options.output, None
    if args.pieces:  # of which only the text rules are used
        request = Request(ModelArgs(args.pieces), MethodArgs(reader="none"), replace(options.run, device="cpu"))
        recorder = load_models(PROGRAM, request)[0].forward.recorder
    with ExitStack() as stack:
        pairs: Iterable[Pair] = stack.enter_context(open_text(options.text))
        written: Iterable[Pair] = (Pair((), (), number) for number in count(1))
        if output.format in WITH_WORDS:
            pairs = written = list(pairs)
        tool_run = stack.enter_context(
            open_run(
                args.tool,
                pairs,
                train=stack.enter_context(open_text(options.train)) if options.train else None,
                threads=options.run.threads or os.cpu_count() or 1,
                cut=recorder.encode if recorder else None,
            )
        )
        progress = stack.enter_context(closing(Progress(PROGRAM, options.run.quiet)))
        aligned = alignments(written, tool_run.links, args.symmetrize)
        with open_output(output.output) as out:
            summary = write_alignments(aligned, out, output.format, progress, args.symmetrize == MEAN)
    progress.write(f"{PROGRAM}: {summary}")
    progress.write(sign_tool(options, recorder, tool_run.trained))


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
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: align_statistically(options))
