"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    REVERSE_IDLE,
    SEARCH,
    SIGNATURE_IDLE,
    WORKERS_IDLE,
    add_direction_options,
    add_input_options,
    add_model_options,
    add_quiet_option,
    add_result_options,
    add_signature_option,
    add_speed_options,
    add_threshold_options,
    add_translate_options,
    add_workers_option,
    check_files,
    check_results,
    check_translate,
    new_parser,
    options_of,
    read_input,
    with_lines,
    write_translation,
)
from align.cli.common import Progress, open_output, run, say, show_warnings, write_links
from align.cli.ensemble import TOOLS, describe, join, open_partners
from align.cli.loading import Asked, calibration_of, describe_choices, first_step, load_aligner, read_asked
from align.cli.parser import Idle, Parser
from align.core.errors import plural
from align.core.formats import AGREEMENT
from align.core.stream import OnBatch, align_items
from align.core.symmetrize import DIRECTIONS, SOFT
from align.core.types import Alignment, Choice, Origin, Pair, TextWarning
from align.io.checks import open_text
from align.io.manifest import Record, Stamp
from align.io.process import keep_freed_memory
from align.io.reader import Input, Text, name_shown
from align.io.resume import Blocks, DigestedPairs, check_input, check_run, finished, open_blocks, remove_joined, stamp
from align.io.signature import sign
from align.transfer.windows import FLOOR

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.stream import OnChoice

PROGRAM = "extract-align"


EXAMPLES = """examples:
  extract-align bitext.de-en > links   lines `source ||| target` or `source TAB target`
  zcat big.tsv.gz | extract-align -o big.links           millions of lines, in a pipe
  extract-align crawl.tsv --columns 2,3 --bad-lines blank --bad-lines-file bad.tsv   a text with a score before it
  extract-align big.tsv.gz -o big.links.gz --resume   the same command goes on after a stop
  extract-align -s test.de -t test.en -m wmt/model.pt -f jsonl   two files and a fairseq model of your own
  extract-align -m de-en --reverse-model en-de bitext.de-en   both directions, symmetrised
  extract-align --translate -s test.de   translate, and align: `translation ||| links`
"""


IDLE = (
    *WORKERS_IDLE,
    SIGNATURE_IDLE,
    Idle(("scores",), lambda args: args.format == "jsonl", "has no effect with -f jsonl, which always has them"),
    Idle(("scores",), lambda args: args.format == "giza", "has no effect with -f giza, which has no room for them"),
    *REVERSE_IDLE,
    Idle(SEARCH, lambda args: not args.translate, "requires --translate"),
    Idle(("ensemble",), lambda args: args.translate or args.resume, "cannot be combined with --translate or --resume"),
    Idle(("bad_lines_file",), lambda args: args.bad_lines != "blank", "requires --bad-lines blank"),
)


@dataclass(frozen=True)
class Options(Asked):
    """What `extract-align` is asked for.

    Attributes:
        keyboard: whether someone types it.
        words: what is a word, one of `align.models.divide.CUTS`.
        ensemble: files of links, and names of statistical aligners, whose scores are averaged with the model's.
        mean_threshold: links have a mean score above it.
    """

    input: Input
    keyboard: bool
    output: str | None
    bad_list: str | None
    resume: bool
    format: str
    scores: bool
    words: str
    ensemble: tuple[str, ...]
    mean_threshold: float
    signature: bool


MOST_USED = ("source", "target", "model", "reverse_model", "translate", "output", "format")


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM, "Word alignments of translated sentences, out of a translation model's attention.", EXAMPLES, MOST_USED
    )
    add_signature_option(parser)
    add_quiet_option(parser)
    add_input_options(parser)
    add_result_options(parser)
    add_model_options(parser, default=ALIGNING_DEFAULT)
    add_threshold_options(parser)
    add_direction_options(parser)
    add_ensemble_option(parser)
    add_translate_options(parser)
    group = add_speed_options(
        parser,
        "lines read ahead and sorted by length; 1: every line at once",
    )
    add_workers_option(group)
    return parser


def add_ensemble_option(parser: Parser) -> None:
    """Add the option for other aligners' links."""
    group = parser.add_argument_group("ensemble")
    group.add_argument(
        "--ensemble",
        action="append",
        metavar="WITH",
        help=f"link words whose mean of the soft score and a partner's is above --threshold. WITH is a statistical "
        f"aligner that is run on this text ({', '.join(TOOLS)}; on the model's pieces, in both directions), or a file "
        "of links with or without scores; may be repeated",
    )


def check_ensemble(parser: Parser, args: argparse.Namespace, text: Input) -> None:
    """Refuse partners that cannot be averaged with, and let the model write all soft scores, with exit code 2."""
    args.mean_threshold = args.threshold
    if not args.ensemble:
        return
    if args.threshold is None:
        parser.error("--threshold none has no effect with --ensemble, which needs one")
    if args.reverse_model and args.symmetrize not in (None, SOFT):
        parser.error(f"--ensemble averages soft scores: leave out --symmetrize {args.symmetrize}")
    tools = [name for name in args.ensemble if name in TOOLS]
    if tools and "-" in text.files:
        parser.error(f"--ensemble {tools[0]} reads the text twice: it cannot be stdin")
    if tools and args.words != "spaces":
        parser.error(f"--ensemble {tools[0]} reads text with its spaces: leave out --words")
    check_files(parser, (*text.files, *(name for name in args.ensemble if name not in TOOLS)), args.output)
    args.threshold = FLOOR


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line."""
    args = parser.parse_command(arguments)
    text = read_input(parser, args, one_side=args.translate)
    keyboard = "-" in text.files and sys.stdin is not None and sys.stdin.isatty()
    if keyboard:  # where a slip is no reason to begin again
        parser.set_defaults(bad_lines="blank", buffer=1)
        args = parser.parse_command(arguments)
        text = replace(text, blank=args.bad_lines == "blank")
    parser.refuse_idle(args, IDLE)
    check_results(parser, args, text)
    check_translate(parser, args)
    check_ensemble(parser, args, text)
    return options_of(
        Options,
        args,
        **vars(read_asked(parser, args, whole=args.format == AGREEMENT)),  # whose thresholds were measured with it
        input=with_lines(text, args.format, args.words),
        keyboard=keyboard,
        bad_list=args.bad_lines_file,
        ensemble=tuple(args.ensemble or ()),
    )


UNLINKED = "without a link"
"""What there is to say of a line of words that has none."""


class Files(NamedTuple):
    """The file of results, and the list of bad lines, if there is one."""

    out: BinaryIO
    listing: BinaryIO | None


class Results:
    """Writes alignments, and lists bad lines.

    Attributes:
        blocks: with --resume, the finished parts of the result.
    """

    def __init__(self, files: Files | Blocks, options: Options) -> None:
        self.blocks = files if isinstance(files, Blocks) else None
        self._files, self._options = files, options
        self._write = write_translation if options.search else write_links

    def write(self, alignment: Alignment) -> str:
        """Write an alignment, and list its line if that is bad; returns why there are no links, or UNLINKED."""
        origin = alignment.pair.origin
        error = origin.error
        if alignment.skipped and self._options.keyboard:
            say(f"{PROGRAM}: {error.what if error else alignment.skipped}")
        self._write(self._files.out, alignment, self._options.format, self._options.scores)
        if alignment.skipped and self._files.listing:
            row = error.file if error else origin.file, str(origin.line), error.what if error else alignment.skipped
            self._files.listing.write("\t".join(row).encode() + b"\n")
        return "" if alignment.scores else alignment.skipped or ("blank" if alignment.pair.blank else UNLINKED)

    def flush(self) -> None:
        """Pass on what is written, for a reader that waits for it."""
        self._files.out.flush()


@contextmanager
def open_results(inputs: Sequence[Stamp], options: Options) -> Iterator[Results]:
    """Open the output, which is written completely or not at all."""
    with ExitStack() as stack:
        if options.resume and options.output:
            yield Results(stack.enter_context(open_blocks(options.output, inputs, options.bad_list)), options)
            return
        listing = stack.enter_context(open_output(options.bad_list)) if options.bad_list else None
        yield Results(Files(stack.enter_context(open_output(options.output)), listing), options)


class Extraction:
    """Alignments of all of the input."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._progress = Progress(PROGRAM, options.quiet)
        self._results: Results | None = None

    def run(self) -> None:
        """Align all of the input, or report that it is done."""
        options = self._options
        keep_freed_memory()
        if options.signature:
            with open_output(None) as out:
                out.write(sign_results(load_aligner(PROGRAM, options), (), options).encode() + b"\n")
            return
        inputs = [stamp(name) for name in options.input.files]
        with open_text(options.input) as text:
            if options.resume and options.output and (record := finished(options.output, options.bad_list)):
                check_finished(record, inputs, text, options)
                return
            with open_results(inputs, options) as results:  # before the model, which takes long
                self._results = results
                self._align(text, results)
        self._results = None

    def _align(self, text: Text, results: Results) -> None:
        """Load the model, align and write all pairs, and say on stderr what was done."""
        options, progress, blocks = self._options, self._progress, results.blocks
        if options.ensemble:
            describe(options.ensemble)  # an error if a tool is missing
        aligner = load_aligner(PROGRAM, options)
        if options.keyboard and not options.quiet:
            lines = "source" if options.input.one_side else "`source ||| target`"
            say(f"{PROGRAM}: reading {lines} lines from the keyboard; Ctrl-D ends")
        pairs: Iterator[Pair] = text
        if blocks:
            aligner, pairs = resume(blocks, aligner, text, options)
        counts = blocks.counts if blocks else Counter[str]()
        choices: list[Choice] = [*blocks.choices] if blocks else []

        def announce(chosen: Sequence[Choice]) -> None:
            choices[:] = chosen
            for line in describe_choices(aligner, chosen):
                progress.write(f"{PROGRAM}: {line}")
            progress.start()

        passes = (1 if options.method in DIRECTIONS else len(aligner.directions)) + bool(options.search)
        waiting = "" if options.keyboard else first_step(aligner)
        progress.begin(blocks.lines if blocks else 0, passes, lambda: text.expected, waiting)
        try:
            with ExitStack() as stack:
                partners = None
                if options.ensemble:
                    encode, threads = aligner.forward.recorder.encode, options.models.threads or os.cpu_count() or 1
                    partners = stack.enter_context(open_partners(options.ensemble, options.input, encode, threads))

                def align(pairs: Iterator[Pair]) -> Generator[Alignment, None, None]:
                    alignments = align_as(options, aligner, pairs, announce, progress.batch)
                    return join(alignments, text.name, partners, options.mean_threshold) if partners else alignments

                aligned = align_items(pairs, lambda pair: [pair], align)
                stack.enter_context(closing(aligned))  # at once: workers end with it
                for _, (alignment,) in aligned:
                    reason = results.write(alignment)
                    counts[reason] += 1
                    progress.add()
                    if progress.lines % options.models.buffer == 0:
                        results.flush()
                        if blocks:
                            blocks.save(progress.lines, choices)
            results.flush()  # the results before what is said of them
        finally:
            progress.close()
        if not (options.bad_list or options.keyboard):
            text.bad.warn()
        progress.write(f"{PROGRAM}: {summary(progress, counts)}")
        progress.write(sign_results(aligner, choices, options))

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
        from align.models.divide import align_unspaced

        return align_unspaced(aligner, pairs, options.words, on_choice, on_batch)
    return aligner(pairs, on_choice, on_batch)


def sign_results(aligner: Aligner, choices: Sequence[Choice], options: Options) -> str:
    """Return the signature of the output."""
    if not options.ensemble:
        return sign(aligner, choices, options.search, options.words)
    parts = {"ensemble": describe(options.ensemble), "mean": f"{options.mean_threshold:g}"}
    return sign(aligner, choices, options.search, options.words, parts)


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
    """Check that the result is of these settings and this input, and report that nothing is left to do."""
    assert options.output
    check_run(record, options.output, what_is_run(load_aligner(PROGRAM, options), options))
    check_input(record, options.output, inputs, digested(text, options), text.name)
    remove_joined(options.output, record)
    if not options.quiet:
        say(f"{PROGRAM}: {options.output} is there already: nothing to do")


def what_is_run(aligner: Aligner, options: Options) -> dict[str, Any]:
    """Return what the output depends on, except the input."""
    source = options.input
    return {
        "settings": sign(aligner, (), options.search, options.words),
        "calibration": calibration_of(aligner),
        "device": aligner.forward.recorder.device,
        "format": options.format,
        "scores": options.scores,
        "buffer": options.models.buffer,
        "batch-tokens": aligner.batch_tokens,
        "sides": "source" if source.one_side else "files" if source.parallel else "lines",
        "columns": ",".join(map(str, source.columns)) or "all",
        "bad-lines": options.models.too_long,
        "bad-lines-file": options.bad_list,
        "files": ", ".join(map(name_shown, source.files)) if options.bad_list else None,  # the list names them
    }


def digested(text: Text, options: Options) -> DigestedPairs:
    """Return the pairs of the input with a digest of all that the output depends on."""

    def describe(origin: Origin) -> str:
        place = [origin.file, str(origin.line)] if options.bad_list else []
        return "\t".join([*place, origin.error.what if origin.error else ""])

    return DigestedPairs(text, describe)


def resume(blocks: Blocks, aligner: Aligner, text: Text, options: Options) -> tuple[Aligner, Iterator[Pair]]:
    """Return an aligner that reads where the interrupted run did, and the pairs that are left to align."""
    read = digested(text, options)
    pairs = blocks.begin(what_is_run(aligner, options), read, text.name, options.models.buffer)
    if not blocks.lines:
        return aligner, pairs
    try:
        aligner = aligner.reading_at(blocks.choices) if blocks.choices else aligner
    except ValueError as error:
        raise ValueError(f"{blocks.folder}: {error}: {blocks.anew}") from None
    if not options.quiet:
        say(f"{PROGRAM}: {plural(blocks.lines, 'line')} are done in {blocks.folder}")
    return aligner, pairs


def main(arguments: Sequence[str] | None = None, parser: Parser | None = None) -> int:
    """Entry point of `extract-align` without a command; `parser` may have more options, which print and exit."""
    job = Extraction(read_options(parser or build_parser(), arguments))
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, job.run, BATCH_ADVICE, job.so_far)
