"""`extract-align view`: links, gold and what a model looks at, as one HTML file for any browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from align.cli.args import (
    BATCH_ADVICE,
    add_model_options,
    add_output_option,
    add_quiet_option,
    add_speed_options,
    check_files,
    new_parser,
    options_of,
    whole_number,
)
from align.cli.common import open_output, run, say, show_warnings
from align.cli.evaluate import short_names
from align.cli.gold_args import add_length_options, add_link_options, link_options
from align.cli.loading import Models, load_models, requested_models
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.types import Pair, Position, Settings, TextWarning
from align.evaluation.gold import LinkOptions, NumberedLinks, read_as, warn_if_exchanged
from align.io.reader import name_shown, read_text
from align.io.signature import signature
from align.view.page import Attention, System, make_page

PROGRAM = "extract-align view"

MOST_SHARES = 200
"""Sentence pairs with attention, by default: a pair takes some tens of kilobytes of the page."""

EXAMPLES = """examples:
  extract-align view links -s test.de -t test.en -o page.html   what is linked, by pointing at a word
  extract-align view one.links two.links -g gold.talp -s test.de -t test.en -o page.html
  extract-align view links -s test.de -t test.en -m de-en -o page.html   and the attention of each layer and head
"""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        position: at which decoder step that is read.
        most: sentence pairs with attention.
    """

    hypotheses: Sequence[str]
    hyp_options: LinkOptions
    text: tuple[str, str]
    gold: str | None
    gold_options: LinkOptions
    models: Models | None
    position: Position
    most: int
    output: str | None
    quiet: bool


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM,
        "One HTML file that shows word alignments in a browser, without a network.",
        EXAMPLES,
        ("source", "target", "gold", "model", "output"),
    )
    add_quiet_option(parser)
    parser.add_argument("hypotheses", nargs="+", metavar="LINKS", help="links to show, a file for each system")
    add_link_options(parser.add_argument_group("links"), "hyp")
    add_length_options(parser.add_argument_group("the text"))
    add_link_options(parser.add_argument_group("gold (without it: where systems differ)"), "gold")
    group = parser.add_argument_group("output")
    add_output_option(group)
    add_model_options(parser, default="none", use=" (whose attention is shown, as weight and as norm)")
    group = parser.add_argument_group("attention")
    group.add_argument(
        "--position", choices=get_args(Position), default="input", help="the decoder step that speaks for a target word"
    )
    group.add_argument(
        "--most",
        type=whole_number(1),
        default=MOST_SHARES,
        metavar="N",
        help="the first N sentence pairs have it; the page grows with each",
    )
    add_speed_options(parser, "sentence pairs that layer and head are chosen by, where the model stores none")
    parser.set_defaults(bad_lines="blank", reverse_model=None)  # which the model options need
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line; conflicting options exit with code 2."""
    args = parser.parse_command(arguments)
    if args.source is None or args.target is None:
        parser.error("the text is needed: -s FILE -t FILE")
    check_files(parser, [args.gold, *args.hypotheses, args.source, args.target], args.output)
    return options_of(
        Options,
        args,
        hyp_options=link_options(args, "hyp"),
        text=(args.source, args.target),
        gold_options=link_options(args, "gold"),
        models=requested_models(args, Settings(position=args.position)) if args.model else None,
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


def attention_of(options: Options, models: Models, text: Sequence[Pair]) -> Attention:
    """Load the model, and read what its cells look at in the first pairs."""
    (aligner,) = load_models(PROGRAM, models, options.quiet)
    from align.core.choice import all_cells
    from align.evaluation.sweep import shares_of_cells
    from align.evaluation.swept import SCORES

    some = text[: options.most]
    choice = aligner.fixed(text).forward.choice
    assert choice
    return Attention(
        name=aligner.forward.recorder.name,
        position=options.position,
        scores=SCORES,
        cells=all_cells(aligner.forward.recorder),
        shown=choice.place.cells()[options.position],
        shares=shares_of_cells(aligner, some, options.position),
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
    if options.gold:
        gold = read_as("gold", options.gold, options.gold_options, text, name_shown(options.gold))
        warn_if_exchanged(gold, files)
    with open_output(options.output) as out:
        attention = attention_of(options, options.models, text) if options.models else None
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
