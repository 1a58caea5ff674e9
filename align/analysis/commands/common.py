"""What the commands of `analyse-attention` share: the model, the text, and what becomes of an answer."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from align.cli.common import open_output, say
from align.cli.evaluation_options import WIDE_IDLE, add_table_options
from align.cli.input_options import check_files
from align.cli.models import MODEL_OPTIONS, ModelRequest, Models
from align.cli.options import MAX_THREADS, MODEL_IDLE, add_model_options, add_quiet_option, file_prefix, whole_number
from align.cli.parser import Parser
from align.cli.sweep import need
from align.core.batching import BUFFER
from align.core.errors import Argument, DataError, Remedy
from align.core.settings import Settings
from align.core.types import PARTS, Part
from align.io.reader import Input
from align.io.signature import Parts, signature
from align.models.model_toml import ModelOptions
from align.view.findings import Finding, draw_figures, write_tables

if TYPE_CHECKING:
    from align.analysis.maps import Inspected

PROGRAM = "analyse-attention"

IDLE = (MODEL_IDLE, WIDE_IDLE)

ATTENTION: Mapping[Part, str] = {
    "encoder": "attention of the encoder",
    "decoder": "attention of the decoder",
    "cross": "cross-attention",
}
"""What messages call that of each part of a model."""


@dataclass(frozen=True)
class Common:
    """What every command is asked for.

    Attributes:
        models: the model.
        format: of the tables.
        wide: whether text has all columns, not only those that fit a terminal.
        plots: the start of the pictures' names, if there are to be any.
        quiet: whether to say nothing but warnings and errors.
    """

    models: Models
    format: str
    wide: bool
    plots: Path | None
    quiet: bool


def add_common_options(parser: Parser) -> None:
    """The model, and what becomes of the answer."""
    add_quiet_option(parser)
    group = parser.add_argument_group("output")
    add_table_options(group)
    group.add_argument("--plots", metavar="PREFIX", type=file_prefix, help="draw figures: PREFIX.NAME.png and .pdf")
    add_model_options(parser)
    group = parser.add_argument_group("speed")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run the model")
    group.add_argument(
        "--threads", type=whole_number(1, MAX_THREADS), metavar="N", help="CPU threads (default: all cores)"
    )


def common_options(parser: Parser, args: argparse.Namespace) -> Common:
    """What the options of `add_common_options` ask for."""
    parser.refuse_idle(args, IDLE)
    options = ModelOptions(**{name: getattr(args, name) for name in MODEL_OPTIONS})
    request = ModelRequest(args.model, Settings(), options)
    models = Models(request, None, args.device, "float32", args.threads, 1, None, BUFFER, "blank")
    return Common(models, args.format, args.wide, args.plots, args.quiet)


@dataclass(frozen=True)
class Texts:
    """The text on which attention is looked at.

    Attributes:
        input: its files.
        lines: how many to read; None for all.
        parts: of the model; none for all that the text is enough for.
    """

    input: Input
    lines: int | None
    parts: tuple[Part, ...]

    def parts_of(self, model: Inspected) -> list[Part]:
        """The parts to look at.

        Raises:
            DataError: the model has no such part, or the text has no target side for it.
        """
        paired = not self.input.one_side
        wanted = self.parts or [part for part in model.shape if paired or part == "encoder"]
        for part in wanted:
            if part not in model.shape:
                there = " and ".join(ATTENTION[one] for one in model.shape)
                raise DataError(f"{model.name} has no {ATTENTION[part]}: there is {there}")
            if part != "encoder" and not paired:
                remedy = Remedy("give {}", (Argument("target"),))
                raise DataError(f"{ATTENTION[part]} needs a text's other side", remedy=remedy)
        return list(wanted)


def part_names(text: str) -> tuple[Part, ...]:
    """An argument of one or more parts of a model, with commas between."""
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in names)


def add_text_files(parser: Parser, target: str, one_side: bool = True) -> None:
    """The text on which attention is looked at.

    Args:
        parser: whose options these are.
        target: what `-t` is for.
        one_side: whether the text may have no other side.
    """
    all_parts = "all that it has; without -t the encoder" if one_side else "all"
    group = parser.add_argument_group("text (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("input", nargs="*", metavar="FILE", help="lines `source ||| target` or `source TAB target`")
    group.add_argument("-s", "--source", metavar="FILE", help="sentences, one a line")
    group.add_argument("-t", "--target", metavar="FILE", help=target)
    group.add_argument("--lines", type=whole_number(1), metavar="N", help="read the first N lines only")
    group.add_argument(
        "--parts",
        type=part_names,
        default=(),
        metavar="PART,PART",
        help=f"of the model: {', '.join(PARTS)} (default: {all_parts})",
    )


def read_texts(parser: Parser, args: argparse.Namespace) -> Texts:
    """The options of `add_text_files`."""
    if args.source is None and args.target is not None:
        parser.error("-t/--target goes with -s/--source")
    if not args.input and args.source is None:
        parser.error("give FILEs of both sides, or -s, and -t where there is another side")
    if args.input and args.source is not None:
        parser.error("either FILEs of both sides, or -s and -t")
    files = tuple(args.input) or tuple(name for name in (args.source, args.target) if name is not None)
    check_files(parser, files, None)
    one_side = not args.input and args.target is None
    return Texts(Input(files, args.target is not None, one_side), args.lines, args.parts)


def publish(common: Common, command: str, work: Callable[[], tuple[Finding, Parts]]) -> None:
    """Find something out, print the tables, and draw the figures.

    Args:
        common: how.
        command: for the signature.
        work: finds it out; returns what the signature says besides, too.
    """
    if common.plots:
        need("matplotlib", "figures")
        common.plots.parent.mkdir(parents=True, exist_ok=True)
    finding, parts = work()
    sign = signature({"name": command, **parts}, "analysis")
    drawn = draw_figures(finding, common.plots) if common.plots else []  # before there is anything on stdout
    with open_output(None) as stdout:
        stdout.write(write_tables(finding.tables, sign, format=common.format, wide=common.wide).encode() + b"\n")
    if not common.quiet:
        for path in drawn:
            say(f"{PROGRAM}: {path}")
