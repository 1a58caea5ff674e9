"""`extract-align baseline`: the links of a statistical aligner, to compare with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from align.baselines.tools import TOOLS, Run, describe_tool, lower_case, open_run
from align.cli.args import (
    MAX_THREADS,
    add_input_options,
    add_output_option,
    add_quiet_option,
    add_signature_option,
    new_parser,
    options_of,
    read_input,
    whole_number,
    with_lines,
)
from align.cli.common import Progress, open_output, run, show_warnings, write_alignments
from align.cli.loading import ModelRequest, Models, load_models
from align.cli.parser import Parser
from align.core.formats import OUTPUT_FORMATS, WITH_WORDS
from align.core.stream import BUFFER
from align.core.symmetrize import DEFAULT_METHOD, DIRECTIONS
from align.core.types import Alignment, Links, Pair, Settings, TextWarning
from align.evaluation.dialects import ALL_METHODS, symmetrize
from align.evaluation.ensemble import MEAN, share_of_directions
from align.io.checks import open_text
from align.io.reader import Input
from align.io.signature import signature
from align.models.model_toml import ModelOptions
from align.models.preprocess import CASES

if TYPE_CHECKING:
    from align.core.backend import Recorder

PROGRAM = "extract-align baseline"

EXAMPLES = """examples:
  extract-align baseline eflomal bitext.de-en > links   trained on the input itself
  extract-align baseline fast_align -s test.de -t test.en --train-source train.de --train-target train.en
  extract-align baseline giza -s test.de -t test.en --train-source train.de --train-target train.en --append-test
  extract-align baseline eflomal bitext.de-en --pieces de-en > links   on the model's pieces, brought back to words
"""


@dataclass(frozen=True)
class Options:
    """What `extract-align baseline` is asked for.

    Attributes:
        tool: a key of `align.baselines.tools.TOOLS`.
        train: the text to train on; None to train on the input.
        append: whether to train on the input too.
        pieces: the model whose pieces the tool gets; None for words.
        method: a key of `align.evaluation.dialects.ALL_METHODS`, or the direction whose links to give.
    """

    tool: str
    input: Input
    train: Input | None
    append: bool
    pieces: Models | None
    lower: bool
    method: str
    threads: int
    format: str
    output: str | None
    signature: bool
    quiet: bool


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM,
        "Word alignments of a whole text by a statistical aligner, to compare with.",
        EXAMPLES,
        ("source", "target", "output", "format", "symmetrize", "threads"),
    )
    add_signature_option(parser)
    add_quiet_option(parser)
    parser.add_argument(
        "tool",
        choices=tuple(TOOLS),
        metavar="TOOL",
        help=f"{', '.join(TOOLS)}: run in both directions (giza is GIZA++ or MGIZA)",
    )
    add_input_options(parser)
    group = parser.add_argument_group("training (by default on the input)")
    group.add_argument("--train-source", metavar="FILE", help="train on this text, not on the input")
    group.add_argument("--train-target", metavar="FILE", help="requires --train-source")
    group.add_argument("--append-test", action="store_true", help="train on that text with the input appended")
    group.add_argument(
        "--case",
        choices=CASES,
        help="of the words (default: keep; eflomal always lowers it)",
    )
    group.add_argument(
        "--threads", type=whole_number(1, MAX_THREADS), metavar="N", help="CPU threads (default: all cores)"
    )
    parser.add_argument(
        "--pieces",
        metavar="MODEL",
        help="cut both texts into the pieces that this translation model reads, instead of words; two words are linked "
        "if any of their pieces are. MODEL is a bundled model, a folder, a fairseq checkpoint or a Hugging Face name",
    )
    group = parser.add_argument_group("two directions")
    group.add_argument(
        "--symmetrize",
        choices=(*ALL_METHODS, MEAN, *DIRECTIONS),
        default=DEFAULT_METHOD,
        metavar="HOW",
        help=f"{', '.join(ALL_METHODS)}; {MEAN}: all links, as 0-1:0.5 in one direction and 0-1:1 in both; forward, "
        "reverse: one direction, as it is",
    )
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    add_output_option(group)
    group.add_argument(
        "-f",
        "--format",
        choices=OUTPUT_FORMATS,
        default="pharaoh",
        metavar="FORMAT",
        help="pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, links, unlinked words; "
        "naacl: a line for each link, from 1; giza: three lines for each pair, as in A3.final; offsets: 0:2-0:3, by "
        "characters of the lines as given; tsv: source, target and links between TABs",
    )
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line."""
    args = parser.parse_command(arguments)
    if (args.train_source is None) != (args.train_target is None):
        parser.error("--train-source and --train-target go together")
    text = read_input(parser, args, args.train_source, args.train_target)
    if args.append_test and args.train_source is None:
        parser.error("--append-test requires --train-source and --train-target")
    return options_of(
        Options,
        args,
        input=with_lines(text, args.format),
        train=args.train_source and Input((args.train_source, args.train_target), parallel=True),
        append=args.append_test,
        pieces=args.pieces and requested_pieces(args.pieces, args.threads),
        lower=args.case == "lower" or TOOLS[args.tool].lower,
        method=args.symmetrize,
        threads=args.threads or os.cpu_count() or 1,
    )


def requested_pieces(model: str, threads: int | None) -> Models:
    """Request a model of which only the text rules are used."""
    return Models(
        ModelRequest(model, Settings(), ModelOptions()),
        reverse=None,
        device="cpu",
        dtype="float32",
        threads=threads,
        workers=1,
        batch_tokens=None,
        buffer=BUFFER,
        too_long="blank",
    )


def sign_tool(options: Options, recorder: Recorder | None, trained: int | None = None) -> str:
    """Return the signature.

    Args:
        trained: how many pairs the tool was trained on, where that is known.
    """
    text = ("train" if options.train else "test") + ("" if trained is None else f"-{trained}")
    parts = {
        "tool": describe_tool(options.tool),
        **({"pieces": recorder.name} if recorder else {"case": "lower" if options.lower else "keep"}),
        "trained": text,
        "symmetrize": options.method,
    }
    return signature(parts)


def align_statistically(options: Options) -> None:
    """Train, align in both directions, symmetrise, and report on stderr."""
    recorder = load_models(PROGRAM, options.pieces, options.quiet)[0].forward.recorder if options.pieces else None
    if options.signature:
        with open_output(None) as out:
            out.write(sign_tool(options, recorder).encode() + b"\n")
        return
    with (
        closing(Progress(PROGRAM, options.quiet)) as progress,
        open_output(options.output) as out,
        open_pairs_and_run(options, recorder) as (pairs, tool_run),
    ):
        summary = write_alignments(
            alignments(pairs, tool_run.links, options.method), out, options.format, progress, options.method == MEAN
        )
    progress.write(f"{PROGRAM}: {summary}")
    progress.write(sign_tool(options, recorder, tool_run.trained))


@contextmanager
def open_pairs_and_run(options: Options, recorder: Recorder | None) -> Iterator[tuple[Iterable[Pair], Run]]:
    """Open the pairs of the output, with words if the format needs them, and the tool's run on the input."""
    with ExitStack() as stack:
        text = stack.enter_context(open_text(options.input))
        pairs: Iterable[Pair] = text
        train: Iterable[Pair] | None = stack.enter_context(open_text(options.train)) if options.train else None
        written: Iterable[Pair] = (Pair((), (), number) for number in count(1))
        if options.format in WITH_WORDS:
            pairs = written = list(pairs)
        if options.lower and not recorder:
            pairs, train = map(lower_case, pairs), train and map(lower_case, train)
        tool_run = open_run(
            options.tool,
            pairs,
            train=train,
            append=options.append,
            threads=options.threads,
            cut=recorder.encode if recorder else None,
        )
        yield written, stack.enter_context(tool_run)
        text.bad.warn()


def alignments(pairs: Iterable[Pair], links: Iterable[tuple[Links, Links]], method: str) -> Iterator[Alignment]:
    """Yield links of both directions, symmetrised, or those of one."""
    for pair, (forward, reverse) in zip(pairs, links, strict=False):
        if method == MEAN:
            yield Alignment(pair, share_of_directions(forward, reverse))
            continue
        chosen = {"forward": forward, "reverse": reverse}.get(method)
        both = symmetrize(forward, reverse, method) if chosen is None else chosen
        yield Alignment(pair, dict.fromkeys(both, 1.0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align baseline`."""
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: align_statistically(options))
