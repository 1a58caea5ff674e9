"""`extract-align transfer`: put tags and labels of source sentences into their translations, line by line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    EnsembleArgs,
    ModelArgs,
    OutputArgs,
    RunArgs,
    TextArgs,
    TranslateArgs,
    check_beside,
    model_help,
)
from align.cli.common import Progress, open_output, run
from align.cli.documents import Reports, list_faults, transfer_document
from align.cli.loading import begin_session, load_aligner, read_request
from align.cli.options import add_group, new_parser, read_group
from align.cli.parser import Parser
from align.cli.tagged_text import Line, Results, TaggedText
from align.cli.transfer_args import LABELS, Options, TransferArgs
from align.core.types import FLOOR, Origin, Pair
from align.io.checks import are_regular, check_first, check_lengths
from align.io.output import KEPT, beside
from align.io.process import keep_freed_memory
from align.io.reader import name_shown
from align.io.session import Session
from align.transfer.columns import COLUMNS
from align.transfer.documents import is_document, refuse_unread
from align.transfer.spans import SPANS
from align.transfer.tags import KINDS, Syntax

PROGRAM = "extract-align transfer"

EXAMPLES = """examples:
  extract-align transfer --tags html page.tsv > page.en   lines `source with tags ||| target`
  extract-align transfer --tags xml -s a.de.xml -t a.en --reverse-model en-de   two files, both directions
  extract-align transfer --tags xml -s a.de.xml -t a.en --links a.links   with links that are there already
  extract-align transfer --tags html --strip page.de > plain.de   lines without tags, to translate or align elsewhere
  extract-align transfer --tags html --translate page.de   translate lines with tags, and put the tags in
  extract-align transfer page.html --translate > page.en.html   translate a whole page
  extract-align transfer page.xlf -o page.en.xlf   place the inline elements that its targets lack; also .po, .tmx
  extract-align transfer --tags bio -s ner.de.bio -t ner.en   labels in columns, on to the words of a translation
  extract-align transfer --tags conll --column UPOS -s a.conllu -t a.en   parts of speech, or another column
  extract-align transfer --tags spans -s ner.jsonl -t ner.en   labels of characters, as annotation tools write them
"""


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM,
        "Put the tags or labels of source sentences into their translations, along word alignments.",
        EXAMPLES,
        ("tags", "source", "target", "links", "model", "reverse_model", "translate", "output"),
    )
    file = "lines `source with tags ||| target` (default: stdin); a page: .html; or a document: .xlf, .xliff, .po, .tmx"
    given: Any = {"input": {"nargs": "?", "default": None, "help": file}}
    given["source"] = {"help": "source sentences with tags, or in columns; requires -t"}
    bad = "wrong number of fields, invalid UTF-8, tags that cannot be read, too long for the model"
    given["bad_lines"] = {"help": f"on malformed lines ({bad}): stop, treat as blank, or drop (with blank lines)"}
    translate = "lines of the input, or of -s FILE, are source sentences; write the translation of each, with its tags"
    add_group(parser, TransferArgs, "tags", without=("html_file", "links", "report", "review"))
    add_group(parser, TextArgs, without=("columns",), **given)
    add_group(parser, TransferArgs, "other input", only=("html_file", "links"))
    add_group(parser, OutputArgs, only=("output", "words"))
    add_group(parser, TransferArgs, "reports", only=("report", "review"))
    add_group(parser, ModelArgs, without=("template",), model={"help": model_help(ALIGNING_DEFAULT)})
    add_group(parser, TranslateArgs, without=("allow_unk",), translate={"help": translate})
    add_group(parser, EnsembleArgs)
    add_group(parser, RunArgs, workers={"default": None})
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read the command line; options that would give wrong results together exit with code 2."""
    args = parser.parse_command(arguments)
    document = is_document(args.input or "")
    names = [name for name in (args.source, args.target, args.html_file, args.input) if name] or ["-"]
    if not document and args.tags != SPANS and (code := run(PROGRAM, lambda: refuse_unread(names))):
        parser.exit(code)
    if args.html_file is None and (args.input or "").lower().endswith((".html", ".htm", ".xhtml")):
        args.html_file, args.input = args.input, None
    page = args.html_file
    args.tags = args.tags or ("html" if page else None)
    tags = read_group(TransferArgs, args)
    one_side = "--strip" if tags.strip else "--translate" if args.translate else ""
    source = page or args.source
    files = (source, args.target) if args.target is not None else (source or args.input or "-",)
    drop, labels, columns = args.bad_lines == "drop", tags.tags in LABELS, tags.tags in COLUMNS
    of_lines = ("links", "strip", "repair", "split", "placeholder", "keep", "attributes")
    given = [f"--{name}" for name in of_lines if getattr(tags, name)] + [f"--tags {tags.tags}"] * labels
    given += ["--words"] * (args.words != "spaces")
    writes = args.output or tags.report or tags.review or one_side or tags.repair
    wrong = {
        f"--words {args.words} cannot be combined with --translate": args.translate and args.words != "spaces",
        "the following arguments are required: --tags": not (document or tags.tags),
        f"{''.join(given[:1])} requires lines, not a document": document and given,
        "--words requires a target on each line": args.words != "spaces" and tags.strip,
        "--use-fuzzy requires a PO file": tags.use_fuzzy and not files[0].lower().endswith((".po", ".pot")),
        "--bad-lines drop requires lines": drop and (page or document),
        "--check reads lines or a document, and writes none": tags.check and (writes or page or labels),
        "--links are those of given translations: leave out --translate": tags.links and args.translate,
        "--words pieces needs a model: leave out --links": tags.links and args.words == "pieces",
        "a page is the source: leave out -s": page and args.source,
        "a page has HTML tags: leave out --tags": page and not (tags.tags or "").startswith("html"),
        f"{one_side} reads the source alone: leave out -t/--target": one_side and args.target is not None,
        "a page requires --translate, --strip, or its blocks on lines of -t": page and not (one_side or args.target),
        "give either FILE or -s and -t, not both": source and args.input is not None,
        f"--tags {tags.tags} requires -s with columns and -t with lines": columns and (one_side or not args.source),
    }
    for message, is_given in wrong.items():
        if is_given:
            parser.error(message)
    if drop:
        check_beside(parser, "--bad-lines drop", args.output, (KEPT,), (*files, tags.links, tags.report, tags.review))
    if tags.repair and (one_side or tags.split or tags.links or labels):
        parser.error("--repair cannot be combined with --translate, --strip, --split, --links or labels")
    if not (one_side or page):
        parser.require_both(args, "-s/--source", "-t/--target")
    if tags.strip:
        tags = replace(tags, links=None)
    request = read_request(parser, args, "stop" if args.bad_lines == "stop" else "blank")
    request = replace(request, method=replace(request.method, threshold=FLOOR, scorer="none"))  # all soft scores
    syntax = Syntax.of(tags.tags, tags.placeholder) if tags.tags in KINDS else None
    written = args.output, request.too_long == "blank", beside(args.output, KEPT) if drop else ""
    return Options(request, tags, files, syntax, args.words, *written)


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
    if len(options.files) == 1 and is_document(options.files[0]) and not tags.html_file:
        return transfer_document(PROGRAM, request, options.files[0], tags, options.output)
    text = TaggedText(options)
    if tags.check:
        return list_faults(PROGRAM, text.document(), name_shown(options.files[-1]), request.run.quiet)
    check_input(options)
    with closing(Progress(PROGRAM, request.run.quiet)) as progress, ExitStack() as stack:
        out = stack.enter_context(open_output(options.output))
        kept = stack.enter_context(open_output(options.kept)) if options.kept else None
        results = Results(options, (out, kept), Reports(stack, tags.report, tags.review), progress)
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
        text.bad.warn("dropped" if kept else "treated as blank")
    progress.write(f"{PROGRAM}: {results.summary()}")
    if signature:
        progress.write(signature)


def _translate(text: TaggedText, options: Options, session: Session, results: Results) -> None:
    """Translate the input, which has tags, and write it."""
    from align.transfer.standins import translate_pages

    with ExitStack() as stack:
        pages = stack.enter_context(closing(text.pages()))
        translations = translate_pages(session, pages, split=options.tags.split, file=text.name)
        for number, translation in stack.enter_context(closing(translations)):
            results.write_page(text, number, translation)


def _align(text: TaggedText, options: Options, session: Session, results: Results) -> None:
    """Align the input, and write it with the tags or labels of the sources."""

    def pairs_of(item: Line) -> list[Pair]:
        return [replace(item.pair, origin=Origin(text.name, item.pair.id))]

    with closing(text.lines()) as lines, closing(session.results((item for item, _ in lines), pairs_of)) as aligned:
        for item, (alignment,) in aligned:
            if alignment.skipped:
                results.write(text.without_links(item, alignment.skipped), {}, bad=True)
            elif options.words != "spaces" or options.request.search:
                results.write(*item.divided(alignment.pair, alignment.scores))
            else:
                results.write(item, alignment.scores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align transfer`."""
    options = read_options(build_parser(), arguments)
    return run(PROGRAM, lambda: transfer(options), BATCH_ADVICE)
