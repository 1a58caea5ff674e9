"""`analyse-attention syntax`: what the encoder's attention knows of dependencies."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from align.analysis.commands.asked import load_inspected
from align.analysis.commands.common import Common
from align.cli.input_options import check_files
from align.cli.options import seed_number, whole_number
from align.cli.parser import Parser
from align.cli.sweep import need
from align.io.reader import name_shown
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Does the encoder's attention know of syntax? Heads and probes on a treebank"

EXAMPLES = """examples:
  analyse-attention syntax de.conllu                        single heads, and probes of all heads
  analyse-attention syntax en.conllu -m en-de --no-probes   single heads only, which is quick
"""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        treebank: a file in CoNLL-U.
        most: sentences to read; None for all.
        fewest: words of a relation that has a row of its own.
        probes: whether to train any.
        vectors: a file of embeddings for them; None for the model's own.
        seed: of halves, folds and draws.
    """

    treebank: str
    most: int | None
    fewest: int
    probes: bool
    vectors: str | None
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    group = parser.add_argument_group("text (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("input", metavar="TREEBANK", help="sentences with their trees, in CoNLL-U")
    group.add_argument("--sentences", type=whole_number(1), metavar="N", help="read the first N sentences only")
    group = parser.add_argument_group("measures")
    group.add_argument(
        "--fewest", type=whole_number(1), default=20, metavar="N", help="words of a relation that gets a row"
    )
    group.add_argument("--no-probes", action="store_true", help="train none, which takes most of the time")
    group.add_argument(
        "--vectors",
        metavar="FILE",
        help="embeddings for probes, a word and its numbers a line, as GloVe has them (default: the model's own)",
    )
    group.add_argument("--seed", type=seed_number, default=1, metavar="N", help="of halves, folds and draws")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    check_files(parser, (args.input, args.vectors), None)
    if args.vectors and args.no_probes:
        parser.error("--vectors are for probes: leave out --no-probes")
    return Options(args.input, args.sentences, args.fewest, not args.no_probes, args.vectors, args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.syntax.question` finds in a treebank."""
    if options.probes:
        need("sklearn", "probes", "scikit-learn")
    from align.analysis.data.treebank import read_treebank

    trees = read_treebank(options.treebank, options.most)
    model = load_inspected(common)
    from align.analysis.syntax.question import Request, syntax

    shown = name_shown(options.treebank)
    finding = syntax(model, trees, Request(options.fewest, options.seed, options.vectors, options.probes, shown))
    parts: dict[str, str | int | None] = {"model": model.name, "treebank": Path(options.treebank).name}
    parts |= {"n": len(trees), "fewest": options.fewest, "seed": options.seed}
    vectors = Path(options.vectors).name if options.vectors else None
    return finding, {**parts, "vectors": vectors, "probes": None if options.probes else "none"}
