"""`extract-align transfer`: put tags and labels of source sentences into their translations, line by line."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

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
from align.cli.documents import Reports, transfer_document
from align.cli.loading import Request, begin_session, load_aligner, read_request
from align.cli.options import add_group, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.errors import DataError, LineError, LinksError, plural
from align.core.text import LinePair, split_words
from align.core.types import FLOOR, THRESHOLD, Origin, Pair
from align.evaluation.ensemble import check_range
from align.evaluation.link_formats import parse_scored
from align.io.checks import are_regular, check_first, check_lengths
from align.io.process import keep_freed_memory
from align.io.reader import BadLines, in_step, name_shown, open_lines, read_bitext, read_lines, refuse_numbers
from align.io.session import Session
from align.models.divide import split_words_at
from align.transfer.columns import COLUMNS, ENTITY, LabelledLine, pair_sentences, read_column, read_labelled
from align.transfer.documents import is_document
from align.transfer.lines import Line, Links, Placed, read_tagged
from align.transfer.markup import PART, REPEATED
from align.transfer.pages import KEEP, Page
from align.transfer.spans import SPANS, read_annotated
from align.transfer.tags import KINDS, Syntax, count_lookalikes

if TYPE_CHECKING:
    from align.transfer.standins import TranslatedPage

T = TypeVar("T")

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

EXAMPLES = """examples:
  extract-align transfer --tags html page.tsv > page.en   lines `source with tags ||| target`
  extract-align transfer --tags xml -s a.de.xml -t a.en --reverse-model en-de   two files, both directions
  extract-align transfer --tags xml -s a.de.xml -t a.en --links a.links   with links that are there already
  extract-align transfer --tags html --strip page.de > plain.de   lines without tags, to translate or align elsewhere
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
class TransferArgs:
    """Tags or labels, what to do with them, where the source and the links are, and lists of tags."""

    tags: str | None = option(
        choices=(*KINDS, *LABELS),
        metavar="KIND",
        short="xml, html, placeholders, bio, conll or spans",
        help="xml: well-formed; html: any HTML; placeholders: {0}, {name}, %%s, %%1$d and the like; xml,placeholders "
        "and html,placeholders: both; bio: labels B-X, I-X and O in the last column of -s, words in its first; words: "
        "any label of each word there; conll: a column of CoNLL-U; spans: JSON lines "
        '{"text": ..., "labels": [[0, 4, "PER"], ...], "target": ...}, counted in characters',
    )
    placeholder: re.Pattern[str] | None = option(
        type=_pattern,
        metavar="REGEX",
        help="further placeholders, as a Python regular expression: r'\\[id[0-9]+\\]'",
    )
    repair: bool = option(
        default=False,
        help="the target comes from a translator that loses or damages tags: remove those that the source does not "
        "have, write damaged ones as in the source, and put in the missing ones",
    )
    split: bool = option(default=False, help="repeat a tag if the target words that it belongs to are not adjacent")
    column: str = option(
        default=ENTITY,
        type=_column,
        metavar="NAME",
        help="column of CoNLL-U: NER, which is labels B-X, I-X and O of the key NER in MISC (default); or LEMMA, UPOS, "
        "XPOS, FEATS, DEPREL or MISC:KEY, which have one label for each word",
    )
    strip: bool = option(default=False, help="write the source without tags; read no target")
    keep: tuple[str, ...] = option(
        default=KEEP,
        type=_names,
        metavar="NAMES",
        help='elements that --translate copies unchanged, separated by commas; also those with translate="no" or '
        'class="notranslate", addresses, paths and placeholders of templates',
    )
    attributes: tuple[str, ...] = option(
        default=(),
        type=_names,
        metavar="NAMES",
        help="attributes whose values are text, such as alt,title,placeholder (default: none)",
    )
    html_file: str | None = option(
        metavar="FILE",
        help="read a whole page instead of -s, block by block. --strip writes a line for each block, and -t reads "
        "such lines",
    )
    links: str | None = option(
        metavar="FILE",
        short="use these links instead of a model",
        help="links of the lines without tags, as extract-align writes them: Pharaoh, or jsonl; best with "
        "--print-scores. Without it a model aligns the lines",
    )
    report: str | None = option(
        writes=True,
        metavar="FILE",
        help="write a JSON object for each line: the place of each tag, its confidence, and remarks",
    )
    review: str | None = option(
        writes=True,
        metavar="FILE",
        help="write doubtful lines as number, confidence, remarks, source and output, separated by TABs",
    )


_INPUTS, _REPORTS = ("html_file", "links"), ("report", "review")
"""Options in groups of their own."""


@dataclass(frozen=True)
class Options:
    """What `extract-align transfer` is asked for.

    Attributes:
        files: one of both sides, or of the source alone, or one of each; "-" is stdin.
        syntax: what the tags look like; None for labels.
    """

    request: Request
    tags: TransferArgs
    files: tuple[str, ...]
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
        "Put the tags or labels of source sentences into their translations, along word alignments.",
        EXAMPLES,
        ("tags", "source", "target", "links", "model", "reverse_model", "translate", "output"),
    )
    file = "lines `source with tags ||| target` (default: stdin), or a document: .xlf, .xliff, .po, .tmx"
    source = "source sentences with tags, or in columns; requires -t"
    bad = "wrong number of fields, invalid UTF-8, tags that cannot be read, too long for the model"
    translate = "lines of the input, or of -s FILE, are source sentences; write the translation of each, with its tags"
    add_group(parser, TransferArgs, "tags", without=(*_INPUTS, *_REPORTS))
    add_group(
        parser,
        TextArgs,
        without=("columns",),
        input={"nargs": "?", "default": None, "help": file},
        source={"help": source},
        bad_lines={"help": f"on malformed lines ({bad}): stop, or treat them as blank"},
    )
    add_group(parser, TransferArgs, "other input", only=_INPUTS)
    add_group(parser, OutputArgs, only=("output", "words"))
    add_group(parser, TransferArgs, "reports", only=_REPORTS)
    add_group(parser, ModelArgs, without=("template",), model={"help": model_help(ALIGNING_DEFAULT)})
    add_group(parser, TranslateArgs, without=("allow_unk",), translate={"help": translate})
    add_group(parser, RunArgs, workers={"default": None})
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read the command line; options that would give wrong results together exit with code 2."""
    args = parser.parse_command(arguments)
    if args.tags is None and args.html_file is not None:
        args.tags = "html"
    tags = read_group(TransferArgs, args)
    check_words(parser, args.words, args.translate)
    one_side = "--strip" if tags.strip else "--translate" if args.translate else ""
    has_source, has_target = args.source is not None, args.target is not None
    document = is_document(args.input or "")
    of_lines = ("links", "strip", "repair", "split", "placeholder", "keep", "attributes")
    given = [name for name in of_lines if document and getattr(tags, name) not in (None, False, (), KEEP)]
    others = args.translate or tags.strip or tags.split or tags.links or tags.tags in LABELS
    columns = tags.tags in COLUMNS and (one_side or not has_source)
    page = "--html-file reads the source, with HTML tags: leave out "
    side = "--html-file requires --translate, --strip, or a block's translation on each line of -t"
    for is_wrong, message in (
        (given, f"--{''.join(given[:1])} requires lines, not a document"),
        (args.words != "spaces" and (tags.strip or document), "--words requires a target on each line"),
        (tags.links and args.translate, "--links are those of given translations: leave out --translate"),
        (args.words == "pieces" and tags.links, "--words pieces needs a model: leave out --links"),
        (tags.repair and others, "--repair cannot be combined with --translate, --strip, --split, --links or labels"),
        (tags.html_file and has_source, f"{page}-s"),
        (tags.html_file and not (tags.tags or "").startswith("html"), f"{page}--tags"),
        (tags.html_file and not (one_side or has_target), side),
        (one_side and has_target, f"{one_side} reads the source alone: leave out -t/--target"),
        (not (one_side or tags.html_file) and has_source != has_target, "give both -s/--source and -t/--target"),
        ((has_source or tags.html_file) and args.input is not None, "give either FILE or -s and -t, not both"),
        (columns, f"--tags {tags.tags} requires -s with columns and -t with lines"),
        (not tags.tags and not document, "the following arguments are required: --tags"),
        (document and tags.tags in LABELS, f"--tags {tags.tags} reads lines, not a document"),
    ):
        if is_wrong:
            parser.error(message)
    if tags.strip:
        tags = replace(tags, links=None)
    source = tags.html_file or args.source
    files = (source, args.target) if has_target else (source or args.input or "-",)
    request = read_request(parser, args, args.bad_lines)
    request = replace(request, method=replace(request.method, threshold=FLOOR, scorer="none"))  # all soft scores
    syntax = Syntax.of(tags.tags, tags.placeholder) if tags.tags in KINDS else None
    return Options(request, tags, files, syntax, args.words, args.output, args.bad_lines == "blank")


class TaggedText:
    """The lines of the input, in order, with their links where these are given; iterators of it are to be closed.

    Attributes:
        bad: the policy for lines that cannot be read, and those that became blank.
        page: the whole page that was read, if it is one.
    """

    def __init__(self, options: Options) -> None:
        self._options, self._tags = options, options.tags
        self._shown = [name_shown(name) for name in options.files]
        self.name = " and ".join(self._shown)
        self.bad = BadLines(options.blank)
        self.page = self._read_page() if options.tags.html_file else None
        self._column = ""  # of a file in columns
        if options.tags.tags in COLUMNS:
            self._column = options.tags.column if options.tags.tags == "conll" else options.tags.tags

    def pages(self) -> Generator[tuple[int, Page], None, None]:
        """Read what is to be translated, with tags: a whole page, or lines with their numbers."""
        if self.page:
            yield 1, self.page
            return
        with ExitStack() as stack:
            yield from enumerate(self._items(stack, self._page), 1)

    def lines(self) -> Generator[tuple[Line, Links], None, None]:
        """Read lines with their links, which are empty if a model is to align."""
        links, words = self._tags.links, self._options.words
        with ExitStack() as stack:
            items = self._items(stack, self._line)
            if links is None:
                yield from ((item, {}) for item in items)
                return
            shown = name_shown(links)
            lines = read_lines(stack.enter_context(open_lines(links)), shown)
            for item, line in in_step((items, lines), (self._shown[-1], shown)):
                pair = item.pair
                if pair.blank and self.bad.blank:
                    yield item, {}
                    continue
                if words != "spaces":
                    source, target = (split_words_at(side, words) for side in (pair.source, pair.target))
                    pair = replace(pair, source=source, target=target)
                try:
                    scores = parse_scored(line)
                except ValueError as error:
                    raise LinksError(str(error), file=shown, line=pair.id) from None
                check_range(scores, pair, shown, pair.id, " without the tags")
                yield (item, scores) if pair is item.pair else item.divided(pair, scores)

    def skip(self, number: int, why: str) -> None:
        """Note that a line cannot be read, or is too long for the model."""
        self.bad(LineError(why, file=self._shown[0], line=number))
        self.bad.take()

    def without_links(self, item: Line, why: str) -> Line:
        """Return the result of a line that the model could not take: a blank line, or words without labels."""
        self.skip(item.pair.id, why)
        return item if self._options.syntax is None else self._line("", "", item.pair.id)

    def _items(self, stack: ExitStack, make: Callable[[Any, Any, int], T]) -> Iterator[T]:
        """Make an item of each line of the input; of a blank one in the place of one that cannot be read."""
        for number, (source, target) in enumerate(self._rows(stack), 1):
            if self.page and not (self._tags.strip or target.strip(" \t")):
                self.bad(LineError("the translation of a block is blank", file=self._shown[1], line=number))
            try:
                item = make(source, target, number)
            except ValueError as error:
                bad = LineError(str(error), file=self._shown[0], line=number)
                if self._options.syntax is None:
                    raise bad from None
                self.bad(bad)
                item = make("", "", number)
            self.bad.take()
            yield item

    def _rows(self, stack: ExitStack) -> Iterator[tuple[Any, ...]]:
        """Return the sources and targets, from files that the stack closes."""
        files = list(zip(self._options.files, self._shown, strict=True))[bool(self.page) :]
        lines = [read_lines(stack.enter_context(open_lines(name)), shown, self.bad) for name, shown in files]
        names = self._shown
        if self.page:
            lines.insert(0, (segment.text for segment in self.page.segments))
            names = [f"{names[0]} (blocks, as --strip writes them)", *names[1:]]
        if self._column:
            sentences = read_labelled(lines[0], names[0], self._column)
            targets = (line for (line,) in refuse_numbers(zip(lines[1], strict=True), names[1:]))
            return pair_sentences(sentences, targets, (f"{names[0]} (sentences)", names[1]))
        if len(lines) == 2:
            return refuse_numbers(in_step(lines, names), names)
        if self._options.syntax is None:
            return ((line, None) for line in lines[0])
        if self._options.one_side:
            return ((line, "") for (line,) in refuse_numbers(zip(lines[0], strict=True), names))
        rows = read_bitext(lines[0], self.name, on_bad=self.bad, make=LinePair.of)
        sides = map(attrgetter("source_line", "target_line"), rows)
        return ((source.strip(" \t"), target.strip(" \t")) for source, target in sides)

    def _line(self, source: Any, target: Any, number: int) -> Line:
        """Return a line; a ValueError says why its tags or labels cannot be read."""
        tags, syntax = self._tags, self._options.syntax
        if self._column:
            pair = Pair(source.words, split_words(target), number)
            return LabelledLine(source, pair, self._column, 0.0 if tags.links else THRESHOLD)
        if syntax is None:
            return read_annotated(source, "" if self._options.one_side else target, number)
        as_words = tags.links is None and not tags.strip  # a model reads them
        how = {"split": tags.split, "repair": tags.repair}
        return read_tagged(source, target, syntax, number, as_words=as_words, **how)

    def _page(self, text: str, _: object = None, line: int = 1) -> Page:
        """Return a text with tags, in segments."""
        syntax = self._options.syntax or "html"
        return Page(text, syntax, keep=self._tags.keep, translated=self._tags.attributes, line=line)

    def _read_page(self) -> Page:
        """Read a whole page."""
        with open_lines(self._options.files[0]) as stream:
            data = stream.read()
        try:
            return self._page(data.decode())
        except UnicodeDecodeError as error:
            line, hint = data.count(b"\n", 0, error.start) + 1, "convert it with iconv"
            raise LineError("the page is not UTF-8", file=self._shown[0], line=line, hint=hint) from None
        except ValueError as error:
            raise DataError(str(error), file=self._shown[0]) from None


def check_input(options: Options) -> None:
    """Check the files before a model is loaded."""
    names = [*options.files, *filter(None, [options.tags.links])]
    for name in names:
        if name != "-":
            os.stat(name)
    if options.tags.strip or not are_regular(names):
        return
    text = TaggedText(options)
    if options.syntax and options.request.search:
        with closing(text.pages()) as pages:
            check_first(Pair((), (), number) for number, _ in pages)
    else:
        with closing(text.lines()) as lines:
            check_first(item.pair for item, _ in lines)
    if options.tags.tags not in COLUMNS:
        check_lengths(names[bool(options.tags.html_file) :])


def transfer(options: Options) -> None:
    """Put the tags of all of the input into its targets, and say on stderr what was done."""
    keep_freed_memory()
    tags, request = options.tags, options.request
    if len(options.files) == 1 and is_document(options.files[0]):
        outputs = options.output, tags.report, tags.review
        transfer_document(PROGRAM, request, options.files[0], tags.tags, outputs)
        return
    check_input(options)
    text = TaggedText(options)
    with closing(Progress(PROGRAM, request.run.quiet)) as progress, ExitStack() as stack:
        out = stack.enter_context(open_output(options.output))
        results = Results(options, out, Reports(stack, tags.report, tags.review), progress)
        signature = ""
        if tags.strip or tags.links is not None:
            progress.begin()
            for item, scores in stack.enter_context(closing(text.lines())):
                results.write(item, scores)
                progress.add()
        else:
            session = begin_session(request, load_aligner(PROGRAM, request), progress, options.words)
            translate = options.syntax is not None and request.search is not None
            (_translate if translate else _align)(text, options, session, results)
            signature = session.signature()
        if text.page and not options.one_side:
            out.write(text.page.fill(results.texts).encode())
        text.bad.warn()
    progress.write(f"{PROGRAM}: {results.summary()}")
    if signature:
        progress.write(signature)


def _translate(text: TaggedText, options: Options, session: Session, results: Results) -> None:
    """Translate the input, which has tags, and write it."""
    from align.transfer.standins import translate_pages

    split = options.tags.split
    with (
        closing(text.pages()) as pages,
        closing(translate_pages(session, pages, split=split, file=text.name)) as translations,
    ):
        for number, translation in translations:
            results.write_page(text, number, translation)


def _align(text: TaggedText, options: Options, session: Session, results: Results) -> None:
    """Align the input, and write it with the tags or labels of the sources."""

    def pairs_of(item: Line) -> list[Pair]:
        return [replace(item.pair, origin=Origin(text.name, item.pair.id))]

    with closing(text.lines()) as lines, closing(session.results((item for item, _ in lines), pairs_of)) as aligned:
        for item, (alignment,) in aligned:
            if alignment.skipped:
                results.write(text.without_links(item, alignment.skipped), {})
            elif options.words != "spaces" or options.request.search:
                results.write(*item.divided(alignment.pair, alignment.scores))
            else:
                results.write(item, alignment.scores)


class Results:
    """Writes targets with their tags, and counts what is odd.

    Attributes:
        count: lines so far.
        texts: the targets of a page's blocks, which are written together.
    """

    def __init__(self, options: Options, out: BinaryIO, reports: Reports, progress: Progress) -> None:
        self._options, self._out, self._reports, self._progress = options, out, reports, progress
        self._counts: Counter[str] = Counter()
        self.count = 0
        self.texts: list[str] = []

    def write(self, item: Line, scores: Links) -> None:
        """Write a target with the tags of its source, or the source without its tags."""
        if self._options.tags.strip:
            self._out.write(f"{item.plain}\n".encode())
            self.count += 1
            return
        placed = item.place(scores)
        if self._options.tags.html_file:
            self.texts.append(placed.text)
        else:
            self._out.write(f"{placed.text}\n".encode())
        self._add(item.pair.id, placed)

    def write_page(self, text: TaggedText, line: int, translation: TranslatedPage) -> None:
        """Write a translated line, or a whole page."""
        if translation.skipped:
            text.skip(line, translation.skipped)
        segments, content = translation.page.segments, "" if translation.skipped else translation.text
        self._counts[LIKE] += sum(count_lookalikes(segment.tokens) for segment in segments)
        if text.page is None:
            self._out.write(f"{content}\n".encode())
            report = [placement for placements in translation.report for placement in placements]
            self._add(line, Placed(content, report, " ".join(segment.text for segment in segments)))
            return
        self._out.write(content.encode())
        done = zip(translation.texts, translation.report, segments, strict=not translation.skipped)
        for number, (target, placements, segment) in enumerate(done, 1):
            self._add(number, Placed(target, placements, segment.text))
        self._progress.add(len(translation.report) - 1)

    def _add(self, number: int, placed: Placed) -> None:
        """Count the tags of a line, and list them."""
        rows = [placement.to_dict() for placement in placed.report]
        lists = {name: [*texts] for name, texts in placed.lists.items() if texts}
        self._reports.add(
            {"id": number, "tags": rows} | lists,
            (placed.source, placed.text),
            failed=REMARKS["unrepaired"] if "unrepaired" in lists else None,
            doubts=[{"confidence": PART, "remarks": [REPEATED]}] if placed.unsure else [],
        )
        self._counts.update({REMARKS[name]: len(texts) for name, texts in lists.items()})
        self._counts[LIKE] += count_lookalikes(placed.tokens)
        self._counts["tag"] += len(rows)
        self._counts.update(remark for row in rows for remark in row["remarks"])
        self.count += 1
        if self.count % self._options.request.run.buffer == 0:
            self._out.flush()

    def summary(self) -> str:
        """Return the numbers of lines and tags, and of anything unusual."""
        remarks = sorted((remark, count) for remark, count in self._counts.items() if count and remark != "tag")
        odd = "".join(f", {count:,} {remark}" for remark, count in remarks)
        tags = "" if self._options.tags.strip else f", {plural(self._counts['tag'], 'tag')}{odd}"
        return f"{plural(self.count, 'line')}{tags}, {self._progress.rate:,.0f} lines/s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align transfer`."""
    options = read_options(build_parser(), arguments)
    return run(PROGRAM, lambda: transfer(options), BATCH_ADVICE)
