"""From the name of a model to an `Aligner`: finds the files, picks the backend and the device."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Literal, NamedTuple, NoReturn

import torch

from align.core.aligner import Aligner, Direction
from align.core.backend import Recorder
from align.core.batching import BATCH_TOKENS, BUFFER, GPU_BATCH_TOKENS, TooLong
from align.core.choice import all_cells
from align.core.errors import Argument, ModelError, Remedy, plural
from align.core.settings import THRESHOLD, Null, PositionChoice, Settings
from align.core.symmetrize import SOFT
from align.core.types import DTYPES, Dtype, Head, Score, TextWarning
from align.io.pool import processes
from align.models.fairseq.model import load_fairseq
from align.models.folder import DEFAULT_MODEL, FAIRSEQ_FILES, ModelFolder, find_model
from align.models.huggingface.files import FILES as HUGGING_FACE_FILES
from align.models.huggingface.model import load_huggingface
from align.models.languages import is_group, same_language
from align.models.model_toml import ModelOptions

_OPTIONS = frozenset(option.name for option in fields(ModelOptions))


class Backend(NamedTuple):
    """What a folder of `align.models` has to offer.

    Attributes:
        files: names of its checkpoints, `*` for any part of them, in the order in which they are looked for.
        recorder: a model folder, a device and a dtype to the model's recorder.
    """

    files: Sequence[str]
    recorder: Callable[[ModelFolder, str, Dtype], Recorder]


BACKENDS = {
    "huggingface": Backend(HUGGING_FACE_FILES, load_huggingface),
    "fairseq": Backend(FAIRSEQ_FILES, load_fairseq),
}
"""By what the names of their recorders begin with; a folder is of the first whose checkpoint is in it."""


def pick_device(device: str) -> str:
    """The device to run on: "auto" is the first GPU if there is one, else the CPU.

    Raises:
        ValueError: torch knows no such device.
        ModelError: a GPU is asked for, and there is none or not so many.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device is auto, cpu, cuda, or cuda:0 and so on; not {device!r}") from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked.type == "cuda" and (asked.index or 0) >= count:
        remedy = Remedy("use {} or {}", (Argument("device", "cpu"), Argument("device", "auto")))
        seen = "no CUDA device" if not count else f"{count} CUDA {'device' if count == 1 else 'devices'}, from cuda:0,"
        raise ModelError(f"torch sees {seen} here", remedy=remedy)
    return str(asked)


def load(
    model: str | os.PathLike[str] = DEFAULT_MODEL,
    *,
    score: Score = "norm",
    position: PositionChoice = "both",
    layer: int | Literal["auto"] = "auto",
    head: Head | Literal["auto"] = "auto",
    null: Null = "eos",
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
    **unknown: NoReturn,
) -> Aligner:
    """Load a model and make an aligner of it.

        load("de-en", position="input", threshold=None)
        load("checkpoints/checkpoint_best.pt", options=ModelOptions(dictionaries="data-bin", tokenizer="moses"))

    Args:
        model: name of a bundled model, a folder, a checkpoint file, or the name of a model on the Hugging Face hub.
        score: "norm" or "weight".
        position: "input", "output" or "both".
        layer: counted from 1, or "auto"; with both positions, that of the input position.
        head: counted from 1, "all" together, or "auto", likewise.
        null: "eos", "mask" or "none"; see `align.core.scores`.
        threshold: from 0 to 1, link all words whose soft score is above it; None for each target word's best.
        output_layer: with both positions, the layer of the output position.
        output_head: its head.
        options: what the model's files do not say about languages, dictionaries and text.
        device: "auto", "cpu", "cuda", or "cuda:0" and so on.
        dtype: of the numbers that the model's linear layers multiply: "float32", "bfloat16", or on a CPU "int8".
        buffer: pairs to read ahead.
        batch_tokens: pieces in a batch; None for what suits the device.
        too_long: "stop" or "blank".
        workers: processes that share a text, with one CPU thread each.
        unknown: none.

    Raises:
        TypeError: another argument; the message says where one of `ModelOptions` belongs.
        ValueError: anything about the model or the settings that does not fit; the message says what.
    """
    for name in unknown:
        where = f"; give options=ModelOptions({name}=...)" if name in _OPTIONS else ""
        raise TypeError(f"load() got an unexpected keyword argument {name!r}{where}")
    settings = Settings(
        score=score,
        position=position,
        layer=layer,
        head=head,
        null=null,
        threshold=threshold,
        output_layer=output_layer,
        output_head=output_head,
    )
    if dtype not in DTYPES:
        raise ValueError(f"dtype is one of {', '.join(DTYPES)}; not {dtype!r}")
    files = {name: backend.files for name, backend in BACKENDS.items()}
    folder = find_model(os.fspath(model), options or ModelOptions(), files)
    recorder = BACKENDS[folder.backend].recorder(folder, pick_device(device), dtype)
    _check_recorder(recorder, folder)
    if batch_tokens is None:
        batch_tokens = BATCH_TOKENS if recorder.device == "cpu" else GPU_BATCH_TOKENS
    if workers < 1:
        raise ValueError(f"workers is a number from 1; not {workers}")
    if workers > 1 and recorder.device != "cpu":
        raise ValueError(f"{workers} workers are for a model on the CPU; {recorder.device} takes one")
    return Aligner(
        Direction(recorder, settings, calibration=folder.calibration),
        buffer=buffer,
        batch_tokens=batch_tokens,
        too_long=too_long,
        pool=processes(workers),
    )


def two_way(forward: Aligner, reverse: Aligner, method: str = SOFT, *, threshold: float = THRESHOLD) -> Aligner:
    """Combine the models of two aligners: one that translates source to target, and one that translates back.

        aligner = two_way(load("de-en"), load("en-de"))

    Args:
        forward: aligner of the forward model, whose buffer, batches, policy and pool are kept.
        reverse: aligner of the reverse model.
        method: how links are combined; see `Aligner`.
        threshold: of the method "soft".

    Raises:
        ValueError: an unknown method, or a threshold outside 0 to 1.

    Warns:
        TextWarning: the reverse model does not translate between the same languages.
    """
    source, target = forward.forward.recorder.languages
    back = reverse.forward.recorder.languages
    if not all(same_language(*pair) or any(map(is_group, pair)) for pair in zip(back, (target, source), strict=True)):
        warnings.warn(
            f"{forward.forward.recorder.name} translates {source} to {target}, but the reverse model is "
            f"{reverse.forward.recorder.name}: does it translate {target} to {source}?",
            TextWarning,
            stacklevel=2,
        )
    return replace(forward, reverse=reverse.forward, method=method, threshold=threshold)


def _check_recorder(recorder: Recorder, folder: ModelFolder) -> None:
    """Check that a recorder is of the folder's backend, and has the cells that its calibration names.

    Raises:
        ValueError: it is of another backend.
        ModelError: it does not have such a cell.
    """
    if recorder.name.partition(":")[0] != folder.backend:
        raise ValueError(f"the recorder of backend {folder.backend} calls itself {recorder.name}")
    for cell in folder.calibration.values():
        if cell not in all_cells(recorder):
            raise ModelError(
                f"layer {cell.layer}, head {cell.head} is out of range: "
                f"the model has {plural(recorder.layers, 'layer')} of {plural(recorder.heads, 'head')}",
                file=str(folder.root / "model.toml"),
            )
