"""`extract-align eval`: alignment error rate against gold, with intervals, paired tests and pictures of the errors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from align.cli.args import add_table_options, new_parser, options_of, whole_number
from align.cli.common import open_output, run, show_warnings, with_options
from align.cli.gold_args import add_length_options, add_link_options, link_options
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.types import Pair, TextWarning
from align.evaluation.gold import LinkOptions, NumberedLinks, match_lengths, read_as, warn_if_exchanged
from align.evaluation.link_files import LinkFile
from align.evaluation.metrics import METRICS, SAMPLES, SEED, Test
from align.evaluation.report import Report, evaluate
from align.evaluation.tables import percent, writer
from align.io.reader import name_shown, read_text
from align.io.signature import signature
from align.view.error_tables import count_notes, draw_errors, error_table, score_table, sentence_table

PROGRAM = "extract-align eval"

MOST_DIGITS = 15
"""Digits after the point that a float distinguishes in percent."""

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

Show = Literal["systems", "sentences", "errors", "brief"]


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        gold: the file; None for a statistical aligner's links of the text.
        paired: the test against the first system, if there is one.
        show: a row for each system, for each sentence, for the worst sentences, or the AER alone.
        errors: how many of the worst sentences.
        wide: whether text has all columns, not only those that fit a terminal.
        width: digits behind the point.
    """

    hypotheses: Sequence[str]
    gold: str | None
    gold_options: LinkOptions
    hyp_options: LinkOptions
    text: tuple[str, str] | None
    samples: int
    seed: int
    paired: Test | None
    show: Show
    errors: int
    format: str
    wide: bool
    width: int

    @property
    def intervals(self) -> tuple[str, ...]:
        """Metrics that get an interval: all of them for programs, the AER for people."""
        if self.show != "systems" or not self.samples:
            return ()
        return tuple(METRICS) if self.for_programs else ("aer",)

    @property
    def for_programs(self) -> bool:
        """Whether programs read the output."""
        return self.format in ("json", "tsv")


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM,
        "Alignment error rate, precision, recall and F1 of word alignments against gold, or an estimate without it.",
        EXAMPLES,
        ("gold", "source", "target", "paired", "errors", "format"),
    )
    parser.add_argument("hypotheses", nargs="+", metavar="HYP", help="links to judge, a file for each system")
    group = parser.add_argument_group("gold (nothing is guessed: what a file leaves open is asked for)")
    add_link_options(group, "gold", dispensable=True)
    add_link_options(parser.add_argument_group("hypotheses"), "hyp")
    add_length_options(parser.add_argument_group("the text, to check indices against and to show words"))
    group = parser.add_argument_group("statistics")
    group.add_argument(
        "--samples",
        type=whole_number(0),
        default=SAMPLES,
        metavar="N",
        help="of the bootstrap or permutations; 0: none",
    )
    group.add_argument("--seed", type=whole_number(0), default=SEED, metavar="N", help="of the samples")
    group.add_argument("--paired", choices=get_args(Test), help="test every system against the first one")
    group = parser.add_argument_group("output")
    modes = group.add_mutually_exclusive_group()
    modes.add_argument("--per-sentence", action="store_true", help="a row for each sentence and system instead")
    modes.add_argument(
        "--errors",
        type=whole_number(1),
        metavar="N",
        help="the N sentences with the most errors of each system instead",
    )
    modes.add_argument("-b", "--brief", action="store_true", help="the AER alone, a line for each system")
    add_table_options(group)
    group.add_argument(
        "-w", "--width", type=whole_number(0, MOST_DIGITS), default=2, metavar="N", help="digits after the point"
    )
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line; conflicting options exit with code 2."""
    args = parser.parse_command(arguments)
    if [args.gold, *args.hypotheses, args.source, args.target].count("-") > 1:
        parser.error("only one file can be stdin")
    if (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.paired and (args.per_sentence or args.errors or args.brief or not args.samples):
        parser.error("--paired needs the summary with samples: not --per-sentence, --errors, --brief or --samples 0")
    if args.without_gold and args.source is None:
        parser.error("--without-gold needs the text: -s and -t")
    if args.paired and len(args.hypotheses) < 2:
        parser.error("--paired compares systems: name two files or more")
    show: Show = "sentences" if args.per_sentence else "systems"
    show = "brief" if args.brief else "errors" if args.errors else show
    return options_of(
        Options,
        args,
        gold_options=link_options(args, "gold"),
        hyp_options=link_options(args, "hyp"),
        text=(args.source, args.target) if args.source else None,
        show=show,
        errors=args.errors or 0,
    )


def short_names(names: Sequence[str]) -> list[str]:
    """Return file names without the folders that all of them share."""
    shared = len(os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names]))
    return ["stdin" if name == "-" else os.path.abspath(name)[shared:].lstrip(os.sep) for name in names]


def read_files(options: Options, text: Sequence[Pair] | None) -> tuple[NumberedLinks, list[NumberedLinks]]:
    """Read gold, or make links in its place, and hypotheses, and check that they have the same number of pairs."""
    files = []
    if options.gold is not None:
        files.append(read_as("gold", options.gold, options.gold_options, text, name_shown(options.gold)))
    for name in options.hypotheses:
        shown = name_shown(name)
        files.append(read_as("hyp", name, options.hyp_options, text, shown))
    if options.gold is None:
        return gold_of_text(text or ()), files
    gold, *hypotheses = match_lengths(files) if text is None else files
    warn_if_exchanged(gold, hypotheses)
    return gold, hypotheses


def gold_of_text(text: Sequence[Pair]) -> NumberedLinks:
    """Return a statistical aligner's links of a text in place of gold; warn if it learns little from it."""
    from align.baselines.tools import REFERENCE, describe_tool, reference_links

    count = sum(not pair.blank for pair in text)
    if count < FEW:
        learnt = plural(count, "sentence pair")
        message = f"{REFERENCE} learns from {learnt}: below {FEW:,} the order of systems is unsure"
        warnings.warn(message, TextWarning, stacklevel=2)
    pairs = reference_links(text)
    file = LinkFile(REFERENCE, describe_tool(REFERENCE), pairs, range(1, len(pairs) + 1))
    return NumberedLinks(file, 0, False, pairs)


def judge(options: Options, text: Sequence[Pair] | None) -> tuple[Report, str]:
    """Read the files and judge the systems; return the report, with short names, and its signature."""
    gold, hypotheses = read_files(options, text)
    sampled = options.show == "systems"
    report = evaluate(
        gold if options.gold else gold.pairs,
        [(file.file.name, file) for file in hypotheses],
        samples=options.samples if sampled else 0,
        seed=options.seed,
        paired=options.paired,
        intervals=options.intervals,
    )
    kinds = "+".join(sorted({file.kind for file in hypotheses}))
    what = {"gold": gold.kind} if options.gold else {"gold": "none", "tool": gold.file.format}
    parts = {**what, "hyp": kinds, **report.signature_parts()}
    names = short_names(options.hypotheses)
    systems = [replace(system, name=name) for system, name in zip(report.systems, names, strict=True)]
    return replace(report, systems=systems), signature(parts, "AER")


def tables(options: Options, report: Report, text: Sequence[Pair] | None, sign: str) -> str:
    """Return the tables to print."""
    if options.show == "brief":
        rates = [percent(system.scores["aer"].value) for system in report.systems]
        return "\n".join("n/a" if rate is None else f"{rate:.{options.width}f}" for rate in rates)
    if options.show == "errors" and options.format == "text":
        drawn = draw_errors(report, text, options.errors, options.width, with_options, options.wide)
        return "\n".join([drawn, *([] if options.gold else [NOTE]), sign])
    if options.show == "errors":
        columns, rows = error_table(report, options.errors, options.width)
    elif options.show == "sentences":
        columns, rows = sentence_table(report, options.width)
    else:
        columns, rows = score_table(
            report, options.width, options.intervals, options.for_programs, options.format == "latex"
        )
    notes = count_notes(report) if options.gold else [NOTE]
    return writer(options.format, options.wide)(columns, rows, sign, notes)


def print_report(options: Options) -> None:
    """Read the files, judge the systems, and write the report to stdout."""
    text = None
    if options.text:
        text = read_text(*options.text, (name_shown(options.text[0]), name_shown(options.text[1])))
    report, sign = judge(options, text)
    if options.show == "brief" and not options.gold:
        warnings.warn(NOTE, TextWarning, stacklevel=2)
    with open_output(None) as out:
        out.write(tables(options, report, text, sign).encode("utf-8", "backslashreplace") + b"\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align eval`."""
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: print_report(options))
