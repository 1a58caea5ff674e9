"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
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
    check_second_output,
    check_words,
    new_parser,
    options_of,
    read_input,
    with_lines,
)
from align.cli.common import Progress, open_output, run, say, show_warnings, write_links
from align.cli.ensemble import TOOLS, describe, join, open_partners
from align.cli.loading import Asked, begin_session, calibration_of, load_aligner, read_asked
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.formats import AGREEMENT, FORMATS, WITH_WORDS
from align.core.symmetrize import SOFT
from align.core.types import FLOOR, Alignment, TextWarning
from align.io.checks import are_regular, open_text
from align.io.output import parts_of, record_of, temporary_name
from align.io.process import keep_freed_memory
from align.io.reader import Input, Text, name_shown
from align.io.session import Session
from align.io.shards import BUFFERS, Shards, stamp
from align.io.signature import sign

if TYPE_CHECKING:
    from align.core.aligner import Aligner

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


@dataclass(frozen=True)
class Options(Asked):
    """What `extract-align` is asked for.

    Attributes:
        keyboard: whether someone types it.
        words: what is a word, one of `align.core.types.CUTS`.
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


def check_results(parser: argparse.ArgumentParser, args: argparse.Namespace, text: Input) -> None:
    """Refuse output that cannot be written, with exit code 2."""
    _check_bad_list(parser, args, text)
    check_words(parser, args)
    if args.resume and args.output in (None, "-"):
        parser.error("--resume requires -o FILE")
    if args.resume and not are_regular(text.files):
        parser.error("--resume requires input files, which can be read again, not stdin or a pipe")
    if args.output and (args.output.endswith("/") or os.path.isdir(args.output)):
        jobs = f"`extract-align jobs FILE … -o {args.output}`"
        parser.error(f"-o {args.output} is a folder: {jobs} writes a file for each FILE")
    for name in text.files if args.resume else ():
        if name != "-" and _is_of_resume(name, args.output):
            parser.error(f"--resume writes the input {name} itself: give it another name")
    if args.resume and os.path.exists(args.output) and not os.path.isfile(args.output):
        parser.error(f"--resume needs an ordinary file, and {args.output} is not one")


def _check_bad_list(parser: argparse.ArgumentParser, args: argparse.Namespace, text: Input) -> None:
    """Refuse a list of bad lines in the place of another file, with exit code 2."""
    name, output = args.bad_lines_file, args.output
    if name is None:
        return
    if args.bad_lines != "blank":
        parser.error("--bad-lines-file requires --bad-lines blank")
    check_second_output(parser, text.files, name, output, "--bad-lines-file")
    if args.resume and output and _is_of_resume(name, output):
        parser.error(f"--resume writes {name} itself: give --bad-lines-file another name")


def _is_of_resume(name: str, output: str) -> bool:
    """Check whether a file is one that `--resume` writes next to the output."""
    place, parts = os.path.realpath(name), os.path.realpath(parts_of(output))
    record = record_of(output)
    return place.startswith(parts + os.sep) or place in map(os.path.realpath, (parts, record, temporary_name(record)))


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line."""
    args = parser.parse_command(arguments)
    text = read_input(parser, args, one_side=args.translate)
    keyboard = "-" in text.files and sys.stdin is not None and sys.stdin.isatty()
    if keyboard:  # where a slip is no reason to begin again
        parser.set_defaults(bad_lines="blank", buffer=1)
        args = parser.parse_command(arguments)
        text = replace(text, blank=args.bad_lines == "blank")
    if args.ensemble and (args.translate or args.resume):
        parser.error("--ensemble cannot be combined with --translate or --resume")
    check_results(parser, args, text)
    if args.translate and args.format not in ("pharaoh", "talp", *WITH_WORDS):
        parser.error(f"-f {args.format} has no room for translations: take pharaoh, talp, offsets, jsonl, tsv or giza")
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


class Results:
    """Writes alignments, and lists bad lines."""

    def __init__(self, options: Options, out: BinaryIO, listing: BinaryIO | None) -> None:
        self._options, self.out, self.listing = options, out, listing
        self._write = write_translation if options.search else write_links

    def write(self, alignment: Alignment) -> str:
        """Write an alignment, and list its line if that is bad; returns why there are no links, or UNLINKED."""
        origin = alignment.pair.origin
        what = origin.error.what if origin.error else alignment.skipped
        if what and self._options.keyboard:
            say(f"{PROGRAM}: {what}")
        self._write(self.out, alignment, self._options.format, self._options.scores)
        if what and self.listing:
            file = origin.error.file if origin.error else origin.file
            self.listing.write(f"{file}\t{origin.line}\t{what}\n".encode())
        return "" if alignment.scores else alignment.skipped or ("blank" if alignment.pair.blank else UNLINKED)


def write_translation(out: BinaryIO, alignment: Alignment, format: str, scores: bool) -> None:
    """Write one sentence's translation and links: `translation ||| 0-0 1-2`, or what another format has.

    A blank line is a blank line, and so is a sentence that was too long. A translation without a word is ` ||| `.
    """
    pair = alignment.pair
    if format not in ("pharaoh", "talp", "offsets"):
        write_links(out, alignment, format, scores)
    elif not pair.source or (alignment.skipped and not pair.target):
        out.write(b"\n")
    else:
        out.write(f"{' '.join(pair.target)} ||| {FORMATS[format](alignment, scores)}\n".encode())


class Extraction:
    """Alignments of all of the input."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._progress = Progress(PROGRAM, options.quiet)
        self._shards: Shards | None = None
        self._begun = False  # whether there is an output to tell of

    def run(self) -> None:
        """Align all of the input, or report that it is done."""
        options = self._options
        keep_freed_memory()
        if options.signature:
            with open_output(None) as out:
                out.write(sign_results(Session(load_aligner(PROGRAM, options)), options).encode() + b"\n")
            return
        with open_text(options.input) as text, ExitStack() as stack:
            # The output is opened before the model is loaded, which takes long.
            if options.resume and options.output:
                self._shards = stack.enter_context(Shards(options.output, options.bad_list))
                results = Results(options, BytesIO(), None)
            else:
                listing = stack.enter_context(open_output(options.bad_list)) if options.bad_list else None
                results = Results(options, stack.enter_context(open_output(options.output)), listing)
            self._begun = True
            self._align(text, results)
        self._begun = False

    def _align(self, text: Text, results: Results) -> None:
        """Load the model, align and write all pairs, and say on stderr what was done."""
        options, progress, shards = self._options, self._progress, self._shards
        if options.ensemble:
            describe(options.ensemble)  # an error if a tool is missing
        aligner = load_aligner(PROGRAM, options)
        if options.keyboard and not options.quiet:
            lines = "source" if options.input.one_side else "`source ||| target`"
            say(f"{PROGRAM}: reading {lines} lines from the keyboard; Ctrl-D ends")
        before = 0
        if shards:
            shards.begin(what_is_run(aligner, options), BUFFERS * options.models.buffer)
            if shards.complete:
                progress.write(f"{PROGRAM}: {options.output} is complete: nothing to do")
                return
            results.out, results.listing, before = shards.out, shards.listing, shards.lines
            aligner = aligner.reading_at(shards.choices) if shards.choices else aligner
            if before:
                progress.write(f"{PROGRAM}: {plural(before, 'line')} are done in {shards.folder}")
        with ExitStack() as stack:
            stack.callback(progress.close)
            expected, shown = lambda: text.expected, not options.keyboard
            session = begin_session(options, aligner, progress, options.words, before, expected, shown)
            if options.ensemble:
                encode, threads = aligner.forward.recorder.encode, options.models.threads or os.cpu_count() or 1
                partners = stack.enter_context(open_partners(options.ensemble, options.input, encode, threads))
                alone = session.align

                def align_and_join(*pairs_and_callbacks: Any) -> Generator[Alignment, None, None]:
                    return join(alone(*pairs_and_callbacks), text.name, partners, options.mean_threshold)

                session.align = align_and_join
            if shards:
                session.counts, session.choices = Counter(shards.counts), shards.choices

            def save() -> None:
                results.out.flush()  # for a reader that waits for it
                if shards and progress.lines % shards.size == 0 and progress.lines > shards.lines:
                    shards.save(session.counts, session.choices)
                    results.out, results.listing = shards.out, shards.listing

            session.run(islice(text, before, None), results.write, save, options.models.buffer)
        if not (options.bad_list or options.keyboard):
            text.bad.warn()
        progress.write(f"{PROGRAM}: {summary(progress, session.counts)}")
        progress.write(sign_results(session, options))

    def so_far(self, error: BaseException) -> str:
        """Describe how far a stopped run came, and the state of its output."""
        options, lines, done = self._options, self._progress.lines, self._progress.done
        if not self._begun or (isinstance(error, Exception) and not lines):
            return ""
        if self._shards:
            lines, size = self._shards.lines, f"({self._shards.size:,} at a time)"
            became = "the same command goes on" if lines else "nothing to go on with yet"
            if lines < done:
                became = f"{lines:,} of them are kept {size}; {became}" if lines else f"none is kept yet {size}"
        elif options.output in (None, "-") or (os.path.exists(options.output) and not os.path.isfile(options.output)):
            if isinstance(error, OSError) and not isinstance(error, ChildProcessError):  # of writing, perhaps
                return ""
            these = "these" if lines == done else f"the first {lines:,}"
            became = f"the results of {these} are written" if lines else "no results are written"
        else:
            became = f"{options.output} {'left as it was' if os.path.exists(options.output) else 'not written'}"
        return f" after {plural(done, 'line')}; {became}" if done else f" before the first line; {became}"


def sign_results(session: Session, options: Options) -> str:
    """Return the signature of the output."""
    session.search, session.words = options.search, options.words
    if not options.ensemble:
        return session.signature()
    return session.signature({"ensemble": describe(options.ensemble), "mean": f"{options.mean_threshold:g}"})


def summary(progress: Progress, counts: Counter[str]) -> str:
    """Summarise lines, blank and bad lines, lines without links, and speed."""
    usual = ("", "blank", UNLINKED)
    reasons = {reason: number for reason, number in sorted(counts.items()) if number and reason not in usual}
    why = f" ({', '.join(f'{number:,} {reason}' for reason, number in reasons.items())})" if reasons else ""
    bad = f"{sum(reasons.values()):,} bad{why}"
    if counts[UNLINKED] > (counts[UNLINKED] + counts[""]) / 5:  # of the lines with words
        bad += f", {counts[UNLINKED]:,} {UNLINKED}"
    return f"{plural(progress.lines, 'line')}, {counts['blank']:,} blank, {bad}, {progress.rate:,.0f} lines/s"


def what_is_run(aligner: Aligner, options: Options) -> dict[str, Any]:
    """Return what the output depends on.

    The policy for bad lines is not part of it: lines that are done without it have none.
    """
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
        "bad-lines-file": options.bad_list,
        "files": ", ".join(map(name_shown, source.files)),
        **{f"input {name_shown(name)}": stamp(name) for name in source.files},
    }


def main(arguments: Sequence[str] | None = None, parser: Parser | None = None) -> int:
    """Entry point of `extract-align` without a command; `parser` may have more options, which print and exit."""
    job = Extraction(read_options(parser or build_parser(), arguments))
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, job.run, BATCH_ADVICE, job.so_far)
