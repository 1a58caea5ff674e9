"""`extract-align combine`: files of links of one text, symmetrised or averaged line by line."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import ClassVar

from align.cli.args import OutputArgs, RunArgs
from align.cli.common import Progress, open_output, run, write_alignments
from align.cli.options import add_group, argument, new_parser, number_up_to, option, read_group
from align.cli.parser import Parser
from align.core.errors import show_value
from align.core.symmetrize import DEFAULT_METHOD, MEAN, mean_links
from align.core.types import THRESHOLD, Alignment, Links, Pair, TextWarning
from align.evaluation.dialects import ALL_METHODS, symmetrize
from align.evaluation.link_formats import OTHER_READINGS, at_line, parse_links, read_scored, renumber
from align.io.reader import in_step, name_shown, open_lines, read_lines
from align.io.signature import signature

PROGRAM = "extract-align combine"
CHECKED = 1000  # lines of the two files that are looked at for sides or a base that do not go together

EXAMPLES = """examples:
  extract-align combine de-en.links en-de.links > both.links   both source first, a line for a line
  extract-align combine fwd.talp rev.talp --reverse-swapped --symmetrize lilt-grow-diag-final
  extract-align combine fwd.jsonl.gz rev.jsonl.gz --symmetrize intersection -o both.links.gz
  extract-align combine --symmetrize mean --weights 2,1,1 soft.links giza.links giza-of-words.links   scores, averaged
"""


def read_weights(text: str) -> tuple[float, ...]:
    """Read numbers above 0 with commas between."""
    try:
        weights = tuple(map(float, text.split(",")))
    except ValueError:
        weights = ()
    if not weights or not all(weight > 0 for weight in weights) or not math.isfinite(sum(weights)):
        raise argparse.ArgumentTypeError(f"expected numbers above 0, separated by commas; got {show_value(text)}")
    return weights


@dataclass(frozen=True)
class CombineArgs:
    """Files of links, and how to combine them."""

    TITLE: ClassVar = "links (UTF-8; .gz, .xz and .zst are decompressed; - is stdin)"

    files: Sequence[str] = argument(
        default=(),
        nargs="+",
        metavar="FILE",
        help="links of one text, source first: Pharaoh, talp or JSON lines; possible links (0p1) count as links. To be "
        "symmetrised: forward links, then reverse links",
    )
    reverse_swapped: bool = option(
        default=False, help="the second file has the target side first, as lilt's .reverse files"
    )
    symmetrize: str = option(
        default=DEFAULT_METHOD,
        choices=(*ALL_METHODS, MEAN),
        metavar="HOW",
        short="how to combine the two directions",
        help=f"{', '.join(ALL_METHODS)}; {MEAN}: link words whose mean score is above --threshold; links without a "
        "score count 1, and a file without links in a line does not count there",
    )
    threshold: float | None = option(
        type=number_up_to(1), metavar="T", help=f"threshold of the mean, from 0 to 1 (default: {THRESHOLD})"
    )
    weights: tuple[float, ...] = option(
        default=(), type=read_weights, metavar="W,W", help="weight of each file in the mean (default: equal)"
    )


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Symmetrise two files of word alignments, one for each direction, or average any number of files."
    parser = new_parser(PROGRAM, description, EXAMPLES, ("symmetrize", "output", "format"))
    formats = {"choices": ("pharaoh", "talp"), "help": "pharaoh: 0-based source-target; talp: the same, all sure"}
    scores = {"help": "mean scores, as 0-1:0.83"}
    add_group(parser, CombineArgs)
    add_group(parser, OutputArgs, only=("output", "format", "scores"), format=formats, scores=scores)
    add_group(parser, RunArgs, only=("quiet",))
    return parser


def combine(args: CombineArgs, output: OutputArgs, quiet: bool) -> None:
    """Symmetrise the files, and say on stderr what was done."""
    threshold = THRESHOLD if args.threshold is None else args.threshold
    parts: dict[str, str | Sequence[str] | None] = {"method": "combine", "symmetrize": args.symmetrize}
    if args.symmetrize == MEAN:
        weights = [f"{weight:g}" for weight in args.weights] or ["1"] * len(args.files)
        parts |= {"weights": ",".join(weights), "threshold": f"{threshold:g}"}
    with closing(Progress(PROGRAM, quiet)) as progress, open_output(output.output) as out:
        alignments = averaged(args, threshold) if args.symmetrize == MEAN else combined(args)
        summary = write_alignments(alignments, out, output.format, progress, output.scores)
    progress.write(f"{PROGRAM}: {summary}")
    progress.write(signature(parts))


def averaged(args: CombineArgs, threshold: float) -> Iterator[Alignment]:
    """Yield the links whose mean score in all files is above the threshold; warn as `combined` does."""
    names = list(map(name_shown, args.files))
    with ExitStack() as stack:
        streams = [stack.enter_context(open_lines(name)) for name in args.files]
        scores = [read_scored(read_lines(*both), both[1]) for both in zip(streams, names, strict=True)]
        checked: list[list[Links]] = []
        for number, lines in enumerate(in_step(scores, names), 1):
            if number <= CHECKED:
                checked.append(list(map(frozenset, lines)))
            yield Alignment(Pair((), (), number), mean_links(lines, threshold, args.weights))
    for n, name in enumerate(names[1:], 1):
        check_reading((names[0], name), [(lines[0], lines[n]) for lines in checked], "do both have the source first")


def combined(args: CombineArgs) -> Iterator[Alignment]:
    """Yield the links of both files, symmetrised; warn where another reading of the reverse file agrees far more."""
    names = (name_shown(args.files[0]), name_shown(args.files[1]))
    checked: list[tuple[Links, Links]] = []
    with open_lines(args.files[0]) as first, open_lines(args.files[1]) as second:
        both = read_lines(first, names[0]), read_lines(second, names[1])
        for number, lines in enumerate(in_step(both, names), 1):
            forward = at_line(names[0], number, parse_links, lines[0]).possible
            reverse = at_line(names[1], number, parse_links, lines[1]).possible
            reverse = renumber(reverse, swapped=args.reverse_swapped)
            if number <= CHECKED:
                checked.append((forward, reverse))
            links = symmetrize(forward, reverse, args.symmetrize)
            yield Alignment(Pair((), (), number), dict.fromkeys(links, 1.0))
    check_reading(names, checked, "is --reverse-swapped right")


def check_reading(names: tuple[str, str], links: Sequence[tuple[Links, Links]], swapped: str) -> None:
    """Warn where another reading of the second file agrees far more with the first; `swapped` asks about its sides."""
    in_common = sum(len(first & second) for first, second in links)
    for reading, convert in OTHER_READINGS.items():
        otherwise = sum(len(first & convert(second)) for first, second in links)
        if otherwise > 1.5 * in_common + 10:  # ten more may be chance
            how = f"its indices {reading}: do both count from 0"
            if reading == "swapped":
                how = f"the sides of the second swapped: {swapped}"
            counts = f"{in_common:,} links in common, and {otherwise:,} with {how}?"
            warnings.warn(f"{names[0]} and {names[1]} have {counts}", TextWarning, stacklevel=3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align combine`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    files, mean = args.files, args.symmetrize == MEAN
    if len(files) < 2 or (len(files) > 2 and not mean):
        parser.error("expected two or more files of links" if mean else "expected two files: forward and reverse links")
    if args.weights and len(args.weights) != len(files):
        parser.error(f"--weights takes one number for each file: expected {len(files)}; got {len(args.weights)}")
    if not mean and (args.weights or args.threshold is not None):
        parser.error(f"--{'weights' if args.weights else 'threshold'} requires --symmetrize {MEAN}")
    if args.scores and not mean:
        parser.error(f"--print-scores requires --symmetrize {MEAN}: links of one method have no scores")
    if args.reverse_swapped and mean:
        parser.error(f"--reverse-swapped has no effect with --symmetrize {MEAN}: swap the file's sides")
    links, output = read_group(CombineArgs, args), read_group(OutputArgs, args)
    return run(PROGRAM, lambda: combine(links, output, args.quiet))
