"""`extract-align sweep`: every layer, head, score and position in one pass, with gold or without."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from align.cli.args import BATCH_ADVICE, MethodArgs, ModelArgs, RunArgs, TableArgs, TextArgs, read_input
from align.cli.common import open_output, run, say, with_options
from align.cli.gold_args import GoldArgs
from align.cli.loading import Request, load_models
from align.cli.options import add_group, file_prefix, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.errors import plural
from align.core.types import Pair, TextWarning
from align.evaluation.gold import read_as
from align.evaluation.metrics import SAMPLES, SEED
from align.io.checks import open_text
from align.io.process import keep_freed_memory
from align.io.reader import Input, name_shown
from align.io.signature import MERGE, signature

PROGRAM = "extract-align sweep"
HOPELESS = 0.6  # an AER that no trained model's best setting has: something else is wrong

EXAMPLES = """examples:
  extract-align sweep -s test.de -t test.en -g gold.talp   AER of all layers, heads, scores and positions
  extract-align sweep -s test.de -t test.en -g gold.talp -o counts.parquet --plots figures/model
  extract-align sweep -s text.de -t text.en --reverse-model path/to/en-de   without gold: what each rule would choose
"""


@dataclass(frozen=True)
class SweepArgs:
    """Files of counts and figures."""

    TITLE: ClassVar = "output"

    output: str | None = option(
        "-o",
        writes=True,
        metavar="FILE",
        short="file of integer counts",
        help="integer counts of all settings, .tsv or .parquet",
    )
    per_sentence: bool = option(default=False, help="with -o: a row for each sentence and setting")
    plots: Path | None = option(
        metavar="PREFIX", type=file_prefix, help="draw heat maps: PREFIX.layers.png, .pdf and so on"
    )


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Compare all layers, heads, scores and positions in one pass over a text."
    most_used = ("source", "target", "model", "reverse_model", "gold", "output")
    parser = new_parser(PROGRAM, description, EXAMPLES, most_used)
    reverse = {"help": "model of the other direction, for the choice by agreement"}
    add_group(parser, TextArgs, without=("columns", "bad_lines"))
    add_group(parser, GoldArgs, "gold (without it: what the rules choose that need none)")
    add_group(parser, SweepArgs)
    add_group(parser, TableArgs)
    add_group(parser, ModelArgs, without=("template", "adapter"), reverse_model=reverse)
    add_group(parser, MethodArgs, only=("null",))
    add_group(parser, RunArgs, only=("device", "threads", "quiet"))
    return parser


def need(module: str, what: str, extra: str = "analysis") -> None:
    """Check that a library is installed, before the long work whose results need it."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"{what} need {module}: pip install '.[{extra}]'")


def run_sweep(text: Input, args: SweepArgs, tables: TableArgs, gold_args: GoldArgs, request: Request) -> None:
    """Read the text, run the sweep, print and write its tables and figures."""
    keep_freed_memory()
    if args.plots:
        need("matplotlib", "heat maps", "plots")
        args.plots.parent.mkdir(parents=True, exist_ok=True)
    if args.output and args.output.endswith(".parquet"):
        need("pyarrow", "Parquet files", "parquet")
    with ExitStack() as stack:
        out = stack.enter_context(open_output(args.output)) if args.output else None
        pairs = stack.enter_context(open_text(text))
        pairs_with_gold, gold = list[Pair](), None
        if gold_args.gold:
            pairs_with_gold = list(pairs)
            gold = read_as("gold", gold_args.gold, gold_args.options, pairs_with_gold, name_shown(gold_args.gold))
        aligners = load_models(PROGRAM, request)
        from align.evaluation.sweep import sweep
        from align.view.sweep_tables import draw, report, values_of, write_counts

        swept = sweep(aligners[0], pairs_with_gold if gold else pairs, gold.pairs if gold else None, *aligners[1:])
        if not swept.pairs:
            raise ValueError(f"{pairs.name} has no sentence pairs")
        if swept.skipped:
            message = f"too long for the model, and without links: {plural(swept.skipped, 'pair')}"
            warnings.warn(message, TextWarning, stacklevel=2)
        if gold and (lowest := min(swept.rates().flat)) > HOPELESS:
            best = f"the lowest AER of all settings is {100 * lowest:.1f}"
            warnings.warn(f"{best}: check that the gold is of this text, and its base", TextWarning, stacklevel=2)
        pairs.bad.warn()
        parts: dict[str, str | int | Sequence[str] | None] = {
            "model": [aligner.forward.recorder.name for aligner in aligners],
            "merge": MERGE,
            "null": list(dict.fromkeys(aligner.forward.settings.null for aligner in aligners)),
            "n": swept.pairs,
            "dtype": request.run.dtype,
            "skipped": swept.skipped or None,
        }
        if gold:
            parts |= {"gold": gold.kind, "ci": f"percentile-{SAMPLES}", "seed": SEED}
        sign = signature(parts, "sweep")
        printed = report(swept, sign, format=tables.format, wide=tables.wide, write=with_options)
        with open_output(None) as stdout:
            stdout.write(printed.encode() + b"\n")
        if out and args.output:
            write_counts(swept, out, args.output, args.per_sentence, sign)
    if args.plots:
        model = aligners[0].forward.recorder.name
        for path in draw(*values_of(swept), swept.cells[-1].layer, args.plots, [model], swept.pairs):
            if not request.run.quiet:
                say(f"{PROGRAM}: {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align sweep`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    text = replace(read_input(parser, read_group(TextArgs, args)), blank=None)
    if args.output and not args.output.endswith((".tsv", ".parquet")):
        parser.error("-o FILE must end in .tsv or .parquet")
    if args.per_sentence and not (args.output and args.gold):
        parser.error("--per-sentence requires -o and -g")
    method = MethodArgs(position="input", null=args.null, scorer="none")
    request = Request(read_group(ModelArgs, args), method, read_group(RunArgs, args))
    groups = read_group(SweepArgs, args), read_group(TableArgs, args), read_group(GoldArgs, args)
    return run(PROGRAM, lambda: run_sweep(text, *groups, request), BATCH_ADVICE)
