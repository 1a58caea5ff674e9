"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from align.cli.common import Progress, open_output, run, say, show_warnings, write_links
from align.cli.directions import load_aligner, names_of, reading_at, sign
from align.cli.extract_options import PROGRAM, Options, build_parser, read_options
from align.cli.inputs import open_pairs, open_sources
from align.cli.journal import Saved
from align.cli.options import BATCH_ADVICE
from align.cli.record import Record, Stamp, stamp
from align.cli.resume import Part, finished, open_part
from align.cli.translate import write_translation
from align.errors import PairError
from align.memory import keep_freed_memory
from align.types import Alignment, Choice, Pair, TextWarning

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.aligners.two_way import TwoWayAligner


def extract(options: Options) -> None:
    """Align all of the input."""
    keep_freed_memory()
    if options.signature:
        with open_output(None) as out:
            out.write(sign(load_aligner(options), options).encode() + b"\n")
        return
    inputs = [stamp(name) for name in options.inputs]
    opened = (open_sources if options.search else open_pairs)(options.inputs)
    if options.resume and options.output and (record := finished(options.output)):
        with opened as (pairs, name):
            check_finished(record, inputs, pairs, name, options)
        return
    with opened as (pairs, name), open_results(options, inputs) as (out, part):  # before the model, which takes long
        align_all(pairs, name, out, part, options)


@contextmanager
def open_results(options: Options, inputs: list[Stamp]) -> Iterator[tuple[BinaryIO, Part | None]]:
    """Where to write to, and with --resume what keeps it for the next run."""
    if options.resume and options.output:
        with open_part(options.output, inputs) as part:
            yield part.out, part
    else:
        with open_output(options.output) as out:
            yield out, None


def check_finished(record: Record, inputs: list[Stamp], pairs: Iterator[Pair], name: str, options: Options) -> None:
    """Check that the result is of these settings and this input, and say that there is nothing to do.

    Args:
        record: of the finished run.
        inputs: stamps of the input files.
        pairs: the input.
        name: what to call it in messages.
        options: the settings.

    Raises:
        ValueError: the result is of other settings or another input.
    """
    assert options.output
    record.check_run(options.output, what_is_run(load_aligner(options), options))
    record.check_input(options.output, inputs, pairs, name)
    if not options.quiet:
        say(f"{PROGRAM}: {options.output} is there already: nothing to do")


def what_is_run(aligner: Aligner | TwoWayAligner, options: Options) -> dict[str, Any]:
    """What the output depends on besides the input, to the last digit of a score."""
    return {
        "settings": sign(aligner, options),
        "device": aligner.directions[0].recorder.device,
        "format": options.format,
        "scores": options.scores,
        "buffer": options.models.buffer,
        "batch-tokens": options.models.batch_tokens,
        "too-long": options.models.too_long,
    }


def align_all(pairs: Iterator[Pair], name: str, out: BinaryIO, part: Part | None, options: Options) -> None:
    """Load the model, align and write all pairs, and say on stderr what was done.

    Args:
        pairs: the input.
        name: what to call it in messages.
        out: where to write.
        part: with --resume, what keeps the results for the next run.
        options: the settings.
    """
    aligner = load_aligner(options)
    if name == "stdin" and sys.stdin.isatty() and not options.quiet:
        lines = "source" if options.search else "`source ||| target`"
        say(f"{PROGRAM}: reading {lines} lines from the keyboard; Ctrl-D ends")
    if part:
        aligner, pairs = go_on(part, aligner, pairs, name, options)
    saved, names = part.saved if part else Saved(), names_of(aligner)
    progress, counts, choices = Progress(PROGRAM, options.quiet, saved.lines), Counter(saved.counts), [*saved.chosen]

    def announce(chosen: Sequence[Choice]) -> None:
        choices[:] = chosen
        for direction, choice in zip(names, chosen, strict=True):
            progress.write(f"{PROGRAM}: {direction}{choice.place} ({choice.reason})")

    def save() -> None:
        out.flush()
        if part:
            part.save(progress.lines, counts, choices)

    try:
        found = aligner.translate(pairs, options.search, announce) if options.search else aligner(pairs, announce)
        write_all(found, out, progress, counts, save, options)
        out.flush()  # the results before what is said of them
    except PairError as error:
        raise error.in_file(name) from None
    finally:
        progress.close()
    progress.write(
        f"{PROGRAM}: {progress.lines:,} lines, {counts['blank']:,} blank, {counts['too long']:,} too long, "
        f"{progress.rate:,.0f} lines/s"
    )
    progress.write(sign(aligner, options, choices))


def go_on(
    part: Part, aligner: Aligner | TwoWayAligner, pairs: Iterator[Pair], name: str, options: Options
) -> tuple[Aligner | TwoWayAligner, Iterator[Pair]]:
    """An aligner that reads where the interrupted run did, and the pairs that are left to do."""
    rest = part.begin(what_is_run(aligner, options), pairs, name)
    if not part.saved.lines:
        return aligner, rest
    try:
        aligner = reading_at(aligner, part.saved.chosen)
    except ValueError as error:
        raise ValueError(f"{part.path}: {error}: {part.anew}") from None
    if not options.quiet:
        say(f"{PROGRAM}: {part.saved.lines:,} lines are done in {part.path}")
    return aligner, rest


def write_all(
    alignments: Iterable[Alignment],
    out: BinaryIO,
    progress: Progress,
    counts: Counter[str],
    save: Callable[[], None],
    options: Options,
) -> None:
    """Write a line for each alignment, save after each buffer, and count those without links by their reason."""
    write, buffer = write_translation if options.search else write_links, options.models.buffer
    for alignment in alignments:
        write(out, alignment, options.format, options.scores)
        if not alignment.scores and (alignment.skipped or alignment.pair.blank):
            counts[alignment.skipped or "blank"] += 1
        progress.add()
        if progress.lines % buffer == 0:
            save()


def main() -> int:
    """Entry point of `extract-align`."""
    options = read_options(build_parser())
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: extract(options), BATCH_ADVICE)


if __name__ == "__main__":
    sys.exit(main())
