"""`extract-align jobs`: align many files, each into its own file, completely or not at all."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Literal

from align.cli.args import ALIGNING_DEFAULT, BATCH_ADVICE, EnsembleArgs, MethodArgs, ModelArgs, RunArgs, model_help
from align.cli.common import FAILED, Progress, message_of, run, say_error
from align.cli.loading import Request, describe_choices, first_step, load_aligner, read_request, settings_of
from align.cli.options import add_group, argument, new_parser, option, parse_number, read_group
from align.cli.parser import Parser
from align.core.errors import DataError, one_line, plural
from align.io.process import keep_freed_memory
from align.io.signature import read_choice, sign
from align.jobs.arrow import LinksAs

if TYPE_CHECKING:
    from align.jobs.files import InputFile
    from align.jobs.formats import Columns
    from align.jobs.job import Job
    from align.jobs.local import Outcome

PROGRAM = "extract-align jobs"

EXAMPLES = """examples:
  extract-align jobs 'bitext/*.tsv.gz' -o links/   a file of links for each file, of the same name
  extract-align jobs 'bitext/*.parquet' --columns de,en -o links/   Parquet
  extract-align jobs a.jsonl b.jsonl --columns de,en,id -o links/   JSON
  extract-align jobs 'crawl/*.tsv' --columns 2,3 --bad-lines blank -o links/   columns
  extract-align jobs 'bitext/*.tsv.gz' -o links/ --part 3/64   one machine of 64

The same command resumes the job. DIR/_run has its settings and a record of each finished file.
"""


def part_of(text: str) -> tuple[int, int]:
    """Parse K/N, a part and the number of parts."""
    part, _, parts = text.partition("/")
    number, count = parse_number(part), parse_number(parts, most=999_999)
    if number and count and number <= count:
        return number, count
    raise argparse.ArgumentTypeError(f"expected K/N such as 3/64, with K from 1 to N; got {text!r}")


def column_names(text: str) -> tuple[str, ...]:
    """Parse the names of two or three columns, with commas between."""
    names = tuple(text.split(","))
    if len(names) not in (2, 3) or not all(names):
        raise argparse.ArgumentTypeError(f"expected two or three names such as de,en or de,en,id; got {text!r}")
    if len({parse_number(name) or name for name in names}) < len(names):
        raise argparse.ArgumentTypeError(f"expected different columns; got {text!r}")
    return names


@dataclass(frozen=True)
class FileArgs:
    """The files, and how to share them."""

    TITLE: ClassVar = "files"

    input: Sequence[str] = argument(
        nargs="+",
        metavar="FILE",
        help="names, with *, ? and [abc] as in a shell; .parquet, .jsonl, or .tsv or .txt with lines `source ||| "
        "target` or `source TAB target`; .gz, .xz or .zst may follow, except for .parquet",
    )
    columns: tuple[str, ...] = option(
        default=(),
        type=column_names,
        metavar="NAME,NAME[,ID]",
        help="columns of source and target, by name in .parquet and .jsonl, by number in .tsv with more than two; a "
        "third name is a column that identifies rows and is copied to the output (default: in .jsonl the "
        "number of the row, from 1)",
    )
    output: str = option(
        "-o",
        writes=True,
        required=True,
        metavar="DIR",
        short="folder for the results",
        help="a folder for the results; each appears when it is complete, with a record in DIR/_run",
    )
    links: LinksAs = option(
        default="structs",
        help="form of links in .parquet and .jsonl: with scores, or a string such as 0-0 1-2",
    )
    bad_lines: Literal["stop", "blank"] = option(
        default="stop",
        help="on a line or row that cannot be read: stop this file and continue with the next, or write no links for "
        "the line and list it in DIR/_run/FILE.bad.jsonl",
    )
    part: tuple[int, int] | None = option(
        type=part_of, metavar="K/N", help="align part K of the files, divided into N parts of similar size"
    )
    engine: Literal["local", "ray"] = option(
        default="local",
        help="where files are aligned: processes of this machine, or a Ray cluster: that of RAY_ADDRESS, else one "
        "started here with `ray start`, else a new one of this machine alone",
    )


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Align many files: write a file of the same name for each. The same command resumes a job."
    parser = new_parser(PROGRAM, description, EXAMPLES, ("output", "model", "reverse_model"))
    workers = (
        "processes, each of which does a file at a time with one thread (default: as many as threads, 1 on a GPU; with "
        "--engine ray as many as the cluster has CPUs, or GPUs)"
    )
    add_group(parser, FileArgs)
    add_group(parser, ModelArgs, without=("template",), model={"help": model_help(ALIGNING_DEFAULT)})
    add_group(parser, MethodArgs, only=("position", "threshold", "symmetrize"))
    add_group(parser, EnsembleArgs)
    add_group(parser, RunArgs, without=("buffer",), workers={"default": None, "help": workers})
    return parser


def _check_files(parser: Parser, files: tuple[InputFile, ...], columns: Columns, output: str) -> None:
    """Refuse files of other types, without columns, of one name, or that would be overwritten, with exit code 2."""
    from align.jobs.files import is_local, join, locate
    from align.jobs.formats import FORMATS, kind_of

    for file in files:
        kind = kind_of(file.name)
        if not kind:
            parser.error(f"{file.place} must end in one of {', '.join(FORMATS)}, or in these and .gz, .xz or .zst")
        if kind in (".parquet", ".jsonl") and columns.source is None:
            parser.error(f"{file.place} needs --columns, such as --columns de,en")
        if kind in (".tsv", ".txt"):
            numbers = [name for name in columns[:2] if name is not None]
            if not all(parse_number(number, 1, 9999) for number in numbers):
                parser.error(f"{file.place} has columns by number, from 1, not {' and '.join(numbers)}")
            if columns.id is not None:
                parser.error(f"a third column is for .parquet and .jsonl: links of {file.place} have no column of ids")
        places = file.place, join(output, file.name)
        if all(map(is_local, places)) and len({os.path.realpath(locate(place)[1]) for place in places}) == 1:
            parser.error(f"-o would replace the input {file.place}")
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        parser.error(f"two of the files would be {join(output, twice[0])}: do one folder at a time")


MAX_NAMED = 5  # files that are not done that the last message names


class JobRun:
    """A job of many files, or a part of it."""

    def __init__(
        self, args: FileArgs, request: Request, files: tuple[InputFile, ...], columns: Columns, workers: int | None
    ) -> None:
        self._args, self._request, self._files, self._columns, self._workers = args, request, files, columns, workers
        self._progress = Progress(PROGRAM, request.run.quiet, self._expected, lambda: f"{self._completed()}, ")
        self._rows: dict[str, tuple[int, float]] = {}  # of each file at work: rows, and how many of its bytes they are
        self._done_bytes = self._bytes = 0
        self._complete = self._before = self._all = 0
        self._counts: Counter[str] = Counter()
        self._failed: list[str] = []

    def run(self) -> None:
        """Do all files that are not finished."""
        from align.jobs.files import RUN, join, make_folder
        from align.jobs.job import Job, open_run
        from align.jobs.local import share_of

        progress, args, columns = self._progress, self._args, self._columns
        keep_freed_memory()
        files = share_of(self._files, *args.part) if args.part else list(self._files)
        self._all, self._bytes = len(files), sum(file.size for file in files)
        make_folder(join(args.output, RUN))
        loaded = load_aligner(PROGRAM, self._request)
        progress.begin(first_step(loaded))

        settings = {  # not the policy for bad rows: a file that was finished without it has none
            **settings_of(loaded, sign(loaded)),
            "columns": ",".join(args.columns) or None,
            "links": args.links,
        }
        record = open_run(args.output, settings, loaded, self._files, columns)
        choices = list(map(read_choice, record["choices"]))
        aligner = replace(loaded.reading_at(choices), check=None)  # its sample has been checked
        for line in describe_choices(loaded, choices, self._request):
            progress.write(f"{PROGRAM}: {line}")
        job = Job(aligner, record["signature"], args.output, columns, args.links, args.bad_lines == "blank")
        progress.start()
        try:
            with closing(self._outcomes(job, files)) as outcomes:
                for file, outcome in outcomes:
                    self._finish(file, outcome)
        finally:
            progress.close()
        counts = "".join(f", {number:,} {status}" for status, number in sorted(self._counts.items()))
        earlier = f" ({self._before:,} before)" if self._before else ""
        rows = f"{plural(progress.lines, 'row')}{counts}, {progress.rate:,.0f} rows/s"
        progress.write(f"{PROGRAM}: {self._completed()}{earlier}; {rows}")
        progress.write(job.signature)
        if self._failed:
            names = self._failed[:MAX_NAMED] + ["…"] * bool(self._failed[MAX_NAMED:])
            raise ValueError(f"{len(self._failed):,} of {plural(self._all, 'file')} not done: {', '.join(names)}")

    def _outcomes(self, job: Job, files: Sequence[InputFile]) -> Generator[tuple[InputFile, Outcome], None, None]:
        """Yield each file and its outcome from the requested engine."""
        if self._args.engine == "ray":
            from align.io.process import announced_end
            from align.jobs.ray import run_ray

            # Ray ends this process at once if one of its daemons has died.
            with announced_end(f"{PROGRAM}: error: ended by Ray, or by a signal; the same command goes on"):
                yield from run_ray(job, files, self._workers)
            return
        import torch

        from align.jobs.local import run_local

        workers = self._workers or (torch.get_num_threads() if job.on_cpu else 1)
        yield from run_local(job, files, workers, self._add_rows)

    def _add_rows(self, file: InputFile, rows: int, share: float) -> None:
        """Count the rows of a file at work."""
        before, _ = self._rows.get(file.place, (0, 0.0))
        self._rows[file.place] = rows, share * file.size
        self._progress.add(rows - before)

    def _finish(self, file: InputFile, outcome: Outcome) -> None:
        """Count a file that is done, or report why it is not."""
        rows, _ = self._rows.pop(file.place, (0, 0.0))
        if isinstance(outcome, Exception):
            self._done_bytes += file.size
            self._failed.append(file.name)
            self._progress.add(-rows)
            message = message_of(outcome, BATCH_ADVICE) or f"{type(outcome).__name__}: {one_line(outcome)}"
            named = isinstance(outcome, DataError) or getattr(outcome, "filename", None)
            say_error(PROGRAM, message if named else f"{file.place}: {message}")
            return
        marker, done_before = outcome
        self._complete += 1
        if done_before:
            self._before += 1
            self._bytes -= file.size
        else:
            self._done_bytes += file.size
            self._progress.add(marker["rows"] - rows)
            self._counts.update(marker["counts"])

    def _expected(self) -> int | None:
        """Estimate the number of rows from the bytes of the rows done so far."""
        done = self._done_bytes + sum(size for _, size in self._rows.values())
        return round(self._progress.lines * self._bytes / done) if done else None

    def _completed(self) -> str:
        return f"{self._complete:,} of {plural(self._all, 'file')}"

    def so_far(self, error: BaseException) -> str:
        """Describe how far a job came that was stopped by a signal."""
        if not self._complete or isinstance(error, Exception):
            return ""
        return f" after {self._completed()}; the same command goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align jobs`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    try:
        from align.jobs.files import find
        from align.jobs.formats import Columns
    except ModuleNotFoundError as error:
        say_error(PROGRAM, f"{PROGRAM} needs {error.name}: pip install '.[parquet]'", error)
        return FAILED
    try:
        if args.engine == "ray" and not find_spec("ray"):
            raise ModuleNotFoundError("--engine ray needs ray: pip install '.[ray]'", name="ray")
        columns, files = Columns(*(*args.columns, None, None, None)[:3]), tuple(find(args.input))
        _check_files(parser, files, columns, args.output)
        request = read_request(parser, args, "blank")
    except (OSError, ValueError, ModuleNotFoundError) as error:
        say_error(PROGRAM, message_of(error, "") or str(error), error)
        return FAILED
    request = replace(request, run=replace(request.run, workers=1))
    job = JobRun(read_group(FileArgs, args), request, files, columns, args.workers)
    return run(PROGRAM, job.run, BATCH_ADVICE, job.so_far)
