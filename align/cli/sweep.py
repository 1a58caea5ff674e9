"""`extract-align sweep`: every layer, head, score and position in one pass, with gold or without."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from align.cli.args import BATCH_ADVICE, MethodArgs, ModelArgs, RunArgs, TableArgs, TextArgs, read_input
from align.cli.common import open_output, run, say, show_warnings, with_options
from align.cli.gold_args import GoldArgs
from align.cli.loading import Request, load_models
from align.cli.options import add_group, file_prefix, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.types import Gold, Pair, TextWarning
from align.evaluation.gold import NumberedLinks, read_as
from align.evaluation.metrics import SAMPLES, SEED
from align.io.checks import open_text
from align.io.process import keep_freed_memory
from align.io.reader import Input, Text, name_shown
from align.io.signature import MERGE, signature

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.evaluation.swept import Sweep

PROGRAM = "extract-align sweep"

HOPELESS = 0.6
"""An AER that no trained model's best setting has: something else is wrong."""

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
        "--output",
        metavar="FILE",
        short="file of integer counts",
        help="integer counts of all settings, .tsv or .parquet",
    )
    per_sentence: bool = option("--per-sentence", default=False, help="with -o: a row for each sentence and setting")
    plots: Path | None = option(
        "--plots", metavar="PREFIX", type=file_prefix, help="draw heat maps: PREFIX.layers.png, .pdf and so on"
    )


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    text: Input
    args: SweepArgs
    tables: TableArgs
    gold: GoldArgs
    request: Request


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Which layer, head, score and position align best? All of them in one pass over a text."
    most_used = ("source", "target", "model", "reverse_model", "gold", "output")
    parser = new_parser(PROGRAM, description, EXAMPLES, most_used)
    reverse = {"help": "of the other direction, to choose by agreement"}
    add_group(parser, TextArgs, without=("columns", "bad_lines"))
    add_group(parser, GoldArgs, "gold (without it: what the rules choose that need none)")
    add_group(parser, SweepArgs)
    add_group(parser, TableArgs)
    add_group(parser, ModelArgs, without=("template",), reverse_model=reverse)
    add_group(parser, MethodArgs, only=("null",))
    add_group(parser, RunArgs, only=("device", "threads", "quiet"))
    return parser


def need(module: str, what: str, package: str | None = None) -> None:
    """Check that a library is installed, before the long work whose results need it."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"{what} need {package or module}: pip install {package or module}")


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line; conflicting options exit with code 2."""
    args = parser.parse_command(arguments)
    text = read_input(parser, read_group(TextArgs, args), args.output, args.gold)
    if args.output and not args.output.endswith((".tsv", ".parquet")):
        parser.error("-o is named .tsv or .parquet")
    if args.per_sentence and not (args.output and args.gold):
        parser.error("--per-sentence requires -o and -g")
    request = Request(
        read_group(ModelArgs, args),
        MethodArgs(position="input", null=args.null, reader="none"),
        read_group(RunArgs, args),
    )
    return Options(text, read_group(SweepArgs, args), read_group(TableArgs, args), read_group(GoldArgs, args), request)


def run_sweep(options: Options) -> None:
    """Read the text, run the sweep, print and write its tables and figures."""
    keep_freed_memory()
    if options.args.plots:
        need("matplotlib", "heat maps")
        options.args.plots.parent.mkdir(parents=True, exist_ok=True)
    if options.args.output and options.args.output.endswith(".parquet"):
        need("pyarrow", "Parquet files")
    with ExitStack() as stack:
        out = stack.enter_context(open_output(options.args.output)) if options.args.output else None
        text = stack.enter_context(open_text(options.text))
        gold = None
        if options.gold.gold:
            pairs = list(text)
            gold = read_as("gold", options.gold.gold, options.gold.options, pairs, name_shown(options.gold.gold))
            swept, aligners = sweep_models(options, pairs, text, gold.pairs)
            warn_if_hopeless(swept)
        else:
            swept, aligners = sweep_models(options, text, text)
        text.bad.warn()
        sign = sign_sweep(options, swept, aligners, gold)
        from align.view.sweep_tables import report, write_counts

        tables = report(
            swept,
            sign,
            format=options.tables.format,
            wide=options.tables.wide,
            samples=SAMPLES,
            seed=SEED,
            write=with_options,
        )
        with open_output(None) as stdout:
            stdout.write(tables.encode() + b"\n")
        if out and options.args.output:
            write_counts(swept, out, options.args.output, options.args.per_sentence, sign)
    if options.args.plots:
        draw_maps(swept, aligners[0].forward.recorder.name, options.args.plots, options.request.run.quiet)


def sweep_models(
    options: Options, pairs: Iterable[Pair], text: Text, gold: Sequence[Gold] | None = None
) -> tuple[Sweep, list[Aligner]]:
    """Load one model or two, and sweep; return them too."""
    aligners = load_models(PROGRAM, options.request)
    from align.evaluation.sweep import sweep

    swept = sweep(aligners[0], pairs, gold, *aligners[1:])
    if not swept.pairs:
        raise ValueError(f"{text.name} has no sentence pairs")
    if swept.skipped:
        message = f"too long for the model, and without links: {swept.skipped:,} pairs"
        warnings.warn(message, TextWarning, stacklevel=2)
    return swept, aligners


def warn_if_hopeless(swept: Sweep) -> None:
    """Warn where no setting at all agrees with the gold."""
    if (lowest := min(swept.rates().flat)) > HOPELESS:
        best = f"the lowest AER of all settings is {100 * lowest:.1f}"
        warnings.warn(f"{best}: is the gold of this text, and its base right?", TextWarning, stacklevel=2)


def sign_sweep(options: Options, swept: Sweep, aligners: Sequence[Aligner], gold: NumberedLinks | None) -> str:
    """Return the signature of the tables."""
    parts: dict[str, str | int | Sequence[str] | None] = {
        "model": [aligner.forward.recorder.name for aligner in aligners],
        "merge": MERGE,
        "null": list(dict.fromkeys(aligner.forward.settings.null for aligner in aligners)),
        "n": swept.pairs,
        "dtype": options.request.run.dtype,
        "skipped": swept.skipped or None,
    }
    if gold:
        parts |= {"gold": gold.kind, "ci": f"percentile-{SAMPLES}", "seed": SEED}
    return signature(parts, "sweep")


def draw_maps(swept: Sweep, model: str, prefix: Path, quiet: bool) -> None:
    """Draw heat maps of all settings into files, and name these on stderr."""
    from align.view.sweep_tables import draw, values_of

    for path in draw(*values_of(swept), swept.cells[-1].layer, prefix, [model], swept.pairs):
        if not quiet:
            say(f"{PROGRAM}: {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align sweep`."""
    options = read_options(build_parser(), arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: run_sweep(options), BATCH_ADVICE)
