"""What the commands of `analyse-attention` share: the model, the text, and what becomes of an answer."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.backends.model_toml import ModelOptions
from align.cli.common import open_output, say
from align.cli.evaluation_options import WIDE_IDLE, add_table_options
from align.cli.inputs import Input, check_files, open_text
from align.cli.models import MODEL_OPTIONS, ModelRequest, Models, load_models
from align.cli.options import MAX_THREADS, MODEL_IDLE, add_model_options, add_quiet_option, file_prefix, whole_number
from align.cli.parser import Parser
from align.cli.sweep import need
from align.errors import Argument, DataError, KindError, ModelError, Remedy, plural
from align.memory import keep_freed_memory
from align.signature import Parts, signature
from align.text.batching import BUFFER
from align.types import PARTS, Pair, Part, Settings, TextWarning
from align.view.report import Finding, draw_figures, write_tables

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.analysis.maps import Inspected, Layered, Reading

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


class Counted:
    """A model that counts what it leaves out; see `align.analysis.maps.Inspected`.

    Args:
        model: the model.

    Attributes:
        name: of the model.
        shape: likewise.
        left_out: pairs of which nothing was read: blank ones, or too long.
        too_long: those of them that are not blank.
    """

    def __init__(self, model: Inspected) -> None:
        self._model = model
        self.name, self.shape = model.name, model.shape
        self.left_out = self.too_long = 0

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """The attention to each pair."""
        for reading in self._model.read(pairs, parts):
            if not reading.maps:
                words = reading.pair.source and (reading.pair.target or set(parts) == {"encoder"})
                self.left_out += 1
                self.too_long += bool(words)
            yield reading


def ask(
    common: Common, texts: Texts, question: Callable[[Inspected, Iterator[Pair], list[Part]], Finding]
) -> tuple[Finding, dict[str, str | int | None]]:
    """Ask something of a text, and warn of lines that are too long.

    Args:
        common: how.
        texts: the text.
        question: what to find out of a model, of pairs, and of parts of the model.

    Returns:
        The answer, and what the signature says of model and text: how many lines were looked at.
    """
    model = Counted(load_inspected(common))
    with open_text(texts.input) as text:
        finding = question(model, islice(text, texts.lines), texts.parts_of(model))
        if model.too_long:
            message = f"too long for the model, and left out: {plural(model.too_long, 'line')}"
            warnings.warn(message, TextWarning, stacklevel=2)
        return finding, {"model": model.name, "n": text.lines - model.left_out}


def load_inspected(common: Common) -> Layered:
    """As `load_aligner`; an encoder like BERT, where the model is a folder of one."""
    if folder := _encoder_folder(common):
        keep_freed_memory()
        return _load_encoder(folder, common)
    try:
        aligner = load_aligner(common)
    except KindError as error:
        from align.analysis.models.pretrained import KINDS

        remedy = Remedy("attention is read off these: " + ", ".join(sorted({*error.known, *KINDS})))
        raise ModelError(error.what, file=error.file, remedy=remedy) from None
    from align.analysis.models.translation import TranslationModel

    recorder: Any = aligner.recorder  # of a backend, and so open
    return TranslationModel(recorder)


def load_aligner(common: Common, whole: bool = True) -> Aligner:
    """Load the model, which has to be a translation model, and say which it is.

    Args:
        common: says which.
        whole: whether no head may have been pruned from it.

    Raises:
        ModelError: it is an encoder alone, or heads have been pruned from it.
    """
    keep_freed_memory()
    if folder := _encoder_folder(common):
        raise ModelError("an encoder alone: this command needs a translation model", file=str(folder))
    (aligner,) = load_models(PROGRAM, common.models, common.quiet)
    from align.analysis.models.masking import is_pruned

    recorder: Any = aligner.recorder  # of a backend, and so open
    if whole and is_pruned(recorder.transformer):
        what = "heads have been pruned from this model: questions about attention need all of them"
        raise ModelError(what, file=common.models.forward.name)
    return aligner


def _encoder_folder(common: Common) -> Path | None:
    """The model's folder, if a BERT-like encoder is in it."""
    if not (folder := Path(common.models.forward.name)).is_dir():
        return None
    from align.analysis.models.pretrained import is_encoder

    return folder if is_encoder(folder) else None


def _load_encoder(folder: Path, common: Common) -> Layered:
    """A BERT-like encoder, which none of the options of translation models is for.

    Raises:
        ModelError: one of them is given.
    """
    import torch

    from align.analysis.models.encoder import load_encoder
    from align.loading import pick_device

    if given := next(
        (name for name in MODEL_OPTIONS if getattr(common.models.forward.options, name) is not None), None
    ):
        remedy = Remedy("leave {} out", (Argument(given),))
        raise ModelError("an encoder alone, whose tokenizer says all of its text", file=str(folder), remedy=remedy)
    if common.models.threads:
        torch.set_num_threads(common.models.threads)
    device = pick_device(common.models.device)
    model = load_encoder(folder, device)
    if not common.quiet:
        threads = f" ({plural(torch.get_num_threads(), 'thread')})" if device == "cpu" else ""
        say(f"{PROGRAM}: {model.name} on {device}{threads}")
    return model


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
