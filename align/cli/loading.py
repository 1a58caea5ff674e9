"""Load the models that a command line asks for, one or one for each direction, and sign their results."""

from __future__ import annotations

import argparse
import gc
import re
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from align.cli.args import EnsembleArgs, MethodArgs, ModelArgs, RunArgs, TranslateArgs
from align.cli.common import DESCRIBING, Progress, direction, lacks_memory, say, show_log
from align.cli.options import MAX_THREADS, read_group
from align.cli.parser import Parser
from align.core.errors import ModelError, plural, shorten
from align.core.stream import SHARED_BUFFER
from align.core.symmetrize import DIRECTIONS, SOFT
from align.core.types import THRESHOLD, Choice, Search
from align.io.process import cpu_quota
from align.io.session import Session
from align.models.defaults import ALIGNING_MODEL, DEFAULT_MODEL, ENCODER, default_model, forward_for, is_encoder
from align.models.folder import in_direction
from align.models.model_toml import ModelOptions

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.stream import OnBatch, OnChoice, TooLong
    from align.core.types import Alignment, Pair

LANGUAGES = ("source_lang", "target_lang")


@dataclass(frozen=True)
class Request:
    """What the aligner of a command depends on."""

    model: ModelArgs
    method: MethodArgs
    run: RunArgs
    search: Search | None = None  # how to translate; None where the translation is given
    too_long: TooLong = "blank"  # policy for sentences that are longer than the model takes
    default: str = DEFAULT_MODEL  # the model where none is named
    reason: str = ""  # what requires that default; empty for aligning alone
    encoder: str | None = None  # whose soft scores are averaged with those of the models

    @property
    def joined(self) -> bool:
        """Tell whether the soft scores of two models are combined."""
        return self.model.reverse_model is not None and self.method.symmetrize == SOFT

    @property
    def options(self) -> ModelOptions:
        """Return what the model's files do not say."""
        args = self.model
        adapter = None if self.encoder else args.adapter  # else the partner's
        return ModelOptions(args.source_lang, args.target_lang, template=args.template, adapter=adapter)

    @property
    def name(self) -> str:
        """Return the name, folder or file of the model."""
        return self.model.model or in_direction(self.default, self.options)[0]

    def settings(self, reverse: bool = False) -> dict[str, Any]:
        """Return the arguments of `align.load` for what links are read from.

        The reverse model is read where its own calibration says. Where two models are joined, the forward one's scorer
        gives the scores; the best words of rows (no threshold) have no soft scores, and so no scorer.
        """
        method = replace(self.method, layer=("auto",), head=("auto",)) if reverse else self.method
        unread = method.scorer == "none" or method.threshold is None or (reverse and self.joined)
        return {**read_at(method), "threshold": method.threshold, "scorer": None if unread else method.scorer}


def read_at(method: MethodArgs) -> dict[str, Any]:
    """Return the arguments of `align.load` for how attention is read."""
    layer, output_layer = (*method.layer, "auto")[:2]
    head, output_head = (*method.head, "auto")[:2]
    cells = {"layer": layer, "head": head, "output_layer": output_layer, "output_head": output_head}
    return {"score": method.score, "position": method.position, "null": method.null, **cells}


def read_request(
    parser: Parser, args: argparse.Namespace, too_long: TooLong, whole: bool = False, partners: bool = False
) -> Request:
    """Return what the options of model, method, translation and running request; conflicting ones exit with code 2.

    With `whole` the program needs a translation model, also without `--translate`. With `partners` it can average with
    more than an encoder.
    """
    model, method = read_group(ModelArgs, args), read_group(MethodArgs, args)
    run, search = read_group(RunArgs, args), read_group(TranslateArgs, args).search
    if method.symmetrize != SOFT and not model.reverse_model:
        parser.error("--symmetrize requires --reverse-model")
    if model.reverse_model and method.symmetrize == SOFT and method.threshold is None:
        parser.error("--threshold none has no effect with --symmetrize soft, which needs one")
    if len(method.layer) + len(method.head) > 2 and method.position not in (None, "both"):
        parser.error(f"two layers or heads require --position both, not {method.position}")
    names = read_group(EnsembleArgs, args).ensemble
    encoders = [ENCODER if name == "encoder" else name for name in names if is_encoder(name)]
    if names and method.threshold is None:
        parser.error("--threshold none has no effect with --ensemble, which needs one")
    if names and model.reverse_model and method.symmetrize != SOFT:
        parser.error(f"--ensemble averages soft scores: leave out --symmetrize {method.symmetrize}")
    if len(encoders) > 1:
        parser.error(f"--ensemble averages with one encoder, not with {' and '.join(encoders)}")
    if not partners and (others := [name for name in names if not is_encoder(name)]):
        where = "only extract-align itself averages with statistical aligners and files of links"
        parser.error(f"expected --ensemble encoder, or an encoder's folder or hub name; got {others[0]}: {where}")
    forward, reason = forward_for(model.reverse_model), ""
    if search:
        reason = "--translate"
    elif forward:
        reason = f"--reverse-model {shorten(str(model.reverse_model))}"
    elif not whole and default_model(**read_at(method)) == DEFAULT_MODEL:
        reason = "options that say where attention is read"
    default = DEFAULT_MODEL if whole or reason else ALIGNING_MODEL
    if forward and not (whole or search):
        default = forward
    return Request(model, method, run, search, too_long, default, reason, next(iter(encoders), None))


def load_models(program: str, request: Request) -> list[Aligner]:
    """Load the forward model, and the reverse one where there is one, and say which they are."""
    show_log(program, request.run.quiet)
    args, options = request.model, request.options
    aligners = [_load(program, request, args.model, options, request.settings())]
    if args.reverse_model:
        options = ModelOptions(
            template=args.template if args.reverse_model == args.model else None,
            reverse_of=aligners[0].forward.recorder.languages,
        )
        try:
            aligners.append(_load(program, request, args.reverse_model, options, request.settings(reverse=True)))
        except ModelError as error:  # no option is for its languages alone
            hint = re.sub(f"‹({'|'.join(LANGUAGES)})", r"‹reverse_\1", error.hint)
            raise ModelError(error.what, file=error.file, line=error.line, hint=hint) from None
    return aligners


def _load(
    program: str, request: Request, model: str | None, options: ModelOptions, settings: Mapping[str, Any]
) -> Aligner:
    shown, named, run = model or request.name, model is not None, request.run
    collects = gc.isenabled()
    gc.disable()  # nothing that loading makes is garbage
    try:
        import torch

        from align.core.stream import Pool
        from align.io.pool import METHOD
        from align.models.load import load, pick_device

        most = run.threads or min(cpu_quota() or MAX_THREADS, torch.get_num_threads())
        if run.threads or most < torch.get_num_threads():
            torch.set_num_threads(most)
        workers = run.workers or (1 if run.buffer < SHARED_BUFFER or pick_device(run.device) != "cpu" else most)
        if model is None:
            model, options = in_direction(request.default, options)
        aligner = load(
            model,
            **settings,
            options=options,
            device=run.device,
            dtype=run.dtype,
            buffer=run.buffer,
            batch_tokens=run.batch_tokens,
            too_long=request.too_long,
            workers=workers,
        )
        if METHOD == "spawn" and not run.workers and aligner.forward.recorder.prompted:
            aligner = replace(aligner, pool=Pool)  # each process would load its billions of weights
        gc.freeze()  # else the collector looks through torch and the model again and again
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise ValueError(f"{shown}: out of memory while loading it: it needs more than is free") from None
    finally:
        if collects:
            gc.enable()
    if not run.quiet:
        recorder = aligner.forward.recorder
        reason = f" for {request.reason}" if request.reason else ""
        why = "" if named else f"no -m given, so {shown}{reason}, {direction(*recorder.languages)}: "
        threads = f" ({plural(torch.get_num_threads(), 'thread')})" if recorder.device == "cpu" else ""
        say(f"{program}: {why}{recorder.name} on {recorder.device}{threads}; text: {recorder.text}")
    return aligner


def load_aligner(program: str, request: Request) -> Aligner:
    """Load the model or both models with the requested settings."""
    aligner, *reverse = load_models(program, request)
    from align.models.load import ensemble, two_way

    method = request.method
    threshold = THRESHOLD if method.threshold is None else method.threshold
    if reverse:
        of_both = threshold if request.joined else THRESHOLD
        aligner = two_way(aligner, reverse[0], method.symmetrize, threshold=of_both)
    if request.encoder:
        encoder = _load(
            program, request, request.encoder, ModelOptions(adapter=request.model.adapter), {"threshold": threshold}
        )
        aligner = ensemble(aligner, encoder, threshold=threshold)
    return aligner


def names_of(aligner: Aligner) -> Sequence[str]:
    """Return the prefix of messages about each model."""
    models = ("forward: ", "reverse: ") if aligner.reverse else ("",)
    return (*models, "encoder: ") if aligner.partner else models


def first_step(aligner: Aligner) -> str:
    """Return what progress says before the first line."""
    known = all(direction.known_choice for direction in aligner.directions)
    return "reading …" if known else "choosing layer and head …"


def begin_session(
    request: Request,
    aligner: Aligner,
    progress: Progress,
    words: str = "spaces",
    *,
    before: int = 0,
    shown: bool = True,
    join: Callable[[Generator[Alignment, None, None]], Generator[Alignment, None, None]] | None = None,
    **resumed: Any,
) -> Session:
    """Return a session that translates and aligns as requested, and begin to show its progress.

    An earlier run has done `before` lines, with the choices and counts in `resumed`. `join` adds other links.
    """
    search = request.search

    def align(pairs: Iterator[Pair], on_choice: OnChoice, on_batch: OnBatch | None) -> Generator[Alignment, None, None]:
        if search:
            from align.models.translate import translate

            return translate(aligner, pairs, search, on_choice, on_batch, words)
        if words != "spaces":
            from align.models.divide import align_unspaced

            alignments = align_unspaced(aligner, pairs, words, on_choice, on_batch)
        else:
            alignments = aligner(pairs, on_choice, on_batch)
        return join(alignments) if join else alignments

    passes = (1 if aligner.method in DIRECTIONS else len(aligner.directions)) + bool(search)
    waiting = first_step(aligner) if shown else ""
    progress.begin(waiting, before, passes, partial(describe_choices, aligner, request=request))
    return Session(aligner, align, search=search, words=words, observer=progress, **resumed)


def describe_choices(aligner: Aligner, choices: Sequence[Choice], request: Request | None = None) -> list[str]:
    """Return a line on the layer and head of each model, and why a text has chosen them or how to store them."""
    lines = []
    for name, one, choice in zip(names_of(aligner), aligner.directions, choices, strict=bool(choices)):
        advice = ""
        if not one.known_choice and any(score == one.settings.score for score, _ in one.calibration):
            advice = "; options exclude what the model stores"
        elif not one.known_choice:
            named = f" --dtype {request.run.dtype}" if request and request.run.dtype != "float32" else ""
            if request and request.model.template and one.recorder.prompted:
                named += f" --template {shlex.quote(request.model.template)}"
            if one.recorder.multilingual and one.recorder.languages != ("source", "target"):
                sides = zip(("source", "target"), one.recorder.languages, strict=True)
                named += "".join(f" --{side}-lang {'LANG' if code == side else code}" for side, code in sides)
            advice = f"; `{DESCRIBING}{named} -s FILE -t FILE` stores layer and head for all texts"
        lines.append(f"{name}{choice}{advice}")
    return lines


def settings_of(aligner: Aligner, signature: str) -> dict[str, Any]:
    """Return what results depend on, for the record of a run: the signature, stored cells, device and batch size."""
    from align.core.choice import candidates

    stored = [
        f"{name}{position} {cell}"
        for name, one in zip(names_of(aligner), aligner.directions, strict=True)
        for position, cells in candidates(one.recorder, one.settings).items()
        if len(cells) > 1 or one.settings.position == "auto"
        if (cell := one.calibration.get((one.settings.score, position)))
    ]
    return {
        "settings": signature,
        "calibration": "; ".join(stored) or None,
        "device": aligner.forward.recorder.device,
        "batch-tokens": aligner.batch_tokens,
    }
