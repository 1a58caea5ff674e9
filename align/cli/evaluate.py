"""`eval-align`: alignment error rate against gold, with intervals, paired tests and pictures of the errors."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import align
from align.cli.common import open_output, run, show_warnings
from align.cli.gold import add_length_options, add_link_options, read_numbered, read_pairs, warn_of_better_readings
from align.cli.options import Help, digits, non_negative, positive
from align.links.metrics import METRICS, SAMPLES, SEED, Counts, Test, compare, count_all, estimate, worst
from align.types import Gold, Links, Pair, TextWarning
from align.view.escape import printable
from align.view.grid import ERROR_SIGNS, error_grid
from align.view.tables import TABLES, Column, Rows, Value, percent, show_interval

PROGRAM = "eval-align"

EXAMPLES = """examples:
  eval-align -g gold.talp links                          AER, precision, recall, F1, with intervals
  eval-align -g test.wa.nonullalign -s test.e -t test.f a.talp b.talp --paired permutation
  eval-align -g gold.talp links --errors 5 -s test.de -t test.en          the five worst sentences, drawn
  eval-align -g gold.talp links -b                       the number alone
"""


def build_parser() -> argparse.ArgumentParser:
    """All options, in groups."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Alignment error rate, precision, recall and F1 of word alignments against gold.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {align.__version__}")
    parser.add_argument("hypotheses", nargs="+", metavar="HYP", help="links to judge, a file for each system")
    group = parser.add_argument_group("gold (nothing is guessed: what a file leaves open is asked for)")
    add_link_options(group, "gold", required=True)
    add_link_options(parser.add_argument_group("hypotheses"), "hyp")
    add_length_options(parser.add_argument_group("the text, to check indices against and to show words"))
    group = parser.add_argument_group("statistics")
    group.add_argument(
        "--samples", type=non_negative, default=SAMPLES, metavar="N", help="of the bootstrap or permutations; 0: none"
    )
    group.add_argument("--seed", type=non_negative, default=SEED, metavar="N", help="of the samples")
    group.add_argument("--paired", choices=get_args(Test), help="test every system against the first one")
    group = parser.add_argument_group("output")
    modes = group.add_mutually_exclusive_group()
    modes.add_argument("--per-sentence", action="store_true", help="a row for each sentence and system instead")
    modes.add_argument(
        "--errors", type=positive, metavar="N", help="the N sentences with the most errors of each system instead"
    )
    modes.add_argument("-b", "--brief", action="store_true", help="the AER alone, a line for each system")
    group.add_argument("-f", "--format", choices=tuple(TABLES), default="text", help="of tables")
    group.add_argument("-w", "--width", type=digits, default=2, metavar="N", help="digits behind the point")
    return parser


@dataclass(frozen=True)
class System:
    """One system's links and counts `[N, 4]`."""

    name: str
    links: list[Links]
    counts: Counts


def _short(names: list[str]) -> list[str]:
    """File names without the folders that all of them share."""
    shared = len(os.path.commonpath([os.path.dirname(os.path.abspath(name)) for name in names]))
    return ["stdin" if name == "-" else os.path.abspath(name)[shared:].lstrip(os.sep) for name in names]


def read_systems(args: argparse.Namespace, text: list[Pair] | None) -> tuple[list[Gold], list[System], str]:
    """Gold, systems, and what the files were taken for, for the signature.

    Raises:
        ValueError: files that cannot be read beyond doubt, or that do not belong together.
    """
    files = [read_numbered(args.gold, args, "gold", text)]
    files += [read_numbered(name, args, "hyp", text) for name in args.hypotheses]
    sizes = {file.file.name: len(file.pairs) for file in files}
    longest = max(sizes, key=lambda name: sizes[name])
    number = sizes[longest] if text is None else len(text)
    gold, *hypotheses = (file.padded_to(number, longest, text is not None) for file in files)
    for file in files[1:]:
        if all(pair.sure == pair.possible for pair in gold) and any(pair.sure != pair.possible for pair in file.pairs):
            message = f"{file.file.name} tells sure from possible links, and the gold does not: are they exchanged?"
            warnings.warn(message, TextWarning, stacklevel=2)
    systems = []
    for file, pairs, name in zip(files[1:], hypotheses, _short(args.hypotheses), strict=True):
        links = [pair.possible for pair in pairs]
        systems.append(System(name, links, count_all(links, gold)))
        warn_of_better_readings(file.file.name, links, gold, systems[-1].counts)
    kinds = "+".join(sorted({file.kind for file in files[1:]}))
    return gold, systems, f"gold:{files[0].kind}|hyp:{kinds}"


HEADS = {"aer": "AER", "precision": "P", "recall": "R", "f1": "F1"}


def summary(systems: Sequence[System], args: argparse.Namespace) -> tuple[list[Column], Rows]:
    """A row for each system: scores with intervals, link counts, and the test against the first."""
    columns = [Column("system", "system")]
    with_interval = [name for name in METRICS if args.samples and (name == "aer" or args.format in ("json", "tsv"))]
    for name, head in HEADS.items():
        columns.append(Column(name, head, args.width))
        if name in with_interval and args.format in ("json", "tsv"):
            columns += [Column(f"{name}_low", "", args.width), Column(f"{name}_high", "", args.width)]
        elif name in with_interval:
            columns.append(Column("interval", "95 % interval"))
    columns += [Column("links", "links"), Column("in_sure", "in sure"), Column("in_possible", "in sure or possible")]
    columns += [Column("difference", "- first", args.width), Column("p", "p", 4)] if args.paired else []
    rows = []
    for system in systems:
        row: dict[str, Value] = {"system": system.name}
        for name in METRICS:
            found = estimate(system.counts, name, args.samples if name in with_interval else 0, args.seed)
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(percent, found), strict=True))
        row["interval"] = show_interval(row["aer_low"], row["aer_high"], args.width)
        in_sure, in_possible, links, _ = (int(n) for n in system.counts.sum(0))
        row |= {"links": links, "in_sure": in_sure, "in_possible": in_possible, "difference": None, "p": None}
        if args.paired and system is not systems[0]:
            difference, row["p"] = compare(
                system.counts, systems[0].counts, args.paired, samples=args.samples, seed=args.seed
            )
            row["difference"] = percent(difference)
        rows.append(row)
    return columns, rows


def per_sentence(systems: Sequence[System], args: argparse.Namespace) -> tuple[list[Column], Rows]:
    """A row for each sentence and system."""
    columns = [Column("line", "line"), Column("system", "system")]
    columns += [Column(name, head, args.width) for name, head in HEADS.items()]
    columns += [Column("links", "links"), Column("in_sure", "in sure"), Column("in_possible", "in sure or possible")]
    columns.append(Column("sure", "sure"))
    rows = []
    for n in range(len(systems[0].counts)):
        for system in systems:
            one = system.counts[n]
            scores = {name: percent(estimate(one[None], name, samples=0).value) for name in METRICS}
            counts = dict(zip(("in_sure", "in_possible", "links", "sure"), map(int, one), strict=True))
            rows.append({"line": n + 1, "system": system.name, **scores, **counts})
    return columns, rows


def error_rows(gold: Sequence[Gold], systems: Sequence[System], args: argparse.Namespace) -> tuple[list[Column], Rows]:
    """A row for each of the sentences with the most errors, by system: wrong links, and sure ones that are missing."""
    columns = [Column("system", "system"), Column("line", "line"), Column("errors", "errors")]
    columns += [Column("aer", "AER", args.width), Column("wrong", "wrong"), Column("missing", "missing")]
    rows = []
    for system in systems:
        for n in worst(system.counts, args.errors):
            listed = {"wrong": system.links[n] - gold[n].possible, "missing": gold[n].sure - system.links[n]}
            shown = {key: " ".join(f"{i}-{j}" for i, j in sorted(found)) for key, found in listed.items()}
            value = estimate(system.counts[n : n + 1], samples=0).value
            errors = sum(map(len, listed.values()))
            rows.append({"system": system.name, "line": n + 1, "errors": errors, "aer": percent(value), **shown})
    return columns, rows


def draw_errors(
    gold: Sequence[Gold], systems: Sequence[System], text: list[Pair] | None, args: argparse.Namespace
) -> str:
    """The same sentences, drawn."""
    drawn = []
    for system in systems:
        for n in worst(system.counts, args.errors):
            value = estimate(system.counts[n : n + 1], samples=0).value
            rate = "n/a" if value is None else f"{100 * value:.{args.width}f}"
            in_sure, in_possible, links, sure = system.counts[n]
            errors = f"{links - in_possible} wrong, {sure - in_sure} missing"
            drawn.append(f"{printable(system.name)}, line {n + 1}: {errors}, AER {rate}")
            drawn.append(error_grid(system.links[n], gold[n], text[n] if text else None) + "\n")
    signs = "   ".join(f"{sign} {meaning}" for sign, meaning in ERROR_SIGNS.items())
    if text is None:
        signs += "\nwords without a link have no row or column; with -s and -t all words are shown"
    return "\n".join((*drawn, signs)) if drawn else "no errors"


def report(args: argparse.Namespace) -> str:
    """Read and judge; what there is to print."""
    text = read_pairs(args.source, args.target) if args.source else None
    gold, systems, files = read_systems(args, text)
    if args.brief:
        rates = [percent(estimate(system.counts, samples=0).value) for system in systems]
        return "\n".join("n/a" if rate is None else f"{rate:.{args.width}f}" for rate in rates)
    parts = ["AER", files, f"n:{len(gold)}"]
    if args.samples and not (args.per_sentence or args.errors):
        parts += [f"ci:percentile-{args.samples}", f"seed:{args.seed}"]
        parts += [f"test:{args.paired}"] if args.paired else []
    sign = "|".join([*parts, f"v:{align.__version__}"])
    if args.errors and args.format == "text":
        return f"{draw_errors(gold, systems, text, args)}\n{sign}"
    if args.errors:
        columns, rows = error_rows(gold, systems, args)
    else:
        columns, rows = per_sentence(systems, args) if args.per_sentence else summary(systems, args)
    sure, possible = (sum(len(getattr(pair, kind)) for pair in gold) for kind in ("sure", "possible"))
    notes = [f"gold: {len(gold):,} sentence pairs, {sure:,} sure and {possible - sure:,} only possible links"]
    return TABLES[args.format](columns, rows, sign, notes)


def evaluate(args: argparse.Namespace) -> None:
    """Print the report."""
    with open_output(None) as out:
        out.write(report(args).encode("utf-8", "backslashreplace") + b"\n")


def main() -> int:
    """Entry point of `eval-align`."""
    parser = build_parser()
    args = parser.parse_args()
    if [args.gold, *args.hypotheses, args.source, args.target].count("-") > 1:
        parser.error("only one file can be stdin")
    if (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.paired and (args.per_sentence or args.errors or args.brief or not args.samples):
        parser.error("--paired needs --samples, and goes with the summary only")
    if args.out_of_range != "stop" and args.source is None:
        parser.error("--out-of-range needs the text: -s and -t")
    if args.paired and len(args.hypotheses) < 2:
        parser.error("--paired compares systems: name two files or more")
    if args.brief and args.format != "text":
        parser.error("-b prints bare numbers: -f has no part in it")
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: evaluate(args))


if __name__ == "__main__":
    sys.exit(main())
