"""`extract-align eval`: alignment error rate against gold, with intervals, paired tests and pictures of the errors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from align.cli.args import RunArgs, TableArgs, TextArgs
from align.cli.common import open_output, run, with_options
from align.cli.gold_args import GoldArgs, LinkArgs
from align.cli.options import add_group, argument, new_parser, option, read_group, whole_number
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.types import Pair, TextWarning
from align.evaluation.gold import LinkOptions, match_lengths, read_as, warn_if_exchanged
from align.evaluation.link_files import LinkFile
from align.evaluation.metrics import METRICS, SAMPLES, SEED, Test
from align.evaluation.report import evaluate
from align.evaluation.tables import percent
from align.io.reader import name_shown, read_text
from align.io.signature import signature
from align.view.error_tables import draw_errors, error_table, format_rate, score_table, sentence_table

PROGRAM = "extract-align eval"

EXAMPLES = """examples:
  extract-align eval -g gold.talp links   AER, precision, recall, F1, with intervals
  extract-align eval -g test.wa.nonullalign -s test.e -t test.f a.talp b.talp --paired permutation
  extract-align eval -g gold.talp links --errors 5 -s test.de -t test.en   the five worst sentences, drawn
  extract-align eval -g gold.talp links -b   the number alone
  extract-align eval --without-gold -s text.de -t text.en a.links b.links   which is better, by fast_align's links
"""


FEW = 1_000
"""Sentence pairs below which it was not measured how well links in place of gold rank systems (research/choices.md)."""

NOTE = "no gold: fast_align's links of this text stand in for it. Compare systems by these figures; do not publish them"


@dataclass(frozen=True)
class EvalArgs:
    """What to judge, by what, and what to print."""

    TITLE: ClassVar = "evaluation"

    hypotheses: Sequence[str] = argument(
        default=(), reads=True, nargs="+", metavar="HYP", help="links to judge, a file for each system"
    )
    without_gold: bool = option(
        default=False,
        help="compare with fast_align's links of -s and -t instead of gold, trained on these: a text of a thousand "
        "lines and more. The order of systems is similar to that of their error rates",
    )
    paired: Test | None = option(
        short="test all systems against the first", help="test every system against the first one"
    )
    samples: int = option(
        default=SAMPLES, type=whole_number(0), metavar="N", help="bootstrap samples or permutations; 0: no intervals"
    )
    seed: int = option(default=SEED, type=whole_number(0), metavar="N", help="random seed of the samples")
    per_sentence: bool = option(default=False, help="a row for each sentence and system instead of the summary")
    errors: int | None = option(
        type=whole_number(1),
        metavar="N",
        short="show the N worst sentences of each system",
        help="the N sentences with the most errors of each system instead of the summary",
    )
    brief: bool = option("-b", default=False, help="the AER alone, a line for each system")


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Compute AER, precision, recall and F1 of links against gold links, or estimate them without gold."
    most_used = ("gold", "source", "target", "paired", "errors", "format")
    parser = new_parser(PROGRAM, description, EXAMPLES, most_used)
    add_group(parser, EvalArgs)
    add_group(parser, GoldArgs, "gold (an ambiguous format is an error, never a guess)")
    add_group(parser, LinkArgs)
    add_group(parser, TextArgs, "the text of the links", only=("source", "target"))
    add_group(parser, TableArgs)
    add_group(parser, RunArgs, only=("quiet",))
    return parser


def short_names(names: Sequence[str]) -> list[str]:
    """Return file names without the folders that all of them share."""
    folders = [os.path.dirname(os.path.abspath(name)) for name in names]
    one_drive = len({os.path.splitdrive(folder)[0] for folder in folders}) < 2
    shared = len(os.path.commonpath(folders)) if one_drive else 0
    return ["stdin" if name == "-" else os.path.abspath(name)[shared:].lstrip(os.sep) for name in names]


def gold_of_text(text: Sequence[Pair]) -> LinkFile:
    """Return a statistical aligner's links of a text in place of gold; warn if it learns little from it."""
    from align.baselines.tools import REFERENCE, describe_tool, reference_links

    count = sum(not pair.blank for pair in text)
    if count < FEW:
        learnt = plural(count, "sentence pair")
        message = f"{REFERENCE} learns from {learnt}: below {FEW:,} the order of systems is unsure"
        warnings.warn(message, TextWarning, stacklevel=2)
    pairs = reference_links(text)
    return LinkFile(REFERENCE, describe_tool(REFERENCE), pairs, range(1, len(pairs) + 1), base=0)


def print_report(
    args: EvalArgs,
    tables: TableArgs,
    gold_args: GoldArgs,
    hyp_options: LinkOptions,
    text_files: tuple[str, str] | None,
) -> None:
    """Read the files, judge the systems, and write the report to stdout."""
    text = read_text(*text_files, (name_shown(text_files[0]), name_shown(text_files[1]))) if text_files else None
    gold = None
    if gold_args.gold:
        gold = read_as("gold", gold_args.gold, gold_args.options, text, name_shown(gold_args.gold))
    files = [read_as("hyp", name, hyp_options, text, name_shown(name)) for name in args.hypotheses]
    if gold:
        if text is None:
            gold, *files = match_lengths([gold, *files])
        warn_if_exchanged(gold, files)
        sure = sum(len(pair.sure) for pair in gold.pairs)
        possible = sum(len(pair.possible - pair.sure) for pair in gold.pairs)
        links = f"{sure:,} sure and {possible:,} only possible links"
        what, note = {"gold": gold.kind}, f"gold: {plural(len(gold.pairs), 'sentence pair')}, {links}"
    else:
        gold = gold_of_text(text or ())
        what, note = {"gold": "none", "tool": gold.format}, NOTE
    samples = 0 if args.brief or args.per_sentence or args.errors else args.samples
    # All metrics get an interval for programs, the AER for people.
    intervals = () if not samples else tuple(METRICS) if tables.for_programs else ("aer",)
    report = evaluate(
        gold if gold_args.gold else gold.pairs,
        [(file.name, file) for file in files],
        samples=samples,
        seed=args.seed,
        paired=args.paired,
        intervals=intervals,
    )
    kinds = "+".join(sorted({file.kind for file in files}))
    sign = signature({**what, "hyp": kinds, **report.signature_parts()}, "AER")
    names = zip(report.systems, short_names(args.hypotheses), strict=True)
    report = replace(report, systems=[replace(system, name=name) for system, name in names])
    if args.brief:
        if not gold_args.gold:
            warnings.warn(NOTE, TextWarning, stacklevel=2)
        printed = "\n".join(format_rate(percent(system.scores["aer"].value)) for system in report.systems)
    elif args.errors and tables.format == "text":
        drawn = draw_errors(report, text, args.errors, with_options, tables.wide)
        printed = "\n".join([drawn, *([] if gold_args.gold else [NOTE]), sign])
    else:
        if args.errors:
            table = error_table(report, [note], args.errors)
        elif args.per_sentence:
            table = sentence_table(report, [note])
        else:
            table = score_table(report, [note], intervals, tables.for_programs, tables.format == "latex")
        printed = table.write(tables.format, sign, tables.wide)
    with open_output(None) as out:
        out.write(printed.encode("utf-8", "backslashreplace") + b"\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align eval`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    if (args.gold is None) != args.without_gold:
        parser.error("give either -g/--gold or --without-gold")
    parser.require_both(args, "-s/--source", "-t/--target")
    if args.per_sentence + bool(args.errors) + args.brief > 1:
        parser.error("give only one of --per-sentence, --errors and --brief")
    if args.paired and (args.per_sentence or args.errors or args.brief or not args.samples):
        parser.error("--paired needs the summary with samples: not --per-sentence, --errors, --brief or --samples 0")
    if args.without_gold and args.source is None:
        parser.error("--without-gold needs the text: -s and -t")
    if args.paired and len(args.hypotheses) < 2:
        parser.error("--paired compares systems: name two files or more")
    hyp_options = replace(args.hyp_format or LinkOptions(), out_of_range=args.out_of_range)
    text = (args.source, args.target) if args.source else None
    groups = read_group(EvalArgs, args), read_group(TableArgs, args), read_group(GoldArgs, args)
    return run(PROGRAM, lambda: print_report(*groups, hyp_options, text))
