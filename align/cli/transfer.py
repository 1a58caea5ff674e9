"""`extract-align transfer`: put tags and labels of source sentences into their translations, line by line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    EnsembleArgs,
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
from align.cli.loading import begin_session, load_aligner, read_request
from align.cli.options import add_group, new_parser, read_group
from align.cli.parser import Parser
from align.cli.tagged_text import Line, Results, TaggedText
from align.cli.transfer_args import LABELS, Options, TransferArgs
from align.core.types import FLOOR, Origin, Pair
from align.io.checks import are_regular, check_first, check_lengths
from align.io.process import keep_freed_memory
from align.io.session import Session
from align.transfer.columns import COLUMNS
from align.transfer.documents import is_document
from align.transfer.tags import KINDS, Syntax

PROGRAM = "extract-align transfer"

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

_INPUTS, _REPORTS = ("html_file", "links"), ("report", "review")
"""Options in groups of their own."""


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
    add_group(parser, EnsembleArgs)
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
    if is_document(args.input or ""):
        _check_document(parser, tags, args.words)
    elif tags.tags is None:
        parser.error("the following arguments are required: --tags")
    if tags.repair and (one_side or tags.split or tags.links or tags.tags in LABELS):
        parser.error("--repair cannot be combined with --translate, --strip, --split, --links or labels")
    if tags.strip and args.words != "spaces":
        parser.error("--words requires a target on each line")
    if tags.links and args.translate:
        parser.error("--links are those of given translations: leave out --translate")
    if tags.links and args.words == "pieces":
        parser.error("--words pieces needs a model: leave out --links")
    if tags.html_file and (args.source or not (tags.tags or "").startswith("html")):
        option = "-s" if args.source else "--tags"
        parser.error(f"--html-file reads the source, with HTML tags: leave out {option}")
    if one_side and args.target is not None:
        parser.error(f"{one_side} reads the source alone: leave out -t/--target")
    if tags.html_file and not (one_side or args.target):
        parser.error("--html-file requires --translate, --strip, or a block's translation on each line of -t")
    if not (one_side or tags.html_file):
        parser.require_both(args, "-s/--source", "-t/--target")
    source = tags.html_file or args.source
    if source and args.input is not None:
        parser.error("give either FILE or -s and -t, not both")
    if tags.tags in COLUMNS and (one_side or not args.source):
        parser.error(f"--tags {tags.tags} requires -s with columns and -t with lines")
    if tags.strip:
        tags = replace(tags, links=None)
    files = (source, args.target) if args.target is not None else (source or args.input or "-",)
    request = read_request(parser, args, args.bad_lines)
    request = replace(request, method=replace(request.method, threshold=FLOOR, scorer="none"))  # all soft scores
    syntax = Syntax.of(tags.tags, tags.placeholder) if tags.tags in KINDS else None
    return Options(request, tags, files, syntax, args.words, args.output, args.bad_lines == "blank")


def _check_document(parser: Parser, tags: TransferArgs, words: str) -> None:
    """Refuse options of lines for a document, with exit code 2."""
    for name in ("links", "strip", "repair", "split", "placeholder", "keep", "attributes"):
        if getattr(tags, name):
            parser.error(f"--{name} requires lines, not a document")
    if words != "spaces":
        parser.error("--words requires a target on each line")
    if tags.tags in LABELS:
        parser.error(f"--tags {tags.tags} reads lines, not a document")


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align transfer`."""
    options = read_options(build_parser(), arguments)
    return run(PROGRAM, lambda: transfer(options), BATCH_ADVICE)
