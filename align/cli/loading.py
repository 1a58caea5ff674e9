"""Load the models that a command line asks for, one or one for each direction, and sign their results."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from align.cli.args import MAX_THREADS
from align.cli.common import DESCRIBING, Progress, direction, lacks_memory, say, show_log
from align.core.errors import ModelError, plural, shorten
from align.core.stream import SHARED_BUFFER
from align.core.symmetrize import DIRECTIONS, SOFT
from align.core.types import THRESHOLD, Choice, Dtype, Null, Search, Settings
from align.io.process import cpu_quota
from align.io.session import Session
from align.models.defaults import ALIGNING_MODEL, DEFAULT_MODEL, default_model, forward_for
from align.models.folder import in_direction
from align.models.model_toml import ModelOptions

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.stream import OnBatch, OnChoice, TooLong
    from align.core.types import Alignment, Pair

NO_READER = "none"
"""Value of `--reader` for soft scores."""

LANGUAGES = ("source_lang", "target_lang")


@dataclass(frozen=True)
class ModelRequest:
    """A model, and what to read off it.

    Attributes:
        options: what its files do not say.
        default: the model where none is named.
        reason: what requires that default; empty for aligning alone.
        reader: file of a trained reader, name of a bundled model that has one, or "auto" for that next to the model;
            None for none.
    """

    model: str | None
    settings: Settings
    options: ModelOptions
    default: str = DEFAULT_MODEL
    reason: str = ""
    reader: str | None = None

    @property
    def name(self) -> str:
        """Name, folder or file of the model."""
        return self.model or in_direction(self.default, self.options)[0]


@dataclass(frozen=True)
class Models:
    """One model, or one for each direction, and how to run them.

    Attributes:
        threads: of the CPU, in all; None for all cores, or as many as a CPU quota allows.
        workers: processes that share them; None for as many as there are threads, where the model runs on the CPU.
        batch_tokens: pieces in a batch; None for what suits the device.
        null: None for what suits the model.
        open_position: read the positions that suit the model, and ignore the settings'.
    """

    forward: ModelRequest
    reverse: ModelRequest | None
    device: str
    dtype: Dtype
    threads: int | None
    workers: int | None
    batch_tokens: int | None
    buffer: int
    too_long: TooLong
    null: Null | None = None
    open_position: bool = False


@dataclass(frozen=True)
class Asked:
    """What a program that aligns is asked for, as far as its aligner depends on it.

    Attributes:
        method: how two directions are symmetrised: "soft", a key of `align.core.symmetrize.METHODS`, or one direction.
        search: how to translate; None where the translation is given.
    """

    models: Models
    method: str
    threshold: float
    search: Search | None
    quiet: bool


def requested_models(args: argparse.Namespace, settings: Settings, reverse_settings: Settings | None = None) -> Models:
    """Return the models that the options of `add_model_options`, `add_speed_options` and others request.

    Args:
        reverse_settings: for the reverse model; without them it gets the same.
    """
    options = ModelOptions(**{name: getattr(args, name) for name in LANGUAGES}, template=args.template)
    reverse, joined = None, is_joined(args)
    reader = None if (given := getattr(args, "reader", NO_READER)) == NO_READER else given
    if getattr(args, "threshold", THRESHOLD) is None and not joined:
        reader = None  # the best words of rows have no soft scores
    if args.reverse_model:
        languages = ModelOptions(template=args.template if args.reverse_model == args.model else None)
        own = None if joined else reader  # of both models the forward one's gives the scores
        reverse = ModelRequest(args.reverse_model, reverse_settings or settings, languages, reader=own)
    return Models(
        ModelRequest(args.model, settings, options, reader=reader),
        reverse,
        device=args.device,
        dtype=args.dtype,
        threads=args.threads,
        workers=getattr(args, "workers", 1) or (1 if args.buffer < SHARED_BUFFER else None),
        batch_tokens=args.batch_tokens,
        buffer=args.buffer,
        too_long=args.bad_lines,
        null=getattr(args, "null", None),
        open_position=getattr(args, "position", "") is None,
    )


def is_joined(args: argparse.Namespace) -> bool:
    """Tell whether the soft scores of two models are combined."""
    return bool(args.reverse_model) and (getattr(args, "symmetrize", None) or SOFT) == SOFT


def requested_settings(
    parser: argparse.ArgumentParser, args: argparse.Namespace, threshold: float | None
) -> tuple[Settings, Settings]:
    """Return the settings of the forward model and of the reverse model.

    Args:
        parser: who refuses, with exit code 2, two layers or heads for one position.
        threshold: of each model by itself.
    """
    common = Settings(score=args.score, position=args.position or "both", null=args.null or "eos", threshold=threshold)
    if len(args.layer) + len(args.head) > 2 and common.position != "both":
        parser.error(f"two layers or heads require --position both, not {common.position}")
    layer, output_layer = (*args.layer, "auto")[:2]
    head, output_head = (*args.head, "auto")[:2]
    return replace(common, layer=layer, head=head, output_layer=output_layer, output_head=output_head), common


def read_asked(parser: argparse.ArgumentParser, args: argparse.Namespace, whole: bool = False) -> Asked:
    """Return what the options of models, method, translation and speed request; conflicting ones exit with code 2.

    Args:
        whole: whether the program needs a translation model, also without `--translate`.
    """
    translate = getattr(args, "translate", False)
    joined = is_joined(args)
    if args.symmetrize not in (None, SOFT) and not args.reverse_model:
        parser.error("--symmetrize requires --reverse-model")
    if joined and args.threshold is None:
        parser.error("--threshold none has no effect with --symmetrize soft, which needs one")
    settings, reverse_settings = requested_settings(parser, args, args.threshold)
    models = requested_models(args, settings, reverse_settings)
    forward, reason = forward_for(args.reverse_model), ""
    if translate:
        reason = "--translate"
    elif forward:
        reason = f"--reverse-model {shorten(args.reverse_model)}"
    elif not whole and default_model(settings, args.position) == DEFAULT_MODEL:
        reason = "options of where to read"
    default = DEFAULT_MODEL if whole or reason else ALIGNING_MODEL
    if forward and not (whole or translate):
        default = forward
    return Asked(
        models=replace(models, forward=replace(models.forward, default=default, reason=reason)),
        method=args.symmetrize or SOFT,
        threshold=args.threshold if joined else THRESHOLD,
        search=Search(beam=args.beam, allow_unk=args.allow_unk) if translate else None,
        quiet=args.quiet,
    )


def load_models(program: str, models: Models, quiet: bool) -> list[Aligner]:
    """Load the forward model, and the reverse one where there is one, and say which they are.

    Args:
        models: what to load; options of dictionaries and text are the forward model's alone.
    """
    show_log(program, quiet)
    aligners = [_load(program, models.forward, models, quiet)]
    if models.reverse:
        options = replace(models.reverse.options, reverse_of=aligners[0].forward.recorder.languages)
        try:
            aligners.append(_load(program, replace(models.reverse, options=options), models, quiet))
        except ModelError as error:  # no option is for its languages alone
            hint = re.sub(f"‹({'|'.join(LANGUAGES)})", r"‹reverse_\1", error.hint)
            raise ModelError(error.what, file=error.file, line=error.line, hint=hint) from None
    return aligners


def _load(program: str, request: ModelRequest, models: Models, quiet: bool) -> Aligner:
    try:
        import torch

        from align.models.load import load, pick_device

        most = models.threads or min(cpu_quota() or MAX_THREADS, torch.get_num_threads())
        if models.threads or most < torch.get_num_threads():
            torch.set_num_threads(most)
        workers = models.workers or (torch.get_num_threads() if pick_device(models.device) == "cpu" else 1)
        name, options = request.model, request.options
        if name is None:
            name, options = in_direction(request.default, options)
        aligner = load(
            name,
            **asdict(request.settings) | {"null": models.null} | ({"position": None} if models.open_position else {}),
            options=options,
            device=models.device,
            dtype=models.dtype,
            buffer=models.buffer,
            batch_tokens=models.batch_tokens,
            too_long=models.too_long,
            workers=workers,
            reader=request.reader,
        )
    except ModuleNotFoundError:
        raise
    except ImportError as error:  # such as a library that does not fit into memory
        text = " ".join(str(error).split())
        raise ValueError(f"{error.name or 'a library'} cannot be imported: {text}") from None
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise ValueError(f"{request.name}: out of memory while loading it: it needs more than is free") from None
    except OSError as error:
        if error.filename:
            raise
        raise ValueError(f"{request.name}: cannot be read: {error.strerror or error}") from None
    if not quiet:
        recorder = aligner.forward.recorder
        why = ""
        if not request.model:
            reason = f" for {request.reason}" if request.reason else ""
            why = f"no -m given, so {request.name}{reason}, {direction(*recorder.languages)}: "
        threads = f" ({plural(torch.get_num_threads(), 'thread')})" if recorder.device == "cpu" else ""
        say(f"{program}: {why}{recorder.name} on {recorder.device}{threads}; text: {recorder.text}")
    return aligner


def load_aligner(program: str, options: Asked) -> Aligner:
    """Load the model or both models with the requested settings."""
    forward, *reverse = load_models(program, options.models, options.quiet)
    if not reverse:
        return forward
    from align.models.load import two_way

    return two_way(forward, reverse[0], options.method, threshold=options.threshold)


def names_of(aligner: Aligner) -> Sequence[str]:
    """Return the prefix of messages about each model."""
    return ("forward: ", "reverse: ") if len(aligner.directions) == 2 else ("",)


def first_step(aligner: Aligner) -> str:
    """Return what progress says before the first line."""
    known = all(direction.known_choice for direction in aligner.directions)
    return "reading …" if known else "choosing layer and head …"


def begin_session(
    options: Asked,
    aligner: Aligner,
    progress: Progress,
    words: str = "spaces",
    before: int = 0,
    expected: Callable[[], int | None] = lambda: None,
    shown: bool = True,
) -> Session:
    """Return a session that translates and aligns as the options say, and begin to show its progress.

    Args:
        words: what is a word, one of `align.core.types.CUTS`.
        before: lines that an earlier run has done.
        expected: how many lines there will be in all; None as long as that is not known.
        shown: whether to show progress at all.
    """
    search = options.search

    def align(pairs: Iterator[Pair], on_choice: OnChoice, on_batch: OnBatch | None) -> Generator[Alignment, None, None]:
        if search:
            from align.models.translate import translate

            return translate(aligner, pairs, search, on_choice, on_batch)
        if words != "spaces":
            from align.models.divide import align_unspaced

            return align_unspaced(aligner, pairs, words, on_choice, on_batch)
        return aligner(pairs, on_choice, on_batch)

    passes = (1 if aligner.method in DIRECTIONS else len(aligner.directions)) + bool(search)
    waiting = first_step(aligner) if shown else ""
    progress.begin(before, passes, expected, waiting, describe=partial(describe_choices, aligner))
    return Session(aligner, align, search=search, words=words, observer=progress)


def describe_choices(aligner: Aligner, choices: Sequence[Choice]) -> list[str]:
    """Return a line on the layer and head of each model, and why a text has chosen them or how to store them."""
    lines = []
    for name, one, choice in zip(names_of(aligner), aligner.directions, choices, strict=bool(choices)):
        advice = ""
        if not one.known_choice and any(score == one.settings.score for score, _ in one.calibration):
            advice = "; options exclude what the model stores"
        elif not one.known_choice:
            advice = f"; `{DESCRIBING} -s FILE -t FILE` stores layer and head for all texts"
        lines.append(f"{name}{choice}{advice}")
    return lines


def calibration_of(aligner: Aligner) -> str | None:
    """Return the layers and heads that the models store and that may be read; None if there are none."""
    from align.core.choice import candidates, only_choice

    stored = [
        f"{name}{position} {cell}"
        for name, one in zip(names_of(aligner), aligner.directions, strict=True)
        if not only_choice(one.recorder, one.settings)
        for position in candidates(one.recorder, one.settings)
        if (cell := one.calibration.get((one.settings.score, position)))
    ]
    return "; ".join(stored) or None
