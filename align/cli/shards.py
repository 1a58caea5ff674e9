"""`extract-align --input`: a job that aligns many files, each into its own file, completely or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from align.cli.common import FAILED, Progress, message_of, run, say_error, show_warnings
from align.cli.directions import load_aligner, names_of, sign
from align.cli.extract_options import PROGRAM
from align.cli.options import BATCH_ADVICE
from align.cli.shards_options import Options, build_parser, read_options
from align.core.errors import DataError, one_line, plural
from align.core.types import Choice, TextWarning
from align.io.process import keep_freed_memory

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.io.manifest import Run
    from align.jobs.files import InputFile
    from align.jobs.job import Job
    from align.jobs.local import Event, Failed

MOST_NAMED = 5
"""Files that are not done that the last message names."""


class Shards:
    """A job of many files, or a part of it.

    Args:
        options: what is asked for.
    """

    def __init__(self, options: Options) -> None:
        self._options, self._progress = options, Progress(PROGRAM, options.quiet)
        self._sizes = {file.place: file.size for file in options.files}
        self._rows: dict[str, tuple[int, float]] = {}  # of each file at work: rows, and what share of it they are
        self._done_bytes = self._bytes = 0
        self._complete = self._before = self._all = 0
        self._counts: Counter[str] = Counter()
        self._failed: list[str] = []

    def run(self) -> None:
        """Do all files that are not finished.

        Raises:
            ValueError: not all of them are done.
        """
        from align.jobs.files import RUN, join, make_folder
        from align.jobs.local import share_of
        from align.jobs.locks import running

        options = self._options
        keep_freed_memory()
        make_folder(join(options.output, RUN))
        files = share_of(options.files, *options.part) if options.part else list(options.files)
        self._all, self._bytes = len(files), sum(file.size for file in files)
        with running(options.output, options.part):
            self._align(options, files)
        if self._failed:
            names = ", ".join(self._failed[:MOST_NAMED]) + (", …" if self._failed[MOST_NAMED:] else "")
            raise ValueError(f"{len(self._failed):,} of {plural(self._all, 'file')} not done: {names}")

    def _align(self, options: Options, files: Sequence[InputFile]) -> None:
        """Load the model, choose where to read it, and do the files."""
        from align.jobs.job import Job

        progress, aligner = self._progress, load_aligner(PROGRAM, options)
        progress.begin(0, 1, self._expected, "choosing layer and head …", self._beside)
        note = open_job(options, aligner)
        aligner = read_where(aligner, note, options)
        for direction, choice in zip(names_of(aligner), note.choices, strict=True):
            progress.write(f"{PROGRAM}: {direction}{choice}")
        job = Job(
            aligner,
            note.signature,
            options.output,
            options.columns,
            options.links,
            options.blank,
        )
        progress.start()
        try:
            with closing(begin(job, files, options)) as events:
                self._follow(events)
        finally:
            progress.close()
        progress.write(f"{PROGRAM}: {self._summary()}")
        progress.write(note.signature)

    def _follow(self, events: Iterator[Event]) -> None:
        """Count what is done, and say what cannot be."""
        from align.jobs.local import Failed, Going

        for event in events:
            file = event.file
            before = self._rows.pop(file.place, (0, 0.0))[0]
            if isinstance(event, Going):
                self._rows[file.place] = event.rows, event.share
                self._progress.add(event.rows - before)
                continue
            self._done_bytes += file.size
            if isinstance(event, Failed):
                self._failed.append(file.name)
                self._progress.add(-before)
                say_error(PROGRAM, what_went_wrong(event))
                continue
            self._complete += 1
            if event.before:
                self._before += 1
                self._bytes -= file.size
                self._done_bytes -= file.size
            else:
                self._progress.add(event.record.rows - before)
                self._counts.update(event.record.counts)

    def _expected(self) -> int | None:
        """Estimate the number of rows from the bytes of the rows done so far."""
        shares = sum(share * self._sizes[place] for place, (_, share) in self._rows.items())
        done = self._done_bytes + shares
        return round(self._progress.lines * self._bytes / done) if done else None

    def _beside(self) -> str:
        return f"{self._complete:,} of {plural(self._all, 'file')}, "

    def _summary(self) -> str:
        """Summarise what was done."""
        why = "".join(f", {number:,} {status}" for status, number in sorted(self._counts.items()))
        earlier = f" ({self._before:,} before)" if self._before else ""
        progress = self._progress
        return (
            f"{self._complete:,} of {plural(self._all, 'file')}{earlier}; {plural(progress.lines, 'row')}{why}, "
            f"{progress.rate:,.0f} rows/s"
        )

    def so_far(self, error: BaseException) -> str:
        """Describe how far a job came that was stopped by a signal."""
        if not self._complete or isinstance(error, Exception):
            return ""
        return f" after {self._complete:,} of {plural(self._all, 'file')}; the same command goes on"


def begin(job: Job, files: Sequence[InputFile], options: Options) -> Generator[Event, None, None]:
    """Start the requested engine on the files."""
    if options.engine == "ray":
        return run_announced(job, files, options)
    import torch

    from align.jobs.local import run_local

    on_cpu = all(direction.recorder.device == "cpu" for direction in job.aligner.directions)
    return run_local(job, files, options.workers or (torch.get_num_threads() if on_cpu else 1))


def run_announced(job: Job, files: Sequence[InputFile], options: Options) -> Generator[Event, None, None]:
    """Run the files on Ray, which ends this process at once if one of its daemons has died."""
    from align.io.process import announced_end
    from align.jobs.ray import run_ray

    with announced_end(f"{PROGRAM}: error: ended by Ray, or by a signal; the same command goes on"):
        yield from run_ray(job, files, options.workers)


def what_went_wrong(failed: Failed) -> str:
    """Return why a file is not done, and which file it is."""
    message = message_of(failed.error, BATCH_ADVICE) or f"{type(failed.error).__name__}: {one_line(failed.error)}"
    named = isinstance(failed.error, DataError) or getattr(failed.error, "filename", None)
    return message if named else f"{failed.file.place}: {message}"


def open_job(options: Options, aligner: Aligner) -> Run:
    """Open the record of the job, which the first job in the output folder writes for all others."""
    from align.jobs.locks import one_at_a_time
    from align.jobs.records import open_run
    from align.jobs.sample import choose, sample

    def choose_place() -> tuple[Choice, ...]:
        return choose(aligner, sample(options.files, options.columns))

    names = [file.name for file in options.files]
    with one_at_a_time(options.output):
        return open_run(
            options.output,
            what_is_run(aligner, options),
            choose_place,
            lambda choices: sign(aligner, options, choices),
            names,
        )


def read_where(aligner: Aligner, note: Run, options: Options) -> Aligner:
    """Return the same aligner, reading at the layers and heads of the record in the output folder.

    Raises:
        DataError: a model does not have them, or the signature differs.
    """
    from align.jobs.files import join
    from align.jobs.records import NOTE

    try:
        if not note.choices:
            raise ValueError("no layer and no head")
        aligner = aligner.reading_at(note.choices)
        if note.signature != sign(aligner, options, note.choices):
            raise ValueError("its signature is not that of its settings and choices")
    except ValueError as error:
        raise DataError(f"is none of ours, or damaged ({one_line(error)})", file=join(options.output, NOTE)) from None
    return aligner


def what_is_run(aligner: Aligner, options: Options) -> dict[str, Any]:
    """Return what the results depend on besides the input.

    The policy for bad rows is not part of it: a file that was finished without it has none.
    """
    return {
        "settings": sign(aligner, options),
        "device": aligner.forward.recorder.device,
        "buffer": options.models.buffer,
        "batch-tokens": aligner.batch_tokens,
        "source-column": options.columns.source,
        "target-column": options.columns.target,
        "id-column": options.columns.id,
        "links": options.links,
    }


def main() -> int:
    """Entry point of `extract-align --input`."""
    try:
        options = read_options(build_parser())
    except (OSError, ValueError, ModuleNotFoundError) as error:
        say_error(PROGRAM, message_of(error, "") or str(error), error)
        return FAILED
    job = Shards(options)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, job.run, BATCH_ADVICE, job.so_far)
