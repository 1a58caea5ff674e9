"""`extract-align transfer`: put tags and labels of source sentences into their translations, line by line."""

from __future__ import annotations

import argparse
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    ModelArgs,
    OutputArgs,
    RunArgs,
    TextArgs,
    TranslateArgs,
    check_files,
    check_second_output,
    check_words,
    model_help,
)
from align.cli.common import Progress, open_output, run, show_warnings
from align.cli.documents import transfer_document
from align.cli.loading import Request, begin_session, load_aligner, read_request
from align.cli.options import add_group, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.errors import DataError, LineError, LinksError, plural
from align.core.formats import to_json
from align.core.text import split_words
from align.core.types import FLOOR, THRESHOLD, Alignment, Origin, Pair, TextWarning
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
    NONE,
    Labelled,
    format_labelled,
    has_spans,
    pair_sentences,
    read_column,
    read_labelled,
)
from align.transfer.documents import is_document
from align.transfer.inline import Inline
from align.transfer.labels import Span, best_sources, project_labels, read_bio, write_bio
from align.transfer.markup import PART, REPEATED, UNLINKED, Placement, place_markup, review_line
from align.transfer.pages import KEEP, Page
from align.transfer.repair import Repaired, missing_tags, read_repaired, repair_target
from align.transfer.spans import SPANS, TARGET, Annotated, read_annotated, split_text, write_annotated
from align.transfer.tags import KINDS, Markup, Syntax, count_lookalikes, find_words, read_markup, readable, words_in
from align.transfer.windows import Scores, Window

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

EMPTY: Mapping[str, Sequence[str]] = {}

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
        words: what is a word, one of `align.core.types.CUTS`.
        output: file to write; None for stdout.
        blank: whether a line that cannot be read is left blank.
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
        """Whether there is no target to read."""
        return self.tags.strip or self.request.search is not None


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
    check_files(parser, (*files, args.links), args.output)
    for dest in ("report", "review"):
        if (name := getattr(args, dest)) is not None:
            check_second_output(parser, (*files, args.links), name, args.output, f"--{dest}")
    if args.report and args.review and os.path.realpath(args.report) == os.path.realpath(args.review):
        parser.error("--report and --review need two files")
    return files


class Tagged(NamedTuple):
    """A pair and its tags.

    Attributes:
        pair: the words of both sides, as a model is to read them.
        scores: of its links, where they are given.
        repaired: what was removed from the target, or rewritten in it.
        words: start and end of the words of both sides; None for those between spaces.
    """

    pair: Pair
    source: Markup | Inline | Labelled | Annotated | Page
    target: str
    scores: Mapping[tuple[int, int], float]
    repaired: Repaired = Repaired("")
    words: tuple[Sequence[Window], Sequence[Window]] | None = None

    def divided(self, pair: Pair, scores: Mapping[tuple[int, int], float]) -> Tagged:
        """Return the same line in other words, those of a pair, with their scores; words of columns stay."""
        if isinstance(self.source, Inline):
            self.source.use_words(pair.source, pair.target)
            return self._replace(pair=pair, scores=scores)
        escaped = isinstance(self.source, Markup) and self.source.escaped
        targets = find_words(pair.target, self.target, escaped)
        if isinstance(self.source, Labelled):
            line = " ".join(self.source.words)
            starts = [start for start, _ in words_in(line)]
            numbers = [bisect_right(starts, start) - 1 for start, _ in find_words(pair.source, line, False)]
            joined: dict[tuple[int, int], float] = {}
            for (i, j), score in scores.items():
                joined[numbers[i], j] = max(score, joined.get((numbers[i], j), 0.0))
            pair, scores = replace(pair, source=self.source.words), joined
            return self._replace(pair=pair, scores=scores, words=([], targets))
        plain = self.source.plain if isinstance(self.source, Markup | Annotated) else ""
        sources = find_words(pair.source, plain, escaped)
        source = self.source.with_words(sources) if isinstance(self.source, Markup) else self.source
        return self._replace(pair=pair, source=source, scores=scores, words=(sources, targets))


class TaggedText:
    """The pairs of the input, in order; to be closed.

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

    def __iter__(self) -> Generator[Tagged, None, None]:
        """Read them."""
        options = self._options
        with ExitStack() as stack:
            lines = [
                read_lines(stack.enter_context(open_lines(name)), shown, self.bad)
                for n, (name, shown) in enumerate(zip(options.files, self._shown, strict=True))
                if n or not options.page.html_file
            ]
            if options.page.html_file:
                self.page = read_page(options)
                if options.request.search:
                    yield Tagged(Pair((), (), 1), self.page, "", {})
                    return
                lines.insert(0, (segment.text for segment in self.page.segments))
            rows = self._sides(lines)
            if options.page.links is None:
                for number, (source, target) in enumerate(rows, 1):
                    item = self._make(source, target, number)
                    self.bad.take()
                    yield item
                return
            shown = name_shown(options.page.links)
            links = read_lines(stack.enter_context(open_lines(options.page.links)), shown)
            for number, ((source, target), line) in enumerate(in_step((rows, links), (self._shown[-1], shown)), 1):
                item = self._make(source, target, number)
                self.bad.take()
                if item.pair.blank and self.bad.blank:
                    yield item
                    continue
                pair = item.pair
                if options.words != "spaces":
                    source, target = (split_words_at(side, options.words) for side in (pair.source, pair.target))
                    pair = Pair(source, target, number)
                scores = _read_scores(line, pair, shown, number)
                yield item._replace(scores=scores) if pair is item.pair else item.divided(pair, scores)

    def _sides(self, lines: Sequence[Iterator[str]]) -> Iterator[tuple[Any, ...]]:
        if self._options.kind in COLUMNS:
            sentences = read_labelled(lines[0], self._shown[0], self._options.kind, self._options.tags.column)
            targets = (line for (line,) in refuse_numbers(zip(lines[1], strict=True), self._shown[1:]))
            return pair_sentences(sentences, targets, (f"{self._shown[0]} (sentences)", self._shown[1]))
        if len(lines) == 2:
            names = [f"{self._shown[0]} (blocks, as --strip writes them)", self._shown[1]] if self.page else self._shown
            return refuse_numbers(in_step(lines, names), names)
        if self._options.kind == SPANS:
            return ((line, "") for line in lines[0])
        if self._options.one_side:
            return ((line, "") for (line,) in refuse_numbers(zip(lines[0], strict=True), self._shown))
        split = SideSplitter()
        rows = refuse_numbers(zip(lines[0], strict=True), self._shown)
        return (self._split(line, number, split) for number, (line,) in enumerate(rows, 1))

    def _split(self, line: str, number: int, split: SideSplitter) -> tuple[str, str]:
        try:
            source, target = split(line)
        except ValueError as error:
            self.bad(LineError(str(error), file=self.name, line=number))
            return "", ""
        return source.strip(" \t"), target.strip(" \t")

    def _make(self, source: str | Labelled, target: str, number: int) -> Tagged:
        """Return a pair with its tags; without words for a line that cannot be read, if the policy allows it."""
        if isinstance(source, Labelled):
            return Tagged(Pair(source.words, split_words(target), number), source, target, {})
        syntax = self._options.syntax
        if syntax is None:
            return self._annotated(source, target, number)
        if self._options.request.search:
            return Tagged(Pair((), (), number), self._page(source, syntax, number), "", {})
        if self.page and not target.strip(" \t") and not self._options.tags.strip:
            self.bad(LineError("the translation of a block is blank", file=self._shown[1], line=number))
        try:
            if self._options.tags.repair:
                return self._repair(source, target, syntax, number)
            by_model = self._options.page.links is None and not self._options.tags.strip
            markup = read_markup(source, syntax, target, as_words=by_model)
        except ValueError as error:
            self.bad(LineError(str(error), file=self._shown[0], line=number))
            markup, target = read_markup("", syntax), ""
        return _tagged(markup, target, number)

    def _repair(self, source: str, target: str, syntax: Syntax, number: int) -> Tagged:
        """Return a pair whose target has no other tags than its source.

        Raises:
            ValueError: its tags cannot be read.
        """
        repaired = repair_target(source, target, syntax)
        markup = read_repaired(source, repaired.text, syntax)
        if isinstance(markup, Inline):
            pair = Pair(markup.source_words, markup.target_words, number)
            return Tagged(pair, markup, repaired.text, {}, repaired)
        return _tagged(markup, repaired.text, number)._replace(repaired=repaired)

    def _page(self, line: str, syntax: Syntax, number: int) -> Page:
        """Return a line to translate, cut into segments."""
        options = self._options
        try:
            return Page(line, syntax, keep=options.tags.keep, translated=options.tags.attributes, line=number)
        except ValueError as error:
            self.bad(LineError(str(error), file=self._shown[0], line=number))
            return Page("", syntax)

    def _annotated(self, line: str, target: str, number: int) -> Tagged:
        """Return a pair with labels of character ranges."""
        try:
            source = read_annotated(line)
            if len(self._shown) == 1 and not self._options.one_side:
                if source.target is None:
                    raise ValueError(f'no "{TARGET}" with the text')
                target = source.target
        except ValueError as error:
            raise LineError(str(error), file=self._shown[0], line=number) from None
        return Tagged(Pair(source.words, split_text(target), number), source, target, {})

    def blank(self, item: Tagged, why: str) -> Tagged:
        """Return the result of a sentence that the model could not take: a blank line, or words without labels."""
        self.bad(LineError(why, file=self._shown[0], line=item.pair.id))
        self.bad.take()
        return self._make("", "", item.pair.id) if isinstance(item.source, Markup | Inline | Page) else item


def _tagged(markup: Markup, target: str, number: int) -> Tagged:
    """Return a pair of the words that a model reads."""
    pair = Pair(markup.readable(), readable(split_words(target), markup.escaped), number)
    return Tagged(pair, markup, target, {})


def read_page(options: Options) -> Page:
    """Read a whole page.

    Raises:
        LineError: the page is not UTF-8; names the line.
        DataError: it cannot be parsed.
    """
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


def _read_scores(line: str, pair: Pair, name: str, number: int) -> dict[tuple[int, int], float]:
    """Read the links of a pair with their scores."""
    try:
        scores = parse_scored(line)
    except ValueError as error:
        raise LinksError(str(error), file=name, line=number) from None
    check_range(scores, pair, name, number, " without the tags")
    return scores


def check_input(options: Options) -> None:
    """Check the files before a model is loaded."""
    names = [*options.files, *filter(None, [options.page.links])]
    for name in names:
        if name != "-":
            os.stat(name)
    if options.tags.strip or not are_regular(names):
        return
    with closing(iter(TaggedText(options))) as items:
        check_first(item.pair for item in items)
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
        items = stack.enter_context(closing(iter(text)))
        results = Results(options, out, report, review, progress)
        if options.tags.strip:
            for item in items:
                results.write_plain(item.source.plain)  # type: ignore[union-attr]
                progress.add()
        elif options.page.links is not None:
            progress.begin(0, 1, lambda: None, "working …")
            for item in items:
                results.write(item, item.scores)
                progress.add()
        else:
            results.signature = _align(text, items, options, results, progress)
        if not options.tags.strip:
            results.finish(text.page)
        text.bad.warn()
    progress.write(f"{PROGRAM}: {results.summary()}")
    if results.signature:
        progress.write(results.signature)


def _align(text: TaggedText, items: Iterator[Tagged], options: Options, results: Results, progress: Progress) -> str:
    """Align or translate the input with the models, write it, and return the signature."""
    session = begin_session(options.request, load_aligner(PROGRAM, options.request), progress, options.words)
    if options.request.search and options.kind in KINDS:
        from align.transfer.standins import translate_pages

        pages = ((item, item.source) for item in items if isinstance(item.source, Page))
        with closing(translate_pages(session, pages, split=options.tags.split, file=text.name)) as translations:
            for item, translation in translations:
                results.write_page(text, item, translation)
        return session.signature()

    def pairs_of(item: Tagged) -> list[Pair]:
        return [replace(item.pair, origin=Origin(text.name, item.pair.id))]

    with closing(session.results(items, pairs_of)) as aligned:
        for item, (alignment,) in aligned:
            if alignment.skipped:
                results.write(text.blank(item, alignment.skipped), {})
                continue
            if options.words != "spaces":
                item = item.divided(alignment.pair, alignment.scores)
                results.write(item, item.scores)
                continue
            results.write(_translated(item, alignment) if options.request.search else item, alignment.scores)
    return session.signature()


def _translated(item: Tagged, alignment: Alignment) -> Tagged:
    """A sentence with its translation for a target, written as text between tags is."""
    text = " ".join(alignment.pair.target)
    escaped = isinstance(item.source, Markup) and item.source.escaped
    return item._replace(pair=alignment.pair, target=escape(text, quote=False) if escaped else text)


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

    def write(self, item: Tagged, scores: Mapping[tuple[int, int], float]) -> None:
        """Write a target with the tags of its source."""
        if isinstance(item.source, Markup | Inline):
            text, placements = self._place(item, item.source, scores)
            rows = [placement.to_dict() for placement in placements]
            self._counts[LIKE] += count_lookalikes(item.source.tokens)
            source = "".join(token.text for token in item.source.tokens)
            lists = item.repaired.lists() if self._options.tags.repair else {"extra": item.source.extra}
            if self._options.tags.repair and (missing := missing_tags(source, text, item.source.syntax)):
                text, rows = item.target, []
                lists["unrepaired"] = (*lists["unrepaired"], *missing)
        else:
            assert not isinstance(item.source, Page)
            text, rows = _labels(item, item.source, scores, self._options)
            source, lists = " ".join(item.pair.source), {}
        if self._texts is None:
            self._out.write(f"{text}\n".encode())
        else:
            self._texts.append(text)
        self._count(item.pair.id, rows, (source, text), lists, unsure=bool(item.repaired.unsure))

    def _place(
        self, item: Tagged, source: Markup | Inline, scores: Mapping[tuple[int, int], float]
    ) -> tuple[str, Sequence[Placement]]:
        """Return a target with the tags of its source, and where each is."""
        if isinstance(source, Inline):
            return source.place(scores)
        words = item.words[1] if item.words else None
        return place_markup(source, item.target, scores, words=words, split=self._options.tags.split)

    def write_page(self, text: TaggedText, item: Tagged, translation: TranslatedPage) -> None:
        """Write a translated line, or a whole page."""
        if translation.skipped:
            item = text.blank(item, translation.skipped)
        whole = text.page is not None
        content = translation.text if not translation.skipped else ""
        self._out.write(f"{content}{'' if whole else chr(10)}".encode())
        self._counts[LIKE] += sum(count_lookalikes(segment.tokens) for segment in translation.page.segments)
        rows = [[placement.to_dict() for placement in placements] for placements in translation.report]
        texts = [
            (segment.text, text)
            for segment, text in zip(translation.page.segments, translation.texts, strict=bool(translation.texts))
        ]
        if not whole:
            rows = [[tag for row in rows for tag in row]]
            texts = [(" ".join(segment.text for segment in translation.page.segments), content)]
        for number, (tags, pair) in enumerate(zip(rows, texts, strict=True), 1 if whole else item.pair.id):
            self._count(number, tags, pair)
        self._progress.add(len(rows) - 1)  # a page has many

    def _count(
        self,
        number: int,
        rows: Sequence[dict[str, Any]],
        sides: tuple[str, str],
        lists: Mapping[str, Sequence[str]] = EMPTY,
        *,
        unsure: bool = False,
    ) -> None:
        """Count the tags of a line, write their positions to the report, and the line to the list of doubtful ones."""
        failed = REMARKS["unrepaired"] if lists.get("unrepaired") else None
        doubts = [{"confidence": PART, "remarks": [REPEATED]}] if unsure else []
        if self._review and (line := review_line(number, [*rows, *doubts], sides, failed)):
            self._review.write(line.encode())
        if self._report:
            more = {name: [*texts] for name, texts in lists.items() if texts}
            self._report.write(f"{to_json({'id': number, 'tags': rows} | more)}\n".encode())
        for name, texts in lists.items():
            self._counts[REMARKS[name]] += len(texts)
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


def _labels(
    item: Tagged, source: Labelled | Annotated, scores: Mapping[tuple[int, int], float], options: Options
) -> tuple[str, list[dict[str, Any]]]:
    """The target with the labels of the source, as that has them; and where each span is."""
    words = item.pair.target
    if isinstance(source, Labelled) and not has_spans(options.kind, options.tags.column):
        return _labels_of_words(item, source, scores, options)
    sources, targets = item.words or (None, None)
    spans = read_bio(source.labels) if isinstance(source, Labelled) else source.spans(sources)
    found = project_labels(spans, scores, len(item.pair.source), len(words))
    rows = [
        Placement(
            one.label,
            one.source,
            (one.target,) if one.target else (),
            one.confidence,
            () if one.target else (UNLINKED,),
        ).to_dict()
        for one in found
    ]
    if isinstance(source, Annotated):
        return write_annotated(source, item.target, found, targets), rows
    labels = write_bio([Span(one.label, one.target) for one in found if one.target], len(words))
    return format_labelled(
        Labelled(words, tuple(labels), source.comments), options.kind, options.tags.column
    ).removesuffix("\n"), rows


def _labels_of_words(
    item: Tagged, source: Labelled, scores: Mapping[tuple[int, int], float], options: Options
) -> tuple[str, list[dict[str, Any]]]:
    """The target with a label for each word, that of its best source word; and where each label is."""
    words, sizes = item.pair.target, (len(source.words), len(item.pair.target))
    best = best_sources(scores, *sizes, least=0.0 if options.page.links else THRESHOLD)
    targets: dict[int, list[tuple[int, int]]] = {}
    for j, i in enumerate(best):
        if i is not None:
            targets.setdefault(i, []).append((j, j + 1))
    table = Scores(scores, *sizes)
    rows = [
        Placement(
            label,
            (i, i + 1),
            tuple(targets.get(i, ())),
            table.confidence((i, i + 1), targets.get(i, ())),
            () if i in targets else (UNLINKED,),
        ).to_dict()
        for i, label in enumerate(source.labels)
        if label != NONE
    ]
    labels = tuple(NONE if i is None else source.labels[i] for i in best)
    return format_labelled(Labelled(words, labels, source.comments), options.kind, options.tags.column).removesuffix(
        "\n"
    ), rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align transfer`."""
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: transfer(options), BATCH_ADVICE)
