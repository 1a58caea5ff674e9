"""Common parts of the commands of `extract-align analyse`: the model, the text, and the output."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from align.cli.args import MethodArgs, ModelArgs, RunArgs, TableArgs
from align.cli.common import open_output, say
from align.cli.loading import LANGUAGES, Request, load_models
from align.cli.options import file_prefix, option, read_group
from align.cli.parser import Parser
from align.cli.sweep import need
from align.core.errors import DataError, KindError, ModelError, plural
from align.core.types import Part
from align.io.process import keep_freed_memory
from align.io.reader import Input
from align.io.signature import Parts, signature
from align.view.findings import Finding, draw_figures, write_tables

if TYPE_CHECKING:
    from align.analysis.maps import Inspected
    from align.core.aligner import Aligner

PROGRAM = "extract-align analyse"


ATTENTION: Mapping[Part, str] = {
    "encoder": "attention of the encoder",
    "decoder": "attention of the decoder",
    "cross": "cross-attention",
}
"""Names in messages for the attention of each part of a model."""


@dataclass(frozen=True)
class FindingArgs(TableArgs):
    """Tables and figures."""

    TITLE: ClassVar = "output"

    plots: Path | None = option(
        "--plots", metavar="PREFIX", type=file_prefix, help="draw figures: PREFIX.NAME.png and .pdf"
    )


@dataclass(frozen=True)
class Common:
    """Options of all commands."""

    request: Request
    output: FindingArgs

    @property
    def quiet(self) -> bool:
        """Tell whether to print warnings and errors only."""
        return self.request.run.quiet


def common_options(args: argparse.Namespace) -> Common:
    """Read the options of the model and of the output."""
    method, run = MethodArgs(position="both", reader="none"), read_group(RunArgs, args)
    return Common(Request(read_group(ModelArgs, args), method, run), read_group(FindingArgs, args))


def text_of(args: argparse.Namespace) -> Input:
    """Return the files of the text to analyse, after `check_text`."""
    files = tuple(args.input) or tuple(name for name in (args.source, args.target) if name is not None)
    return Input(files, args.target is not None, not args.input and args.target is None)


def parts_of(model: Inspected, parts: Sequence[Part], one_side: bool) -> list[Part]:
    """Return the parts of the model to read; if none is asked for, all that the text is sufficient for."""
    parts = parts or [part for part in model.shape if part == "encoder" or not one_side]
    for part in parts:
        if part not in model.shape:
            there = " and ".join(ATTENTION[part_name] for part_name in model.shape)
            raise DataError(f"{model.name} has no {ATTENTION[part]}: there is {there}")
        if part != "encoder" and one_side:
            raise need_target(f"{ATTENTION[part]} needs a text's other side")
    return list(parts)


def need_target(text: str) -> DataError:
    """Return an error whose hint is a target side."""
    return DataError(text, hint="give ‹target›")


def check_text(parser: Parser, args: argparse.Namespace) -> None:
    """Check the files of a text."""
    if args.source is None and args.target is not None:
        parser.error("-t/--target requires -s/--source")
    if not args.input and args.source is None:
        parser.error("give FILEs of both sides, or -s, and -t where there is another side")
    if args.input and args.source is not None:
        parser.error("either FILEs of both sides, or -s and -t")


def publish(common: Common, command: str, work: Callable[[], tuple[Finding, Parts]]) -> None:
    """Run an analysis, print the tables, and draw the figures.

    Args:
        work: runs the analysis; returns its result and further parts of the signature.
    """
    plots, output = common.output.plots, common.output
    if plots:
        need("matplotlib", "figures")
        plots.parent.mkdir(parents=True, exist_ok=True)
    finding, parts = work()
    sign = signature({"name": command, **parts}, "analysis")
    drawn = draw_figures(finding, plots) if plots else []  # before anything is written to stdout
    with open_output(None) as stdout:
        stdout.write(write_tables(finding.tables, sign, format=output.format, wide=output.wide).encode() + b"\n")
    if not common.quiet:
        for path in drawn:
            say(f"{PROGRAM}: {path}")


# Models.


def load_inspected(common: Common) -> Inspected:
    """Load a model as `load_aligner` does, or a BERT-like encoder if the folder contains one."""
    folder = _encoder_folder(common)
    if folder is None:
        try:
            aligner = load_aligner(common)
        except KindError as error:
            from align.analysis.models.encoder import KINDS

            hint = "attention is read off these: " + ", ".join(sorted({*error.known, *KINDS}))
            raise ModelError(error.what, file=error.file, hint=hint) from None
        from align.analysis.models.translation import TranslationModel

        recorder: Any = aligner.forward.recorder  # its type depends on the backend
        return TranslationModel(recorder)
    keep_freed_memory()
    import torch

    from align.analysis.models.encoder import load_encoder
    from align.models.load import pick_device

    if option := next((name for name in LANGUAGES if getattr(common.request.model, name) is not None), None):
        hint = f"leave ‹{option}› out"
        raise ModelError("an encoder alone, whose tokenizer says all of its text", file=str(folder), hint=hint)
    if common.request.run.threads:
        torch.set_num_threads(common.request.run.threads)
    device = pick_device(common.request.run.device)
    model = load_encoder(folder, device)
    if not common.quiet:
        threads = f" ({plural(torch.get_num_threads(), 'thread')})" if device == "cpu" else ""
        say(f"{PROGRAM}: {model.name} on {device}{threads}")
    return model


def load_aligner(common: Common, whole: bool = True) -> Aligner:
    """Load a translation model, and report its name.

    Args:
        whole: whether to refuse a model with pruned heads.

    Raises:
        ModelError: the model is an encoder alone, or heads have been pruned from it.
    """
    keep_freed_memory()
    if folder := _encoder_folder(common):
        raise ModelError("an encoder alone: this command needs a translation model", file=str(folder))
    (aligner,) = load_models(PROGRAM, common.request)
    from align.analysis.pruning import is_pruned
    from align.models.causal.model import CausalRecorder
    from align.models.fairseq.checkpoint import load_checkpoint

    recorder: Any = aligner.forward.recorder  # its type depends on the backend
    if isinstance(recorder, CausalRecorder):
        raise ModelError("a decoder-only model: this command needs an encoder-decoder", file=common.request.name)
    checked = whole and recorder.backend == "fairseq"
    if checked and is_pruned(load_checkpoint(recorder.origin[0].checkpoint, mapped=True)):
        message = "heads have been pruned from this model: questions about attention need all of them"
        raise ModelError(message, file=common.request.name)
    return aligner


def _encoder_folder(common: Common) -> Path | None:
    """Return the model's folder if it contains a BERT-like encoder."""
    if not (folder := Path(common.request.name)).is_dir():
        return None
    from align.analysis.models.encoder import is_encoder

    return folder if is_encoder(folder) else None
