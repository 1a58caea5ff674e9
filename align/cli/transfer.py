"""`extract-align transfer`: put tags and labels of source sentences into their translations, line by line."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    ModelArgs,
    OutputArgs,
    RunArgs,
    TextArgs,
    TranslateArgs,
    check_words,
    model_help,
)
from align.cli.common import Progress, open_output, run
from align.cli.documents import transfer_document
from align.cli.loading import Request, begin_session, load_aligner, read_request
from align.cli.options import add_group, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.errors import DataError, LineError, LinksError, plural
from align.core.formats import to_json
from align.core.text import split_words
from align.core.types import FLOOR, THRESHOLD, Origin, Pair
from align.evaluation.ensemble import check_range
from align.evaluation.link_formats import parse_scored
from align.io.checks import are_regular, check_first, check_lengths
from align.io.process import keep_freed_memory
from align.io.reader import (
    BadLines,
    SideSplitter,
    in_step,
    name_shown,
    open_lines,
    read_lines,
    refuse_numbers,
)
from align.models.divide import split_words_at
from align.transfer.columns import (
    COLUMNS,
    ENTITY,
    Labelled,
    LabelledLine,
    pair_sentences,
    read_column,
    read_labelled,
)
from align.transfer.documents import is_document
from align.transfer.lines import Line, Links, Placed, read_tagged
from align.transfer.markup import PART, REPEATED, review_line
from align.transfer.pages import KEEP, Page
from align.transfer.spans import SPANS, read_annotated
from align.transfer.tags import KINDS, Syntax, count_lookalikes

if TYPE_CHECKING:
    from align.transfer.standins import TranslatedPage

PROGRAM = "extract-align transfer"

REMARKS = {
    "extra": "in the target only",
    "removed": "removed",
    "rewritten": "rewritten",
    "unrepaired": "not repaired",
}
"""Remarks on tags and placeholders of the target that are not as in the source, by their names in the report."""

LIKE = "like placeholders, left as text"
"""What the summary says of text that may be a placeholder of another syntax."""

LABELS = (*COLUMNS, SPANS)

TAGS = (*KINDS, *LABELS)

EXAMPLES = """examples:
  extract-align transfer --tags html page.tsv > page.en   lines `source with tags ||| target`
  extract-align transfer --tags xml -s a.de.xml -t a.en --reverse-model en-de   two files, both directions
  extract-align transfer --tags xml -s a.de.xml -t a.en --links a.links   with links that are there already
  extract-align transfer --tags html --strip page.de > plain.de  the lines without tags, to translate or align elsewhere
  extract-align transfer --tags html --translate page.de   translate lines with tags, and put the tags in
  extract-align transfer --html-file page.html --translate > page.en.html   translate a whole page
  extract-align transfer page.xlf -o page.en.xlf   place the inline elements that its targets lack; also .po, .tmx
  extract-align transfer --tags bio -s ner.de.bio -t ner.en   labels in columns, on to the words of a translation
  extract-align transfer --tags conll --column UPOS -s a.conllu -t a.en   parts of speech, or another column
  extract-align transfer --tags spans -s ner.jsonl -t ner.en   labels of characters, as annotation tools write them
"""


def _pattern(text: str) -> re.Pattern[str]:
    """Read a regular expression."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"invalid regular expression: {error}") from None
    if pattern.search(""):
        raise argparse.ArgumentTypeError("the expression matches an empty text")
    return pattern


def _names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def _column(name: str) -> str:
    try:
        return read_column(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@dataclass(frozen=True)
class TagArgs:
    """Tags or labels, and what to do with them."""

    TITLE: ClassVar = "tags"

    tags: str | None = option(
        "--tags",
        choices=TAGS,
        metavar="KIND",
        short="xml, html, placeholders, bio, conll or spans",
        help="xml: well-formed; html: anything; placeholders: {0}, {name}, %%s, %%1$d and the like; xml,placeholders "
        "and html,placeholders: both; bio: labels B-X, I-X and O in the last column of -s, words in its first; words: "
        "any label of each word there; conll: a column of CoNLL-U; spans: JSON lines "
        '{"text": ..., "labels": [[0, 4, "PER"], ...], "target": ...}, counted in characters',
    )
    placeholder: re.Pattern[str] | None = option(
        "--placeholder",
        type=_pattern,
        metavar="REGEX",
        help="what else is a placeholder, as a regular expression of Python: r'\\[id[0-9]+\\]'",
    )
    repair: bool = option(
        "--repair",
        default=False,
        help="the target comes from a translator that loses or damages tags: remove those that the source does not "
        "have, write damaged ones as in the source, and put in the missing ones",
    )
    split: bool = option(
        "--split",
        default=False,
        help="a tag may come more than once, around all words that are linked to its own",
    )
    column: str = option(
        "--column",
        default=ENTITY,
        type=_column,
        metavar="NAME",
        help="column of CoNLL-U: NER, which is labels B-X, I-X and O of the key NER in MISC (default); or LEMMA, UPOS, "
        "XPOS, FEATS, DEPREL or MISC:KEY, which have one label for each word",
    )
    strip: bool = option("--strip", default=False, help="write the source without tags; read no target")
    keep: tuple[str, ...] = option(
        "--keep",
        default=KEEP,
        type=_names,
        metavar="NAMES",
        help='elements that --translate leaves as they are, with commas between; also those with translate="no" or '
        'class="notranslate", addresses, paths and placeholders of templates',
    )
    attributes: tuple[str, ...] = option(
        "--attributes",
        default=(),
        type=_names,
        metavar="NAMES",
        help="attributes whose values are text, such as alt,title,placeholder (default: none)",
    )


@dataclass(frozen=True)
class PageArgs:
    """Where the source and the links are, if not in the text."""

    TITLE: ClassVar = "other input"

    html_file: str | None = option(
        "--html-file",
        metavar="FILE",
        help="a whole page in place of -s: the text of each block is a sentence or several. --strip writes a line for "
        "each block, and -t reads such lines",
    )
    links: str | None = option(
        "--links",
        metavar="FILE",
        short="use these links instead of a model",
        help="links of the lines without tags, as extract-align writes them: Pharaoh, or jsonl; best with "
        "--print-scores. Without it a model aligns the lines",
    )


@dataclass(frozen=True)
class ReportArgs:
    """Lists of tags."""

    TITLE: ClassVar = "reports"

    report: str | None = option(
        "--report",
        metavar="FILE",
        help="a JSON line for each line: where each tag was put, how surely, and what is odd",
    )
    review: str | None = option(
        "--review",
        metavar="FILE",
        help="doubtful lines, with TABs between number, confidence, remarks, source and output",
    )


@dataclass(frozen=True)
class Options:
    """What `extract-align transfer` is asked for.

    Attributes:
        files: one of both sides, or of the source alone, or one of each; "-" is stdin.
        kind: one of `align.transfer.tags.KINDS`, or one of LABELS; "" for those of the kind of document.
        syntax: what the tags look like; None for labels.
    """

    request: Request
    tags: TagArgs
    page: PageArgs
    reports: ReportArgs
    files: tuple[str, ...]
    kind: str
    syntax: Syntax | None
    words: str
    output: str | None
    blank: bool

    @property
    def one_side(self) -> bool:
        """Tell whether there is no target to read."""
        return self.tags.strip or self.request.search is not None

    @property
    def translates_tags(self) -> bool:
        """Tell whether text with tags is translated."""
        return self.syntax is not None and self.request.search is not None


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM,
        "Puts the tags or labels of source sentences into their translations, along word alignments.",
        EXAMPLES,
        ("tags", "source", "target", "links", "model", "reverse_model", "translate", "output"),
    )
    file = "lines `source with tags ||| target` (default: stdin), or a document: .xlf, .xliff, .po, .tmx"
    source = "source sentences with tags, or in columns; requires -t"
    bad = "has not two fields, is not UTF-8, has tags that cannot be read, or is longer than the model takes"
    translate = "lines of the input, or of -s FILE, are source sentences; write each translation with the tags for each"
    add_group(parser, TagArgs)
    add_group(
        parser,
        TextArgs,
        without=("columns",),
        input={"nargs": "?", "default": None, "help": file},
        source={"help": source},
        bad_lines={"help": f"at a line that {bad}: stop, or read a blank line in its place"},
    )
    add_group(parser, PageArgs)
    add_group(parser, OutputArgs, only=("output", "words"))
    add_group(parser, ReportArgs)
    add_group(parser, ModelArgs, without=("template",), model={"help": model_help(ALIGNING_DEFAULT)})
    add_group(parser, TranslateArgs, without=("allow_unk",), translate={"help": translate})
    add_group(parser, RunArgs, workers={"default": None})
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line."""
    args = parser.parse_command(arguments)
    if args.tags is None and args.html_file is not None:
        args.tags = "html"
    check_words(parser, args.words, args.translate)
    _check_combination(parser, args)
    request = read_request(parser, args, args.bad_lines)
    return Options(
        request=replace(request, method=replace(request.method, threshold=FLOOR, reader="none")),  # all soft scores
        tags=read_group(TagArgs, args),
        page=read_group(PageArgs, args),
        reports=read_group(ReportArgs, args),
        files=_files(parser, args),
        kind=args.tags or "",
        syntax=Syntax.of(args.tags, args.placeholder) if args.tags in KINDS else None,
        words=args.words,
        output=args.output,
        blank=args.bad_lines == "blank",
    )


def _check_combination(parser: Parser, args: argparse.Namespace) -> None:
    """Refuse options together of which one would be without its effect on the result, with exit code 2."""
    document = is_document(args.input or "")
    of_lines = ("links", "strip", "repair", "split", "placeholder", "keep", "attributes")
    given = [name for name in of_lines if getattr(args, name) not in (None, False, (), KEEP)]
    if document and given:
        parser.error(f"--{given[0]} requires lines, not a document")
    if args.words != "spaces" and (args.strip or document):
        parser.error("--words requires a target on each line")
    if args.links and args.translate:
        parser.error("--links are those of given translations: leave out --translate")
    if args.words == "pieces" and args.links:
        parser.error("--words pieces needs a model: leave out --links")
    if args.repair and (args.translate or args.strip or args.split or args.links or args.tags in LABELS):
        parser.error("--repair cannot be combined with --translate, --strip, --split, --links or labels")


def _files(parser: Parser, args: argparse.Namespace) -> tuple[str, ...]:
    """Return the files to read; conflicting ones exit with code 2."""
    one_side = "--strip" if args.strip else "--translate" if args.translate else ""
    if args.html_file is not None:
        if args.source is not None or not args.tags.startswith("html"):
            parser.error(f"--html-file reads the source, with HTML tags: leave out {'-s' if args.source else '--tags'}")
        if not one_side and args.target is None:
            parser.error("--html-file requires --translate, --strip, or a block's translation on each line of -t")
        args.source = args.html_file
    if one_side and args.target is not None:
        parser.error(f"{one_side} reads the source alone: leave out -t/--target")
    if not one_side and (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input is not None:
        parser.error("either FILE, or -s and -t")
    if args.tags in COLUMNS and (one_side or args.source is None):
        parser.error(f"--tags {args.tags} reads columns with -s, and lines with -t")
    document = is_document(args.input or "")
    if not args.tags and not document:
        parser.error("the following arguments are required: --tags")
    if document and args.tags in LABELS:
        parser.error(f"--tags {args.tags} reads lines, not a document")
    files = (args.input or "-",) if args.source is None else (args.source, *filter(None, [args.target]))
    return files


class TaggedText:
    """The lines of the input with their links, in order, where these are given; to be closed.

    Attributes:
        bad: the policy for lines that cannot be read, and those that became blank.
        page: the whole page that was read, if it is one.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shown = [name_shown(name) for name in options.files]
        self.name = " and ".join(self._shown)
        self.bad = BadLines(options.blank)
        self.page: Page | None = None

    def pages(self) -> Generator[tuple[int, Page], None, None]:
        """Read what is to be translated, with tags: a whole page, or lines with their numbers."""
        tags = self._options.tags
        with ExitStack() as stack:
            if self._options.page.html_file:
                self.page = read_page(self._options)
                yield 1, self.page
                return
            for number, (source, _) in enumerate(self._rows(stack), 1):
                syntax = self._options.syntax or self._options.kind
                try:
                    page = Page(source, syntax, keep=tags.keep, translated=tags.attributes, line=number)
                except ValueError as error:
                    self.bad(LineError(str(error), file=self._shown[0], line=number))
                    page = Page("", syntax)
                self.bad.take()
                yield number, page

    def __iter__(self) -> Generator[tuple[Line, Links], None, None]:
        """Read them."""
        options = self._options
        with ExitStack() as stack:
            rows = self._rows(stack)
            if options.page.links is None:
                for number, (source, target) in enumerate(rows, 1):
                    item = self._make(source, target, number)
                    self.bad.take()
                    yield item, {}
                return
            shown = name_shown(options.page.links)
            links = read_lines(stack.enter_context(open_lines(options.page.links)), shown)
            for number, ((source, target), line) in enumerate(in_step((rows, links), (self._shown[-1], shown)), 1):
                item = self._make(source, target, number)
                self.bad.take()
                pair = item.pair
                if pair.blank and self.bad.blank:
                    yield item, {}
                    continue
                if options.words != "spaces":
                    source, target = (split_words_at(side, options.words) for side in (pair.source, pair.target))
                    pair = Pair(source, target, number)
                try:
                    scores = parse_scored(line)
                except ValueError as error:
                    raise LinksError(str(error), file=shown, line=number) from None
                check_range(scores, pair, shown, number, " without the tags")
                yield (item, scores) if pair is item.pair else item.divided(pair, scores)

    def _rows(self, stack: ExitStack) -> Iterator[tuple[Any, ...]]:
        """Return the sources and targets, from files that the stack closes."""
        options, names = self._options, self._shown
        lines = [
            read_lines(stack.enter_context(open_lines(name)), shown, self.bad)
            for n, (name, shown) in enumerate(zip(options.files, names, strict=True))
            if n or not options.page.html_file
        ]
        if options.page.html_file:
            self.page = read_page(options)
            lines.insert(0, (segment.text for segment in self.page.segments))
        if options.kind in COLUMNS:
            sentences = read_labelled(lines[0], names[0], options.kind, options.tags.column)
            targets = (line for (line,) in refuse_numbers(zip(lines[1], strict=True), names[1:]))
            return pair_sentences(sentences, targets, (f"{names[0]} (sentences)", names[1]))
        if len(lines) == 2:
            names = [f"{names[0]} (blocks, as --strip writes them)", names[1]] if self.page else names
            return refuse_numbers(in_step(lines, names), names)
        if options.kind == SPANS:
            return ((line, "") for line in lines[0])
        rows = refuse_numbers(zip(lines[0], strict=True), names)
        return ((line, "") for (line,) in rows) if options.one_side else self._split(rows)

    def _split(self, rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, str]]:
        """Yield the source and the target of each line."""
        split = SideSplitter()
        for number, (line,) in enumerate(rows, 1):
            try:
                source, target = split(line)
            except ValueError as error:
                self.bad(LineError(str(error), file=self.name, line=number))
                source, target = "", ""
            yield source.strip(" \t"), target.strip(" \t")

    def _make(self, source: str | Labelled, target: str, number: int) -> Line:
        """Return a line; one without words for a line that cannot be read, if the policy allows it."""
        options, tags = self._options, self._options.tags
        if isinstance(source, Labelled):
            least = 0.0 if options.page.links else THRESHOLD
            pair = Pair(source.words, split_words(target), number)
            return LabelledLine(source, pair, options.kind, tags.column, least)
        if options.syntax is None:
            in_record = len(self._shown) == 1 and not options.one_side
            try:
                return read_annotated(source, None if in_record else target, number)
            except ValueError as error:
                raise LineError(str(error), file=self._shown[0], line=number) from None
        if self.page and not target.strip(" \t") and not tags.strip:
            self.bad(LineError("the translation of a block is blank", file=self._shown[1], line=number))
        by_model = options.page.links is None and not tags.strip
        ways = {"as_words": by_model, "split": tags.split, "repair": tags.repair}
        try:
            return read_tagged(source, target, options.syntax, number, **ways)
        except ValueError as error:
            self.bad(LineError(str(error), file=self._shown[0], line=number))
            return read_tagged("", "", options.syntax, number, **ways)

    def skip(self, number: int, why: str) -> None:
        """Note that the model could not take a line."""
        self.bad(LineError(why, file=self._shown[0], line=number))
        self.bad.take()

    def blank(self, item: Line, why: str) -> Line:
        """Return the result of a sentence that the model could not take: a blank line, or words without labels."""
        self.skip(item.pair.id, why)
        return item if self._options.syntax is None else self._make("", "", item.pair.id)


def read_page(options: Options) -> Page:
    """Read a whole page."""
    name, shown = options.files[0], name_shown(options.files[0])
    with open_lines(name) as stream:
        data = stream.read()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LineError("the page is not UTF-8", file=shown, line=line, hint="convert it with iconv") from None
    try:
        return Page(text, options.syntax or options.kind, keep=options.tags.keep, translated=options.tags.attributes)
    except ValueError as error:
        raise DataError(str(error), file=shown) from None


def check_input(options: Options) -> None:
    """Check the files before a model is loaded."""
    names = [*options.files, *filter(None, [options.page.links])]
    for name in names:
        if name != "-":
            os.stat(name)
    if options.tags.strip or not are_regular(names):
        return
    text = TaggedText(options)
    if options.translates_tags:
        with closing(text.pages()) as pages:
            check_first(Pair((), (), number) for number, _ in pages)
    else:
        with closing(iter(text)) as items:
            check_first(item.pair for item, _ in items)
    if options.kind not in COLUMNS:
        check_lengths(names[bool(options.page.html_file) :])


def transfer(options: Options) -> None:
    """Put the tags of all of the input into its targets, and say on stderr what was done."""
    keep_freed_memory()
    if len(options.files) == 1 and is_document(options.files[0]):
        outputs = options.output, options.reports.report, options.reports.review
        transfer_document(PROGRAM, options.request, options.files[0], options.kind or None, outputs)
        return
    check_input(options)
    text = TaggedText(options)
    with closing(Progress(PROGRAM, options.request.run.quiet)) as progress, ExitStack() as stack:
        out = stack.enter_context(open_output(options.output))
        report, review = (
            stack.enter_context(open_output(name)) if name else None
            for name in (options.reports.report, options.reports.review)
        )
        results = Results(options, out, report, review, progress)
        if options.tags.strip:
            for item, _ in stack.enter_context(closing(iter(text))):
                results.write_plain(item.plain)
                progress.add()
        elif options.page.links is not None:
            progress.begin()
            for item, scores in stack.enter_context(closing(iter(text))):
                results.write(item, scores)
                progress.add()
        else:
            results.signature = _align(text, options, results, progress)
        if not options.tags.strip:
            results.finish(text.page)
        text.bad.warn()
    progress.write(f"{PROGRAM}: {results.summary()}")
    if results.signature:
        progress.write(results.signature)


def _align(text: TaggedText, options: Options, results: Results, progress: Progress) -> str:
    """Align or translate the input with the models, write it, and return the signature."""
    session = begin_session(options.request, load_aligner(PROGRAM, options.request), progress, options.words)
    if options.translates_tags:
        from align.transfer.standins import translate_pages

        with (
            closing(text.pages()) as pages,
            closing(translate_pages(session, pages, split=options.tags.split, file=text.name)) as translations,
        ):
            for number, translation in translations:
                results.write_page(text, number, translation)
        return session.signature()

    def pairs_of(item: Line) -> list[Pair]:
        return [replace(item.pair, origin=Origin(text.name, item.pair.id))]

    with closing(iter(text)) as items, closing(session.results((item for item, _ in items), pairs_of)) as aligned:
        for item, (alignment,) in aligned:
            if alignment.skipped:
                results.write(text.blank(item, alignment.skipped), {})
            elif options.words != "spaces" or options.request.search:
                results.write(*item.divided(alignment.pair, alignment.scores))
            else:
                results.write(item, alignment.scores)
    return session.signature()


class Results:
    """Writes targets with their tags."""

    def __init__(
        self, options: Options, out: BinaryIO, report: BinaryIO | None, review: BinaryIO | None, progress: Progress
    ) -> None:
        self._options, self._out, self._report, self._progress = options, out, report, progress
        self._review = review
        self._lines = 0
        self._counts: Counter[str] = Counter()
        self._texts: list[str] | None = [] if options.page.html_file else None
        self.signature = ""

    def finish(self, page: Page | None) -> None:
        """Write the page that the targets belong to, if they are blocks of one."""
        if page is not None and self._texts is not None and self._options.request.search is None:
            self._out.write(page.fill(self._texts).encode())

    def write_plain(self, text: str) -> None:
        """Write a source without its tags."""
        self._out.write(f"{text}\n".encode())
        self._lines += 1

    def write(self, item: Line, scores: Links) -> None:
        """Write a target with the tags of its source."""
        placed = item.place(scores)
        if self._texts is None:
            self._out.write(f"{placed.text}\n".encode())
        else:
            self._texts.append(placed.text)
        self._count(item.pair.id, placed)

    def write_page(self, text: TaggedText, line: int, translation: TranslatedPage) -> None:
        """Write a translated line, or a whole page."""
        if translation.skipped:
            text.skip(line, translation.skipped)
        segments, content = translation.page.segments, "" if translation.skipped else translation.text
        self._counts[LIKE] += sum(count_lookalikes(segment.tokens) for segment in segments)
        if text.page is None:
            self._out.write(f"{content}\n".encode())
            report = [placement for placements in translation.report for placement in placements]
            self._count(line, Placed(content, report, " ".join(segment.text for segment in segments)))
            return
        self._out.write(content.encode())
        done = zip(translation.texts, translation.report, segments, strict=not translation.skipped)
        for number, (target, placements, segment) in enumerate(done, 1):
            self._count(number, Placed(target, placements, segment.text))
        self._progress.add(len(translation.report) - 1)

    def _count(self, number: int, placed: Placed) -> None:
        """Count the tags of a line, write their positions to the report, and the line to the list of doubtful ones."""
        rows = [placement.to_dict() for placement in placed.report]
        failed = REMARKS["unrepaired"] if placed.lists.get("unrepaired") else None
        doubts = [{"confidence": PART, "remarks": [REPEATED]}] if placed.unsure else []
        sides = placed.source, placed.text
        if self._review and (line := review_line(number, [*rows, *doubts], sides, failed)):
            self._review.write(line.encode())
        if self._report:
            more = {name: [*texts] for name, texts in placed.lists.items() if texts}
            self._report.write(f"{to_json({'id': number, 'tags': rows} | more)}\n".encode())
        for name, texts in placed.lists.items():
            self._counts[REMARKS[name]] += len(texts)
        self._counts[LIKE] += count_lookalikes(placed.tokens)
        self._counts["tag"] += len(rows)
        self._counts.update(remark for row in rows for remark in row["remarks"])
        self._lines += 1
        if self._lines % self._options.request.run.buffer == 0:
            self._out.flush()

    def summary(self) -> str:
        """How many lines and tags there were, and what was odd about how many of them."""
        remarks = sorted((remark, count) for remark, count in self._counts.items() if count and remark != "tag")
        odd = "".join(f", {count:,} {remark}" for remark, count in remarks)
        tags = "" if self._options.tags.strip else f", {plural(self._counts['tag'], 'tag')}{odd}"
        return f"{plural(self._lines, 'line')}{tags}, {self._progress.rate:,.0f} lines/s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align transfer`."""
    options = read_options(build_parser(), arguments)
    return run(PROGRAM, lambda: transfer(options), BATCH_ADVICE)
