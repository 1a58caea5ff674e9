"""The command line of `extract-align --input`: many files in, a file of the same name for each."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from align.cli.common import say_error
from align.cli.extract_options import (
    PROGRAM,
    REVERSE_IDLE,
    add_direction_options,
    add_threshold_options,
    takes_threshold,
)
from align.cli.input_options import add_bad_lines_option
from align.cli.method_options import requested_settings
from align.cli.models import Asked, requested_models
from align.cli.options import (
    MAX_THREADS,
    MODEL_IDLE,
    add_model_options,
    add_quiet_option,
    add_speed_options,
    new_parser,
    whole_number,
)
from align.cli.parser import Parser
from align.core.settings import THRESHOLD
from align.core.symmetrize import SOFT

if TYPE_CHECKING:
    from align.jobs.files import InputFile
    from align.jobs.locks import Part
    from align.jobs.readers import Columns

ENGINES = ("local", "ray")
"""What may do the files."""

LINKS = ("structs", "pharaoh")
"""Forms of links where a file may hold either."""

EXAMPLES = """examples:
  extract-align --input 'bitext/*.tsv.gz' --output links/                a file of links for each file, of the same name
  extract-align --input 'bitext/*.parquet' --source-column de --target-column en --output links/    Parquet
  extract-align --input a.jsonl b.jsonl --source-column de --target-column en --id-column id --output links/    JSON
  extract-align --input 'crawl/*.tsv' --source-column 2 --target-column 3 --bad-lines blank --output links/    columns
  extract-align --input 'bitext/*.tsv.gz' --output links/ --part 3/64    one machine of 64

The same command again does the files that are not finished. OUTPUT/_run says what was run, and has a record of each
finished file.
"""


@dataclass(frozen=True)
class Options(Asked):
    """What `extract-align --input` is asked for.

    Attributes:
        files: all of the job's, in order.
        columns: of source, target and id.
        output: the folder of the results.
        links: one of `LINKS`.
        blank: whether rows that cannot be read are listed, and left without links.
        part: which part of how many to do; None for all.
        engine: one of `ENGINES`.
        workers: how many; None for as many as there are threads, or one on a GPU; of a cluster, as it has CPUs or GPUs.
    """

    files: tuple[InputFile, ...]
    columns: Columns
    output: str
    links: str
    blank: bool
    part: Part | None
    engine: str
    workers: int | None


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        f"{PROGRAM} --input",
        "Word alignments of many files: a file of the same name for each, resumed by itself.",
        EXAMPLES,
    )
    add_quiet_option(parser)
    _file_options(parser)
    add_model_options(parser)
    add_threshold_options(parser)
    add_direction_options(parser)
    group = add_speed_options(parser, "rows read ahead and sorted by length")
    group.add_argument(
        "--workers",
        type=whole_number(1, MAX_THREADS),
        metavar="N",
        help="processes, each of which does a file at a time with one thread (default: as many as threads, 1 on a GPU; "
        "with --engine ray as many as the cluster has CPUs, or GPUs)",
    )
    group.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="who does the files: processes of this machine, or a Ray cluster: that of RAY_ADDRESS, else one begun "
        "here with `ray start`, else a new one of this machine alone",
    )
    return parser


def _file_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of files, columns and output."""
    group = parser.add_argument_group("files")
    group.add_argument(
        "--input",
        nargs="*",
        action="extend",
        metavar="FILE",
        help="names, with *, ? and [abc] as in a shell; .parquet, .jsonl, or .tsv or .txt with lines `source ||| "
        "target` or `source TAB target`; but for .parquet .gz, .xz or .zst may follow",
    )
    group.add_argument(
        "--source-column",
        metavar="NAME",
        help="of .parquet and .jsonl; in .tsv its number, where there are more than two",
    )
    group.add_argument("--target-column", metavar="NAME", help="as --source-column")
    group.add_argument(
        "--id-column",
        metavar="NAME",
        help="column that identifies rows, of .parquet and .jsonl; it is copied to the links (default: in .jsonl the "
        "number of the row, from 1)",
    )
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="a folder for the results; each appears when it is complete, with a record in DIR/_run",
    )
    group.add_argument(
        "--links",
        choices=LINKS,
        default=LINKS[0],
        help="in .parquet and .jsonl: with their scores, or as a string such as 0-0 1-2",
    )
    add_bad_lines_option(
        group,
        "a line or row that cannot be read",
        "leave its file undone and continue with the next",
        "list it in DIR/_run/FILE.bad.jsonl and write no links",
    )
    group.add_argument(
        "--part", type=part_of, metavar="K/N", help="do the K-th of N parts of the files, about as large as any other"
    )


def part_of(text: str) -> Part:
    """Parse K/N, a part and the number of parts."""
    number, _, count = text.partition("/")
    if all(n.isascii() and n.isdigit() and len(n) < 7 for n in (number, count)) and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise argparse.ArgumentTypeError(f"{text!r} is not a part of a number, such as 3/64")


def read_options(parser: Parser) -> Options:
    """Read and check the command line.

    Raises:
        DataError: a pattern names no file.
        ModuleNotFoundError: pyarrow is not installed.
    """
    args = parser.parse_command()
    if not args.input or not all(args.input) or not args.output:
        parser.error("--input needs files, and --output a folder")
    parser.refuse_idle(args, (MODEL_IDLE, *REVERSE_IDLE))
    joined = takes_threshold(parser, args)
    settings, reverse_settings = requested_settings(parser, args, None if joined else args.threshold)
    try:
        from align.jobs.files import find
        from align.jobs.readers import Columns
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"--input needs {error.name}: pip install '.[parquet]'", name=error.name) from None
    if args.engine == "ray" and not find_spec("ray"):
        raise ModuleNotFoundError("--engine ray needs ray: pip install '.[ray]'", name="ray")
    columns = Columns(args.source_column, args.target_column, args.id_column)
    if (columns.source is None) != (columns.target is None):
        parser.error("--source-column and --target-column go together")
    if columns.source is not None and columns.source == columns.target:
        parser.error("--source-column and --target-column cannot be the same")
    files = tuple(find(args.input))
    _check_files(parser, files, columns, args.output)
    _check_names(parser, files, args.output)
    blank = args.bad_lines == "blank"
    workers, args.workers, args.bad_lines = args.workers, 1, "blank"
    return Options(
        files=files,
        columns=columns,
        output=args.output,
        links=args.links,
        blank=blank,
        part=args.part,
        engine=args.engine,
        workers=workers,
        models=requested_models(args, settings, reverse_settings),
        method=args.symmetrize or SOFT,
        threshold=args.threshold if joined else THRESHOLD,
        search=None,
        quiet=args.quiet,
    )


def _check_files(parser: Parser, files: tuple[InputFile, ...], columns: Columns, output: str) -> None:
    """Refuse files of other types, without columns, of one name, or that would be overwritten, with exit code 2."""
    from align.jobs.files import is_local, join, locate
    from align.jobs.readers import READERS, kind_of

    for file in files:
        kind = kind_of(file.name)
        if not kind:
            parser.error(
                f"{file.place} is none of {', '.join(READERS)}, as its name should end; .gz, .xz or .zst may follow"
            )
        if kind in (".parquet", ".jsonl") and columns.source is None:
            parser.error(f"{file.place} needs --source-column and --target-column")
        if kind in (".tsv", ".txt"):
            numbers = [name for name in columns[:2] if name is not None]
            if not all(n.isascii() and n.isdigit() and len(n) < 5 and int(n) for n in numbers):
                parser.error(f"{file.place} has columns by number, from 1, not {' and '.join(numbers)}")
            if columns.id is not None:
                parser.error(f"--id-column is for .parquet and .jsonl: links of {file.place} are lines of nothing else")
        places = file.place, join(output, file.name)
        if all(map(is_local, places)) and len({os.path.realpath(locate(place)[1]) for place in places}) == 1:
            parser.error(f"--output would replace the input {file.place}")
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        parser.error(f"two of the files would be {join(output, twice[0])}: do one folder at a time")


def _check_names(parser: Parser, files: tuple[InputFile, ...], output: str) -> None:
    """Refuse files whose names are too long for those of their records, a line for each, with exit code 2."""
    from align.io.output import longest_name
    from align.jobs.files import RUN, is_local, locate
    from align.jobs.records import bad_rows_name

    if not is_local(output):
        return
    most = longest_name(locate(output)[1]) - len(bad_rows_name("").removeprefix(f"{RUN}/"))
    lengths = {file.place: len(os.fsencode(file.name)) for file in files}
    messages = [
        f"{place}: its name has {length} bytes, and the job has room for {most}: rename it"
        for place, length in lengths.items()
        if length > most
    ]
    for message in messages[:-1]:
        say_error(parser.prog, message)
    if messages:
        parser.error(messages[-1])
