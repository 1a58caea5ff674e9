"""`extract-align view`: links, gold and what a model looks at, as one HTML file for any browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from align.cli.args import BATCH_ADVICE, MethodArgs, ModelArgs, OutputArgs, RunArgs, TextArgs, check_files, model_help
from align.cli.common import open_output, run, say, show_warnings
from align.cli.evaluate import short_names
from align.cli.gold_args import GoldArgs, LinkArgs
from align.cli.loading import Request, load_models
from align.cli.options import add_group, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.types import Pair, Position, TextWarning
from align.evaluation.gold import LinkOptions, NumberedLinks, read_as, warn_if_exchanged
from align.io.reader import name_shown, read_text
from align.io.signature import signature
from align.view.page import Attention, System, make_page

PROGRAM = "extract-align view"

ATTENTION_PAIRS = 200
"""Sentence pairs with attention: a pair takes some tens of kilobytes of the page."""

EXAMPLES = """examples:
  extract-align view links -s test.de -t test.en -o page.html   what is linked, by pointing at a word
  extract-align view one.links two.links -g gold.talp -s test.de -t test.en -o page.html
  extract-align view links -s test.de -t test.en -m de-en -o page.html   and the attention of each layer and head
"""


@dataclass(frozen=True)
class ViewArgs:
    """What to show."""

    TITLE: ClassVar = "links"

    hypotheses: Sequence[str] = option(
        default=(), nargs="+", metavar="LINKS", help="links to show, a file for each system"
    )


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        request: the model whose attention is shown; None for none.
        position: at which decoder step that is read.
    """

    hypotheses: Sequence[str]
    hyp_options: LinkOptions
    text: tuple[str, str]
    gold: GoldArgs
    request: Request | None
    position: Position
    output: str | None
    quiet: bool


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "One HTML file that shows word alignments in a browser, without a network."
    parser = new_parser(PROGRAM, description, EXAMPLES, ("source", "target", "gold", "model", "output"))
    position = {
        "default": "input",
        "choices": get_args(Position),
        "help": "the decoder step that stands for a target word",
    }
    add_group(parser, ViewArgs)
    add_group(parser, LinkArgs)
    add_group(parser, TextArgs, "the text of the links", only=("source", "target"))
    add_group(parser, GoldArgs, "gold (without it: where systems differ)", without=("out_of_range",))
    add_group(parser, OutputArgs, "output", only=("output",))
    add_group(
        parser,
        ModelArgs,
        f"model (whose attention is shown, as weight and as norm, in the first {ATTENTION_PAIRS} sentence pairs)",
        only=("model", "source_lang", "target_lang"),
        model={"help": model_help("none")},
    )
    add_group(parser, MethodArgs, "attention", only=("position",), position=position)
    add_group(parser, RunArgs, only=("device", "threads", "quiet"))
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line; conflicting options exit with code 2."""
    args = parser.parse_command(arguments)
    if args.source is None or args.target is None:
        parser.error("the text is needed: -s FILE -t FILE")
    check_files(parser, [args.gold, *args.hypotheses, args.source, args.target], args.output)
    model, run = read_group(ModelArgs, args), read_group(RunArgs, args)
    request = Request(model, MethodArgs(position=args.position, reader="none"), run) if model.model else None
    return Options(
        hypotheses=args.hypotheses,
        hyp_options=replace(args.hyp_format or LinkOptions(), out_of_range="ignore"),  # and shown as wrong
        text=(args.source, args.target),
        gold=read_group(GoldArgs, args, out_of_range="ignore"),
        request=request,
        position=args.position,
        output=args.output,
        quiet=args.quiet,
    )


def systems_of(files: Sequence[NumberedLinks], names: Sequence[str]) -> list[System]:
    """Read files of links as systems, each under its shortest unique name."""
    return [
        System(name, file.links, file.scores, [pair.possible - pair.sure for pair in file.pairs])
        for name, file in zip(short_names(names), files, strict=True)
    ]


def sign_page(gold: NumberedLinks | None, files: Sequence[NumberedLinks], pairs: int) -> str:
    """Return the signature of the page's error rates; empty without gold."""
    if gold is None:
        return ""
    return signature({"gold": gold.kind, "hyp": "+".join(sorted({file.kind for file in files})), "n": pairs}, "AER")


def attention_of(request: Request, position: Position, text: Sequence[Pair]) -> Attention:
    """Load the model, and read what its cells look at in the first pairs."""
    (aligner,) = load_models(PROGRAM, request)
    from align.core.choice import all_cells
    from align.evaluation.sweep import shares_of_cells
    from align.evaluation.swept import SCORES

    some = text[:ATTENTION_PAIRS]
    choice = aligner.fixed(text).forward.choice
    assert choice
    return Attention(
        name=aligner.forward.recorder.name,
        position=position,
        scores=SCORES,
        cells=all_cells(aligner.forward.recorder),
        shown=choice.place.cells()[position],
        shares=shares_of_cells(aligner, some, position),
    )


def write_view(options: Options) -> None:
    """Read the files, look into the model, and write the page."""
    text = read_text(*options.text, (name_shown(options.text[0]), name_shown(options.text[1])))
    if not text:
        raise ValueError(f"{name_shown(options.text[0])} has no sentence pairs")
    files = [
        read_as("hyp", name, options.hyp_options, text, name_shown(name), scored=True) for name in options.hypotheses
    ]
    gold = None
    if options.gold.gold:
        gold = read_as("gold", options.gold.gold, options.gold.options, text, name_shown(options.gold.gold))
        warn_if_exchanged(gold, files)
    with open_output(options.output) as out:
        attention = attention_of(options.request, options.position, text) if options.request else None
        systems, sign = systems_of(files, options.hypotheses), sign_page(gold, files, len(text))
        page = make_page(text, systems, gold.pairs if gold else None, attention, sign).encode()
        out.write(page)
    if not options.quiet:
        shown = plural(len(text), "sentence pair")
        looked = f", {sum(map(bool, attention.shares)):,} of them with attention" if attention else ""
        size = f"{len(page) / 1e6:,.1f} MB" if len(page) >= 1e6 else f"{len(page) / 1e3:.0f} kB"
        say(f"{PROGRAM}: {shown}{looked}, {plural(len(files), 'system')}: {size}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align view`."""
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: write_view(options), BATCH_ADVICE)
