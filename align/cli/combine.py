"""`extract-align combine`: two files of links, one for each direction, symmetrised line by line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from align.cli.args import (
    SIGNATURE_IDLE,
    add_output_option,
    add_quiet_option,
    add_signature_option,
    check_files,
    new_parser,
    options_of,
)
from align.cli.common import Progress, open_output, run, show_warnings, write_unscored
from align.cli.parser import Parser
from align.core.symmetrize import DEFAULT_METHOD
from align.core.types import Alignment, Links, Pair, TextWarning
from align.evaluation.dialects import ALL_METHODS, better_readings, read_two, symmetrize
from align.io.reader import name_shown, open_lines, read_lines
from align.io.signature import signature

PROGRAM = "extract-align combine"

CHECKED = 1000
"""Lines of the two files that are looked at for sides or a base that do not go together."""

EXAMPLES = """examples:
  extract-align combine de-en.links en-de.links > both.links   both source first, a line for a line
  extract-align combine fwd.talp rev.talp --reverse-swapped --symmetrize lilt-grow-diag-final
  extract-align combine fwd.jsonl.gz rev.jsonl.gz --symmetrize intersection -o both.links.gz
"""


@dataclass(frozen=True)
class Options:
    """What `extract-align combine` is asked for.

    Attributes:
        swapped: whether the reverse file has the target side first.
        method: a key of `align.evaluation.dialects.ALL_METHODS`.
    """

    files: tuple[str, str]
    swapped: bool
    method: str
    format: str
    output: str | None
    signature: bool
    quiet: bool


def build_parser() -> Parser:
    """All options."""
    parser = new_parser(
        PROGRAM,
        "Symmetrises two files of word alignments, one for each direction, without a model.",
        EXAMPLES,
        ("symmetrize", "output", "format"),
    )
    add_signature_option(parser)
    add_quiet_option(parser)
    group = parser.add_argument_group("input (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument(
        "forward",
        metavar="FWD",
        help="forward links, source first: Pharaoh, talp or JSON lines; possible links (0p1) count as links",
    )
    group.add_argument("reverse", metavar="REV", help="reverse links of the same text, counting from the same number")
    group.add_argument(
        "--reverse-swapped", action="store_true", help="REV has the target side first, as lilt's .reverse files"
    )
    group = parser.add_argument_group("method")
    group.add_argument(
        "--symmetrize", choices=tuple(ALL_METHODS), default=DEFAULT_METHOD, metavar="HOW", help=", ".join(ALL_METHODS)
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
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """The command line, checked."""
    args = parser.parse_command(arguments)
    files = (args.forward, args.reverse)
    check_files(parser, files, args.output)
    parser.refuse_idle(args, [SIGNATURE_IDLE])
    return options_of(
        Options,
        args,
        files=files,
        swapped=args.reverse_swapped,
        method=args.symmetrize,
    )


def combine(options: Options) -> None:
    """Symmetrise the files, and say on stderr what was done."""
    sign = signature({"method": "combine", "symmetrize": options.method})
    if options.signature:
        with open_output(None) as out:
            out.write(sign.encode() + b"\n")
        return
    with closing(Progress(PROGRAM, options.quiet)) as progress, open_output(options.output) as out:
        summary = write_unscored(combined(options), out, options.format, progress)
    progress.write(f"{PROGRAM}: {summary}")
    progress.write(sign)


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
