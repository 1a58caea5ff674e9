"""`analyse-attention coreference`: whether a head knows whom a pronoun means."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from align.analysis.commands.asked import load_inspected
from align.analysis.commands.common import Common
from align.cli.input_options import check_files
from align.cli.options import seed_number, whole_number
from align.cli.parser import Parser
from align.io.reader import name_shown
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Does a head of the encoder know whom a pronoun means? Heads on paragraphs of GAP"

EXAMPLES = """examples:
  analyse-attention coreference gap-test.tsv -m en-de
"""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        file: of GAP.
        most: paragraphs to read; None for all.
        seed: of halves and draws.
    """

    file: str
    most: int | None
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    group = parser.add_argument_group("text (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("input", metavar="FILE", help="paragraphs with a pronoun and two names, as GAP's .tsv files")
    group.add_argument("--paragraphs", type=whole_number(1), metavar="N", help="read the first N paragraphs only")
    parser.add_argument("--seed", type=seed_number, default=1, metavar="N", help="of halves and draws")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    check_files(parser, (args.input,), None)
    return Options(args.input, args.paragraphs, args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.coreference` finds in a file."""
    from align.analysis.data.gap import read_paragraphs

    paragraphs = read_paragraphs(options.file, options.most)
    model = load_inspected(common)
    from align.analysis.coreference import coreference

    finding = coreference(model, paragraphs, options.seed, name_shown(options.file))
    file = Path(options.file).name
    return finding, {"model": model.name, "gap": file, "n": len(paragraphs), "seed": options.seed}
