"""`extract-align combine`: files of links of one text, symmetrised or averaged line by line."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from align.cli.args import (
    add_output_option,
    add_quiet_option,
    add_signature_option,
    check_files,
    new_parser,
    number_up_to,
    options_of,
)
from align.cli.common import Progress, open_output, run, show_warnings, write_alignments
from align.cli.parser import Parser
from align.core.errors import show_value
from align.core.symmetrize import DEFAULT_METHOD
from align.core.types import THRESHOLD, Alignment, Links, Pair, TextWarning
from align.evaluation.dialects import ALL_METHODS, better_readings, read_two, symmetrize
from align.evaluation.ensemble import MEAN, mean_links, read_scored
from align.io.reader import in_step, name_shown, open_lines, read_lines
from align.io.signature import signature

PROGRAM = "extract-align combine"

CHECKED = 1000
"""Lines of the two files that are looked at for sides or a base that do not go together."""

EXAMPLES = """examples:
  extract-align combine de-en.links en-de.links > both.links   both source first, a line for a line
  extract-align combine fwd.talp rev.talp --reverse-swapped --symmetrize lilt-grow-diag-final
  extract-align combine fwd.jsonl.gz rev.jsonl.gz --symmetrize intersection -o both.links.gz
  extract-align combine --symmetrize mean --weights 2,1,1 soft.links giza.links giza-of-words.links   scores, averaged
"""


@dataclass(frozen=True)
class Options:
    """What `extract-align combine` is asked for.

    Attributes:
        files: of links.
        swapped: whether the reverse file has the target side first.
        method: a key of `align.evaluation.dialects.ALL_METHODS`, or MEAN.
        weights: of the files for the mean; empty for equal ones.
        threshold: links have a mean score above it.
        scores: whether to write mean scores.
    """

    files: tuple[str, ...]
    swapped: bool
    method: str
    weights: tuple[float, ...]
    threshold: float
    scores: bool
    format: str
    output: str | None
    signature: bool
    quiet: bool


def build_parser() -> Parser:
    """All options."""
    parser = new_parser(
        PROGRAM,
        "Symmetrises two files of word alignments, one for each direction, or averages any number of files.",
        EXAMPLES,
        ("symmetrize", "output", "format"),
    )
    add_signature_option(parser)
    add_quiet_option(parser)
    group = parser.add_argument_group("input (UTF-8; .gz, .xz and .zst are unpacked; - is stdin)")
    group.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="links of one text, source first: Pharaoh, talp or JSON lines; possible links (0p1) count as links. To be "
        "symmetrised: forward links, then reverse links",
    )
    group.add_argument(
        "--reverse-swapped",
        action="store_true",
        help="the second file has the target side first, as lilt's .reverse files",
    )
    group = parser.add_argument_group("method")
    group.add_argument(
        "--symmetrize",
        choices=(*ALL_METHODS, MEAN),
        default=DEFAULT_METHOD,
        metavar="HOW",
        help=f"{', '.join(ALL_METHODS)}; {MEAN}: link words whose mean score is above --threshold; links without a "
        "score count 1, and a file without links in a line does not count there",
    )
    group.add_argument(
        "--threshold",
        type=number_up_to(1),
        metavar="T",
        help=f"of the mean, from 0 to 1 (default: {THRESHOLD})",
    )
    group.add_argument(
        "--weights",
        type=read_weights,
        default=(),
        metavar="W,W",
        help="weight of each file in the mean (default: equal)",
    )
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    add_output_option(group)
    group.add_argument(
        "-f",
        "--format",
        choices=("pharaoh", "talp"),
        default="pharaoh",
        help="pharaoh: 0-based source-target; talp: the same, all sure",
    )
    group.add_argument("--print-scores", dest="scores", action="store_true", help="mean scores, as 0-1:0.83")
    return parser


def read_weights(text: str) -> tuple[float, ...]:
    """Read numbers above 0 with commas between."""
    try:
        weights = tuple(map(float, text.split(",")))
    except ValueError:
        weights = ()
    if not weights or not all(weight > 0 for weight in weights) or not math.isfinite(sum(weights)):
        raise argparse.ArgumentTypeError(f"expected numbers above 0 with commas between, found {show_value(text)}")
    return weights


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """The command line, checked."""
    args = parser.parse_command(arguments)
    files = tuple(args.files)
    mean = args.symmetrize == MEAN
    if len(files) < 2 or (len(files) > 2 and not mean):
        parser.error("expected two or more files of links" if mean else "expected two files: forward and reverse links")
    if args.weights and len(args.weights) != len(files):
        parser.error(f"{len(args.weights)} weights for {len(files)} files")
    check_files(parser, files, args.output)
    for name in ("weights", "threshold"):
        if getattr(args, name) not in ((), None) and not mean:
            parser.error(f"--{name} requires --symmetrize {MEAN}")
    if args.reverse_swapped and mean:
        parser.error(f"--reverse-swapped has no effect with --symmetrize {MEAN}: swap the file's sides")
    return options_of(
        Options,
        args,
        files=files,
        swapped=args.reverse_swapped,
        method=args.symmetrize,
        threshold=THRESHOLD if args.threshold is None else args.threshold,
    )


def combine(options: Options) -> None:
    """Symmetrise the files, and say on stderr what was done."""
    parts: dict[str, str | Sequence[str] | None] = {"method": "combine", "symmetrize": options.method}
    if options.method == MEAN:
        weights = [f"{weight:g}" for weight in options.weights] or ["1"] * len(options.files)
        parts |= {"weights": ",".join(weights), "threshold": f"{options.threshold:g}"}
    sign = signature(parts)
    if options.signature:
        with open_output(None) as out:
            out.write(sign.encode() + b"\n")
        return
    with closing(Progress(PROGRAM, options.quiet)) as progress, open_output(options.output) as out:
        alignments = averaged(options) if options.method == MEAN else combined(options)
        summary = write_alignments(alignments, out, options.format, progress, options.scores)
    progress.write(f"{PROGRAM}: {summary}")
    progress.write(sign)


def averaged(options: Options) -> Iterator[Alignment]:
    """Yield the links whose mean score in all files is above the threshold."""
    names = [name_shown(name) for name in options.files]
    with ExitStack() as stack:
        streams = [stack.enter_context(open_lines(name)) for name in options.files]
        scores = [read_scored(read_lines(*both), both[1]) for both in zip(streams, names, strict=True)]
        for number, lines in enumerate(in_step(scores, names), 1):
            yield Alignment(Pair((), (), number), mean_links(lines, options.threshold, options.weights))


def combined(options: Options) -> Iterator[Alignment]:
    """The links of both files, symmetrised."""
    names = (name_shown(options.files[0]), name_shown(options.files[1]))
    checked: list[tuple[Links, Links]] = []
    with open_lines(options.files[0]) as forward, open_lines(options.files[1]) as reverse:
        lines = read_lines(forward, names[0]), read_lines(reverse, names[1])
        for number, links in enumerate(read_two(*lines, names, swapped=options.swapped), 1):
            if number <= CHECKED:
                checked.append(links)
            yield Alignment(Pair((), (), number), dict.fromkeys(symmetrize(*links, options.method), 1.0))
    warn_of_other_readings(checked, names)


def warn_of_other_readings(pairs: list[tuple[Links, Links]], names: tuple[str, str]) -> None:
    """Warn where the two directions would agree on clearly more links if the reverse file were read otherwise."""
    for better in better_readings(pairs):
        how = f"its indices {better.reading}: do both count from 0"
        if better.reading == "swapped":
            how = "the sides of the second swapped: is --reverse-swapped right"
        counts = f"{better.as_read:,} links in common, and {better.otherwise:,} with {how}?"
        warnings.warn(f"{names[0]} and {names[1]} have {counts}", TextWarning, stacklevel=2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align combine`."""
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: combine(options))
