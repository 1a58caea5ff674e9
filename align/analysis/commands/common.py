"""Common parts of the commands of `extract-align analyse`: options, the model, the text, and the output."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from align.cli.args import TableArgs
from align.cli.common import open_output, say
from align.cli.loading import Request, load_models
from align.cli.options import argument, file_prefix, option, seed_number, whole_number
from align.cli.parser import Parser
from align.cli.sweep import need
from align.core.errors import DataError, KindError, ModelError, plural
from align.core.types import PARTS, Pair, Part, TextWarning
from align.io.checks import open_text
from align.io.process import keep_freed_memory
from align.io.reader import Input, name_shown
from align.io.signature import Parts, signature
from align.view.findings import Finding, draw_figures, write_tables

if TYPE_CHECKING:
    from align.analysis.maps import Inspected
    from align.core.aligner import Aligner

PROGRAM = "extract-align analyse"

FILES = "UTF-8; .gz, .xz and .zst are decompressed; - is stdin"

ATTENTION: Mapping[Part, str] = {
    "encoder": "attention of the encoder",
    "decoder": "attention of the decoder",
    "cross": "cross-attention",
}
"""Names in messages for the attention of each part of a model."""

Answer = tuple[Finding, Parts]  # tables and figures, and parts of the signature

T = TypeVar("T")


# Options.


def number(least: int, default: int | None, help: str, limit: int | None = None) -> Any:
    """Declare the option of a whole number."""
    return option(type=whole_number(least, limit), default=default, metavar="N", help=help)


def seed(help: str, default: int = 1) -> Any:
    """Declare the seed."""
    return option(type=seed_number, default=default, metavar="N", help=f"random seed {help}")


def file(*flags: str, help: str, **settings: Any) -> Any:
    """Declare an argument that names a file."""
    return option(*flags, metavar="FILE", help=help, **settings)


def attention(default: str) -> Any:
    """Declare the parts of the model whose attention is read."""
    help = f"parts of the model's attention: {', '.join(PARTS)} (default: {default})"
    return option("--attention", default=(), type=part_names, metavar="PART,PART", help=help)


def part_names(names: str) -> tuple[Part, ...]:
    """Parse one or more parts of a model, with commas between."""
    words = names.split(",")
    if unknown := [name for name in words if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in words)


def separated(parse: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Return a parser of one or more values with commas between, each once."""
    return lambda text: tuple(dict.fromkeys(map(parse, text.split(","))))


@dataclass(frozen=True)
class FindingArgs(TableArgs):
    """Tables and figures."""

    TITLE: ClassVar = "output"

    plots: Path | None = option(
        "--plots", metavar="PREFIX", type=file_prefix, help="draw figures: PREFIX.NAME.png and .pdf"
    )


@dataclass(frozen=True)
class Question:
    """The options of a command, which `answer(question, request)` of a module answers.

    The docstring of a subclass is the command's help: a sentence or a question, and command lines.
    """

    TITLE: ClassVar = f"data and method (files: {FILES})"
    WITHOUT: ClassVar[tuple[str, ...]] = ()  # options of all commands that this one does not have
    CHANGES: ClassVar[Mapping[str, Any]] = {}  # settings of inherited options that differ
    MODULE: ClassVar = ""  # the module in `align.analysis`, which is imported when the question is answered
    SIGNED: ClassVar = ""  # parts of the signature: options, or what `answer` returns for them

    def check(self, parser: Parser) -> None:
        """Reject invalid combinations of options."""

    def run(self, words: Sequence[str], request: Request, output: FindingArgs) -> None:
        """Answer the question, print the tables, and draw the figures; `words` are the command line."""
        if output.plots:
            need("matplotlib", "figures", "plots")
            output.plots.parent.mkdir(parents=True, exist_ok=True)
        finding, parts = import_module(f"align.analysis.{self.MODULE}").answer(self, request)
        signed = {key: parts[key] if key in parts else getattr(self, key) for key in self.SIGNED.split()}
        signed = {key: f"{value:g}" if isinstance(value, float) else value for key, value in signed.items()}
        sign = signature({"name": words[0], **signed}, "analysis")
        drawn = draw_figures(finding, output.plots) if output.plots else []  # before anything is written to stdout
        with open_output(None) as stdout:
            stdout.write(write_tables(finding.tables, sign, format=output.format, wide=output.wide).encode() + b"\n")
        for path in drawn:
            progress_of(request)(str(path))


@dataclass(frozen=True)
class TextQuestion(Question):
    """A question about a text or its translations."""

    ONE_SIDE: ClassVar = True  # whether sentences without translations will do

    input: Sequence[str] = argument(
        default=(), nargs="*", metavar="FILE", help="lines `source ||| target` or `source TAB target`"
    )
    source: str | None = file("-s", help="sentences, one a line")
    target: str | None = file("-t", help="their translations")
    lines: int | None = number(1, None, "read the first N lines only")

    def check(self, parser: Parser) -> None:
        """Check the files of the text."""
        if self.source is None and self.target is not None:
            parser.error("-t/--target requires -s/--source")
        if not self.input and self.source is None:
            parser.error("give FILEs of both sides, or -s, and -t where there is another side")
        if self.input and self.source is not None:
            parser.error("give either FILE or -s and -t, not both")
        if not self.ONE_SIDE and self.text.one_side:
            parser.error("this command needs translations: give -t/--target")

    @property
    def text(self) -> Input:
        """The files of the text."""
        files = tuple(self.input) or tuple(name for name in (self.source, self.target) if name is not None)
        return Input(files, self.target is not None, not self.input and self.target is None)

    def read_pairs(self) -> tuple[list[Pair], str]:
        """Read all pairs of the text; return them with the names of its files for errors."""
        with open_text(self.text) as pairs:
            return list(pairs), " and ".join(map(name_shown, self.text.files))


@dataclass(frozen=True)
class AttentionQuestion(TextQuestion):
    """A question about attention to a text."""

    parts: tuple[Part, ...] = attention("all that it has; without -t the encoder")

    def ask(self, request: Request, measure: Callable[[Inspected, Iterable[Pair], Sequence[Part]], Finding]) -> Answer:
        """Measure attention, warn about lines that are too long, and sign with the number of others."""
        model, one_side = load_inspected(request), self.text.one_side
        parts = self.parts or [part for part in model.shape if part == "encoder" or not one_side]
        for part in parts:
            if part not in model.shape:
                there = " and ".join(ATTENTION[part_name] for part_name in model.shape)
                raise DataError(f"{model.name} has no {ATTENTION[part]}: there is {there}")
            if part != "encoder" and one_side:
                raise DataError(f"{ATTENTION[part]} needs a text's other side", hint="give ‹target›")
        with open_text(self.text) as text:
            finding = measure(model, islice(text, self.lines), parts)
            if model.too_long:
                message = f"too long for the model, and left out: {plural(model.too_long, 'line')}"
                warnings.warn(message, TextWarning, stacklevel=2)
            return finding, {"model": model.name, "n": text.lines - model.left_out}


def names_of(*files: str | None) -> str:
    """Join the names of files without their folders, for the signature."""
    return "+".join(Path(name_shown(name)).name for name in files if name)


def progress_of(request: Request) -> Callable[[str], None]:
    """Return a callback that reports progress, unless quiet."""
    return (lambda text: None) if request.run.quiet else lambda text: say(f"{PROGRAM}: {text}")


# Models.


def load_inspected(request: Request) -> Inspected:
    """Load a model as `load_aligner` does, or a BERT-like encoder if the folder contains one."""
    from align.analysis.models.encoder import KINDS, is_encoder, load_encoder
    from align.analysis.models.translation import TranslationModel

    if not is_encoder(Path(request.name)):
        try:
            recorder: Any = load_aligner(request).forward.recorder  # its type depends on the backend
        except KindError as error:
            hint = "attention is read off these: " + ", ".join(sorted({*error.known, *KINDS}))
            raise ModelError(error.what, file=error.file, hint=hint) from None
        return TranslationModel(recorder)
    from align.models.load import pick_device

    threads, device = set_threads(request), pick_device(request.run.device)
    model = load_encoder(Path(request.name), device)
    progress_of(request)(f"{model.name} on {device}" + (f" ({plural(threads, 'thread')})" if device == "cpu" else ""))
    return model


def set_threads(request: Request) -> int:
    """Prepare torch for a model that `load_models` does not load, and return its number of threads."""
    import torch

    keep_freed_memory()
    if request.run.threads:
        torch.set_num_threads(request.run.threads)
    return torch.get_num_threads()


def load_aligner(request: Request, whole: bool = True) -> Aligner:
    """Load a translation model, and report its name; unless `whole`, heads may have been pruned from it."""
    from align.models.engine.builder import KEPT
    from align.models.fairseq.checkpoint import load_checkpoint
    from align.models.recorder import ModelRecorder

    keep_freed_memory()
    (aligner,) = load_models(PROGRAM, request)
    recorder = aligner.forward.recorder
    if not isinstance(recorder, ModelRecorder):
        raise ModelError("this command needs a model with an encoder and a decoder", file=request.name)
    if whole and recorder.backend == "fairseq":
        weights = load_checkpoint(recorder.origin[0].checkpoint, mapped=True)["model"]
        if any(name.endswith(f".{KEPT}") for name in weights):
            message = "heads have been pruned from this model: questions about attention need all of them"
            raise ModelError(message, file=request.name)
    return aligner
