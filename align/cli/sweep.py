"""`sweep-align`: every layer, head, score and position in one pass, with gold or without."""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import align
from align.cli.common import as_flag, open_output, run, say, show_warnings
from align.cli.gold_options import add_link_options, add_range_option, link_options
from align.cli.inputs import add_input_options, check_inputs, name_shown, open_pairs
from align.cli.models import load_models, requested_models
from align.cli.options import (
    BATCH_ADVICE,
    Help,
    add_model_options,
    add_null_option,
    add_speed_options,
    non_negative,
)
from align.errors import PairError
from align.links.gold import read_as
from align.links.metrics import SAMPLES, SEED
from align.memory import keep_freed_memory
from align.types import Settings, TextWarning
from align.view.tables import TABLES

if TYPE_CHECKING:
    from align.aligners.swept import Sweep

PROGRAM = "sweep-align"

HOPELESS = 0.6
"""An AER that no trained model's best setting has: something else is wrong."""

EXAMPLES = """examples:
  sweep-align -s test.de -t test.en -g gold.talp             AER of all layers, heads, scores and positions
  sweep-align -s test.de -t test.en -g gold.talp -o counts.parquet --plots figures/model
  sweep-align -s text.de -t text.en --reverse-model path/to/en-de    without gold: what each rule would choose
"""


def build_parser() -> argparse.ArgumentParser:
    """All options, in groups."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Which layer, head, score and position align best? All of them in one pass over a text.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {align.__version__}")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but warnings and errors")
    add_input_options(parser)
    group = parser.add_argument_group("gold (without it: what the rules choose that need none)")
    add_link_options(group, "gold")
    add_range_option(group)
    group.add_argument("--samples", type=non_negative, default=SAMPLES, metavar="N", help="of the bootstrap; 0: none")
    group.add_argument("--seed", type=non_negative, default=SEED, metavar="N", help="of the samples")
    group = parser.add_argument_group("output")
    group.add_argument("-f", "--format", choices=tuple(TABLES), default="text", help="of the tables on stdout")
    group.add_argument("-o", "--output", metavar="FILE", help="integer counts of all settings, .tsv or .parquet")
    group.add_argument("--per-sentence", action="store_true", help="with -o: a row for each sentence and setting")
    group.add_argument("--plots", metavar="PREFIX", type=Path, help="draw heat maps: PREFIX.layers.png, .pdf and so on")
    add_model_options(parser)
    group = parser.add_argument_group("method")
    add_null_option(group)
    group.add_argument("--reverse-model", metavar="MODEL", help="of the other direction, to choose by agreement")
    add_speed_options(parser, "lines read ahead and sorted by length")
    return parser


def need(module: str, extra: str, what: str) -> None:
    """Ask for a library before the work is done that needs it afterwards.

    Raises:
        ModuleNotFoundError: it is not installed; says how to install it.
    """
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"{what} need {module}: pip install 'extract-align[{extra}]'")


def run_sweep(args: argparse.Namespace) -> None:
    """Read, sweep, print, write and draw."""
    keep_freed_memory()
    if args.plots:
        need("matplotlib", "plots", "heat maps")
        args.plots.parent.mkdir(parents=True, exist_ok=True)
    if args.output and args.output.endswith(".parquet"):
        need("pyarrow", "parquet", "Parquet files")
    with ExitStack() as stack:
        out = stack.enter_context(open_output(args.output)) if args.output else None
        stream, name = stack.enter_context(open_pairs(args))
        pairs: Any = list(stream) if args.gold else stream
        file = None
        if args.gold:
            file = read_as("gold", args.gold, link_options(args, "gold"), pairs, name_shown(args.gold))
        gold = file.pairs if file else None
        found, models = sweep_models(args, pairs, name, gold)
        parts = ["sweep", *models, "sum/mean", f"null:{args.null}", f"n:{found.pairs}"]
        parts += [f"dtype:{args.dtype}"] if args.dtype != "float32" else []
        parts += [f"skipped:{found.skipped}"] if found.skipped else []
        parts += [f"gold:{file.kind}", f"ci:percentile-{args.samples}", f"seed:{args.seed}"] if file else []
        sign = "|".join([*parts, f"v:{align.__version__}"])
        from align.view.sweep_tables import draw, report, values_of, write_counts

        if file and (lowest := min(found.rates().flat)) > HOPELESS:
            best = f"the lowest AER of all settings is {100 * lowest:.1f}"
            warnings.warn(f"{best}: is the gold of this text, and its base right?", TextWarning, stacklevel=2)
        with open_output(None) as stdout:
            stdout.write(
                report(found, sign, format=args.format, samples=args.samples, seed=args.seed, spell=as_flag).encode()
                + b"\n"
            )
        if out:
            write_counts(found, out, args.output, args.per_sentence, sign)
    if args.plots:
        chosen = "framed: best, with gold" if found.counts is not None else "framed: best, without gold"
        title = f"{models[0]}, {found.pairs:,} pairs\n{chosen}"
        for path in draw(*values_of(found), found.cells[-1].layer, args.plots, title):
            if not args.quiet:
                say(f"{PROGRAM}: {path}")


def sweep_models(args: argparse.Namespace, pairs: Any, name: str, gold: Any) -> tuple[Sweep, list[str]]:
    """Load one model or two, and sweep; gives back the models' names too.

    Raises:
        ValueError: no pairs, or one that is too long for a model.
    """
    aligners = load_models(PROGRAM, requested_models(args, Settings(null=args.null)), args.quiet)
    from align.aligners.sweep import sweep

    try:
        found = sweep(aligners[0], pairs, gold, *aligners[1:])
    except PairError as error:
        raise error.in_file(name) from None
    if not found.pairs:
        raise ValueError(f"{name} has no sentence pairs")
    if found.skipped:
        message = f"too long for the model, and without links: {found.skipped:,} pairs"
        warnings.warn(message, TextWarning, stacklevel=2)
    return found, [aligner.recorder.name for aligner in aligners]


def main() -> int:
    """Entry point of `sweep-align`."""
    parser = build_parser()
    args = parser.parse_args()
    check_inputs(parser, args, args.gold)
    if args.output and not args.output.endswith((".tsv", ".parquet")):
        parser.error("-o is named .tsv or .parquet")
    if (args.out_of_range != "stop" or args.gold_format or args.gold_base is not None) and not args.gold:
        parser.error("--out-of-range, --gold-format and --gold-base go with -g")
    if args.plots and not args.plots.name:
        parser.error("--plots takes the beginning of file names, such as figures/model")
    if args.per_sentence and not (args.output and args.gold):
        parser.error("--per-sentence goes with -o and -g")
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: run_sweep(args), BATCH_ADVICE)


if __name__ == "__main__":
    sys.exit(main())
