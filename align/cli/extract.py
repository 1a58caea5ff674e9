"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from align.cli.common import Progress, open_output, run, say, show_warnings
from align.cli.directions import load_aligner, names_of, sign
from align.cli.extract_options import PROGRAM, Options, build_parser, read_options
from align.cli.options import BATCH_ADVICE
from align.cli.parser import Parser
from align.cli.results import UNLINKED, Results, open_results
from align.core.batching import OnBatch
from align.core.errors import PairError, plural
from align.core.symmetrize import DIRECTIONS
from align.core.types import Alignment, Choice, Pair, TextWarning
from align.io.manifest import Record, Stamp
from align.io.process import keep_freed_memory
from align.io.reader import Text, open_text
from align.io.resume import Blocks, check_input, check_run, finished, stamp

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.stream import OnChoice


class Extraction:
    """Alignments of all of the input.

    Args:
        options: what is asked for.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._progress = Progress(PROGRAM, options.quiet)
        self._results: Results | None = None

    def run(self) -> None:
        """Align all of the input, or say that this has been done."""
        options = self._options
        keep_freed_memory()
        if options.signature:
            with open_output(None) as out:
                out.write(sign(load_aligner(PROGRAM, options), options, words=options.words).encode() + b"\n")
            return
        inputs = [stamp(name) for name in options.input.files]
        with open_text(options.input) as text:
            if options.resume and options.output and (record := finished(options.output, options.bad_list)):
                check_finished(record, inputs, text, options)
                return
            with open_results(text, inputs, options) as results:  # before the model, which takes long
                self._results = results
                self._align(text, results)
        self._results = None

    def _align(self, text: Text, results: Results) -> None:
        """Load the model, align and write all pairs, and say on stderr what was done."""
        options, progress, blocks = self._options, self._progress, results.blocks
        aligner = load_aligner(PROGRAM, options)
        if options.keyboard and not options.quiet:
            lines = "source" if options.input.one_side else "`source ||| target`"
            say(f"{PROGRAM}: reading {lines} lines from the keyboard; Ctrl-D ends")
        pairs: Iterator[Pair] = text
        if blocks:
            aligner, pairs = resume(blocks, aligner, text, options)
        names, counts = names_of(aligner), blocks.counts if blocks else Counter[str]()
        choices: list[Choice] = [*blocks.choices] if blocks else []

        def announce(chosen: Sequence[Choice]) -> None:
            choices[:] = chosen
            for direction, choice in zip(names, chosen, strict=True):
                progress.write(f"{PROGRAM}: {direction}{choice}")
            progress.start()

        passes = (1 if options.method in DIRECTIONS else len(names)) + bool(options.search)
        choosing = any(
            "auto" in (one.settings.layer, one.settings.head) and not one.choice for one in aligner.directions
        )
        waiting = "" if options.keyboard else "choosing layer and head …" if choosing else "reading …"
        progress.begin(blocks.lines if blocks else 0, passes, lambda: text.expected, waiting)
        try:
            alignments = align_as(options, aligner, pairs, announce, progress.batch)
            with closing(alignments):  # at once: workers end with it
                for alignment in alignments:
                    reason = results.write(alignment)
                    counts[reason] += 1
                    progress.add()
                    if progress.lines % options.models.buffer == 0:
                        results.flush()
                        if blocks:
                            blocks.save(progress.lines, choices)
            results.flush()  # the results before what is said of them
        except PairError as error:
            raise text.placed(error) from None
        finally:
            progress.close()
        if not (options.bad_list or options.keyboard):
            text.bad.warn()
        progress.write(f"{PROGRAM}: {summary(progress, counts)}")
        progress.write(sign(aligner, options, choices, options.words))

    def so_far(self, error: BaseException) -> str:
        """Describe how far a stopped run came, and the state of its output."""
        options, lines, results = self._options, self._progress.lines, self._results
        by_error, done = isinstance(error, Exception), self._progress.done
        if not results or (by_error and not lines):
            return ""
        if results.blocks:
            lines = results.blocks.lines
            became = "the same command goes on" if lines else "nothing to go on with yet"
            if lines < done:
                size = f"({results.blocks.size:,} at a time)"
                became = f"{lines:,} of them are kept {size}; {became}" if lines else f"none is kept yet {size}"
        elif options.output in (None, "-") or (os.path.exists(options.output) and not os.path.isfile(options.output)):
            if isinstance(error, OSError) and not isinstance(error, ChildProcessError):  # of writing, perhaps
                return ""
            these = "these" if lines == done else f"the first {lines:,}"
            became = f"the results of {these} are written" if lines else "no results are written"
        else:
            became = f"{options.output} {'left as it was' if os.path.exists(options.output) else 'not written'}"
        return f" after {plural(done, 'line')}; {became}" if done else f" before the first line; {became}"


def align_as(
    options: Options, aligner: Aligner, pairs: Iterator[Pair], on_choice: OnChoice, on_batch: OnBatch
) -> Generator[Alignment, None, None]:
    """Yield alignments of pairs, translated first or in units other than words between spaces, as the options say."""
    if options.search:
        from align.models.translate import translate

        return translate(aligner, pairs, options.search, on_choice, on_batch)
    if options.words != "spaces":
        from align.models.unspaced import align_unspaced

        return align_unspaced(aligner, pairs, options.words, on_choice, on_batch)
    return aligner(pairs, on_choice, on_batch)


def summary(progress: Progress, counts: Counter[str]) -> str:
    """Summarise lines, blank and bad lines, lines without links, and speed."""
    usual = ("", "blank", UNLINKED)
    reasons = {reason: number for reason, number in sorted(counts.items()) if number and reason not in usual}
    why = f" ({', '.join(f'{number:,} {reason}' for reason, number in reasons.items())})" if reasons else ""
    bad = f"{sum(reasons.values()):,} bad{why}"
    if counts[UNLINKED] > (counts[UNLINKED] + counts[""]) / 5:  # of the lines with words
        bad += f", {counts[UNLINKED]:,} {UNLINKED}"
    return f"{plural(progress.lines, 'line')}, {counts['blank']:,} blank, {bad}, {progress.rate:,.0f} lines/s"


def check_finished(record: Record, inputs: Sequence[Stamp], text: Text, options: Options) -> None:
    """Check that the result is of these settings and this input, and say that there is nothing to do.

    Args:
        record: of the finished run.
        inputs: stamps of the input files.
        text: the input.
        options: the settings.

    Raises:
        ValueError: the result is of other settings or another input.
    """
    assert options.output
    check_run(record, options.output, what_is_run(load_aligner(PROGRAM, options), options))
    check_input(record, options.output, inputs, text, text.name)
    if not options.quiet:
        say(f"{PROGRAM}: {options.output} is there already: nothing to do")


def what_is_run(aligner: Aligner, options: Options) -> dict[str, Any]:
    """Return what the output depends on besides the input."""
    return {
        "settings": sign(aligner, options, words=options.words),
        "device": aligner.forward.recorder.device,
        "format": options.format,
        "scores": options.scores,
        "buffer": options.models.buffer,
        "batch-tokens": aligner.batch_tokens,
        "columns": ",".join(map(str, options.input.columns)) or "all",
        "bad-lines": options.models.too_long,
        "bad-lines-file": options.bad_list,
    }


def resume(blocks: Blocks, aligner: Aligner, text: Text, options: Options) -> tuple[Aligner, Iterator[Pair]]:
    """Return an aligner that reads where the interrupted run did, and the pairs that are left to align."""
    pairs = blocks.begin(what_is_run(aligner, options), text, text.name, options.models.buffer)
    text.bad.errors.clear()  # of the lines that are done
    if not blocks.lines:
        return aligner, pairs
    try:
        aligner = aligner.reading_at(blocks.choices) if blocks.choices else aligner
    except ValueError as error:
        raise ValueError(f"{blocks.folder}: {error}: {blocks.anew}") from None
    if not options.quiet:
        say(f"{PROGRAM}: {plural(blocks.lines, 'line')} are done in {blocks.folder}")
    return aligner, pairs


COMMANDS = ("shards", "serve")
"""What else it does, by the names of the manual pages."""


def build_command(name: str) -> Parser:
    """Return the parser of one of `COMMANDS`."""
    from align.cli import serve_options, shards_options

    builders = {"shards": shards_options.build_parser, "serve": serve_options.build_parser}
    return builders[name]()


def main() -> int:
    """Entry point of `extract-align`."""
    if sys.argv[1:2] == ["serve"]:  # a file of that name is ./serve
        from align.cli import serve

        return serve.main(sys.argv[2:])
    if any(word == "--input" or word.startswith("--input=") for word in sys.argv[1:]):
        from align.cli import shards

        return shards.main()
    parser = build_parser()
    parser.others = map(build_command, COMMANDS)
    job = Extraction(read_options(parser))
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, job.run, BATCH_ADVICE, job.so_far)


if __name__ == "__main__":
    sys.exit(main())
