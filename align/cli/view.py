"""`extract-align view`: links, gold and what a model looks at, as one HTML file for any browser."""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from align.cli.args import BATCH_ADVICE, MethodArgs, ModelArgs, OutputArgs, RunArgs, TextArgs, model_help
from align.cli.common import open_output, run, say
from align.cli.evaluate import short_names
from align.cli.gold_args import GoldArgs, LinkArgs
from align.cli.loading import Request, load_models
from align.cli.options import add_group, argument, new_parser, read_group
from align.cli.parser import Parser
from align.core.errors import LineError, plural
from align.core.types import Pair, Position, TextWarning
from align.evaluation.gold import LinkOptions, read_as, warn_if_exchanged
from align.io.checks import are_regular
from align.io.reader import name_shown, open_lines, read_lines, read_text
from align.io.signature import signature
from align.view.page import Attention, System, make_page

PROGRAM = "extract-align view"
ATTENTION_PAIRS = 200  # sentence pairs with attention: a pair takes some tens of kilobytes of the page

EXAMPLES = """examples:
  extract-align view links.jsonl -o page.html   what is linked, by pointing at a word; -f jsonl writes words, too
  extract-align view one.links two.links -g gold.talp -s test.de -t test.en -o page.html
  extract-align view links -s test.de -t test.en -m de-en -o page.html   and the attention of each layer and head
"""


@dataclass(frozen=True)
class ViewArgs:
    """What to show."""

    TITLE: ClassVar = "links"

    hypotheses: Sequence[str] = argument(
        default=(), reads=True, nargs="+", metavar="LINKS", help="links to show, a file for each system"
    )


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Write an HTML page that shows word alignments in a browser. It needs no network."
    parser = new_parser(PROGRAM, description, EXAMPLES, ("source", "target", "gold", "model", "output"))
    position = {
        "default": "input",
        "choices": get_args(Position),
        "help": "the decoder step that stands for a target word",
    }
    add_group(parser, ViewArgs)
    add_group(parser, LinkArgs, "format of the links")
    add_group(parser, TextArgs, "the text of the links (JSON lines of `-f jsonl` have it)", only=("source", "target"))
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


def attention_of(request: Request, position: Position, text: Sequence[Pair]) -> Attention:
    """Load the model, and read what its cells look at in the first pairs."""
    (aligner,) = load_models(PROGRAM, request)
    from align.core.choice import all_cells
    from align.evaluation.sweep import SCORES, shares_of_cells

    if aligner.check and (doubt := aligner.check.add(text)):
        warnings.warn(doubt, TextWarning, stacklevel=2)
    choice = aligner.fixed(text).forward.choice
    assert choice
    return Attention(
        name=aligner.forward.recorder.name,
        position=position,
        scores=SCORES,
        cells=all_cells(aligner.forward.recorder),
        shown=choice.place.cells()[position],
        shares=shares_of_cells(aligner, text[:ATTENTION_PAIRS], position),
    )


def read_words(name: str) -> list[Pair]:
    """Return the words of sentence pairs in JSON lines, as `extract-align -f jsonl` writes them; none without words."""
    pairs: list[Pair] = []
    with open_lines(name) as stream:
        for number, line in enumerate(read_lines(stream, name_shown(name)), 1):
            try:
                record = json.loads(line)
                source, target = record["source"], record["target"]
                if type(source) is not list or type(target) is not list:
                    raise TypeError
                if any(not word or set(word) & set(" \t\n") for word in source + target):
                    raise ValueError
                "".join(source + target).encode()  # without lone surrogates, which JSON may have
            except (ValueError, TypeError, KeyError, RecursionError):
                if not pairs:
                    return []
                message = "not a JSON object with the words of both sides"
                raise LineError(message, file=name_shown(name), line=number) from None
            pairs.append(Pair(tuple(source), tuple(target), number))
    return pairs


def words_of(names: Sequence[str]) -> list[Pair]:
    """Return the words in the files that have them, which must be the same."""
    texts = {name: words for name in names if (words := read_words(name))}
    if not texts:
        message = "no file has the words of both sides: write them with -f jsonl, or give the text: -s FILE -t FILE"
        raise ValueError(message)
    (first, text), *following = texts.items()
    for name, words in following:
        for expected, pair in zip(text, words, strict=False):
            if pair != expected:
                message = f"its words are not those of {name_shown(first)}"
                raise LineError(message, file=name_shown(name), line=pair.id)
    return text


def write_view(args: argparse.Namespace, gold_args: GoldArgs, request: Request) -> None:
    """Read the files, look into the model if one is named, and write the page."""
    if args.source is None:
        text = words_of(args.hypotheses)
    else:
        text = read_text(args.source, args.target, (name_shown(args.source), name_shown(args.target)))
    if not text:
        raise ValueError(f"{name_shown(args.source)} has no sentence pairs")
    hyp_options = replace(args.hyp_format or LinkOptions(), out_of_range="ignore")  # and shown as wrong
    files = [read_as("hyp", name, hyp_options, text, name_shown(name), scored=True) for name in args.hypotheses]
    gold, sign = None, ""
    if gold_args.gold:
        gold = read_as("gold", gold_args.gold, gold_args.options, text, name_shown(gold_args.gold))
        warn_if_exchanged(gold, files)
        kinds = "+".join(sorted({file.kind for file in files}))
        sign = signature({"gold": gold.kind, "hyp": kinds, "n": len(text)}, "AER")
    with open_output(args.output) as out:
        attention = attention_of(request, args.position, text) if request.model.model else None
        systems = [
            System(name, file.links, file.scores, [pair.possible - pair.sure for pair in file.pairs])
            for name, file in zip(short_names(args.hypotheses), files, strict=True)
        ]
        page = make_page(text, systems, gold.pairs if gold else None, attention, sign).encode()
        out.write(page)
    if not args.quiet:
        shown = plural(len(text), "sentence pair")
        looked = f", {sum(map(bool, attention.shares)):,} of them with attention" if attention else ""
        size = f"{len(page) / 1e6:,.1f} MB" if len(page) >= 1e6 else f"{len(page) / 1e3:.0f} kB"
        say(f"{PROGRAM}: {shown}{looked}, {plural(len(files), 'system')}: {size}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align view`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    if (
        args.source is None
        and args.target is None
        and not are_regular(n for n in args.hypotheses if n == "-" or os.path.exists(n))
    ):
        parser.error("the text is needed: -s FILE -t FILE, or files of JSON lines, which can be read twice")
    parser.require_both(args, "-s/--source", "-t/--target")
    method = MethodArgs(position=args.position, scorer="none")
    request = Request(read_group(ModelArgs, args), method, read_group(RunArgs, args))
    gold = read_group(GoldArgs, args, out_of_range="ignore")
    return run(PROGRAM, lambda: write_view(args, gold, request), BATCH_ADVICE)
