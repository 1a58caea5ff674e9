"""From the name of a model to an `Aligner`: finds the files, picks the backend and the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch

from align.aligners.choice import all_cells
from align.aligners.single import Aligner
from align.backends.base import Recorder
from align.backends.fairseq.model import load_fairseq
from align.backends.model_folder import DEFAULT_MODEL, FAIRSEQ_FILES, ModelFolder, ModelOptions, find_model
from align.errors import Argument, ModelError, Remedy
from align.text.batching import BATCH_TOKENS, BUFFER, TooLong
from align.types import Head, Null, PositionChoice, Score, Settings

DTYPES = ("float32", "bfloat16")


class Backend(NamedTuple):
    """What a folder of `align.backends` has to offer.

    Attributes:
        files: names of its checkpoints, `*` for any part of them, in the order in which they are looked for.
        recorder: a model folder, a device and a dtype to the model's recorder.
    """

    files: Sequence[str]
    recorder: Callable[[ModelFolder, str, str], Recorder]


BACKENDS = {"fairseq": Backend(FAIRSEQ_FILES, load_fairseq)}
"""By what the names of their recorders begin with; a folder is of the first whose checkpoint is in it."""


def pick_device(device: str) -> str:
    """The device to run on: "auto" is the first GPU if there is one, else the CPU.

    Raises:
        ModelError: a GPU is asked for and there is none.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        remedy = Remedy("use {} or {}", (Argument("device", "cpu"), Argument("device", "auto")))
        raise ModelError("torch sees no CUDA device here", remedy=remedy)
    return device


def load(
    model: str = DEFAULT_MODEL,
    *,
    score: Score = "norm",
    position: PositionChoice = "input",
    layer: int | Literal["auto"] = "auto",
    head: Head | Literal["auto"] = "auto",
    null: Null = "eos",
    threshold: float | None = None,
    options: ModelOptions | None = None,
    device: str = "auto",
    dtype: str = "float32",
    buffer: int = BUFFER,
    batch_tokens: int = BATCH_TOKENS,
    too_long: TooLong = "stop",
) -> Aligner:
    """Load a model and make an aligner of it.

    Args:
        model: name of a bundled model, a folder, or a fairseq checkpoint file.
        score: "norm" or "weight".
        position: "input", "output" or "both".
        layer: counted from 1, or "auto".
        head: counted from 1, "all" together, or "auto".
        null: "eos", "mask" or "none"; see `align.attention.scores`.
        threshold: from 0 to 1, link all words whose soft score is above it; None for each target word's best.
        options: what the model's files do not say about languages, dictionaries and text.
        device: "auto", "cpu" or "cuda".
        dtype: of the model's arithmetic, "float32" or "bfloat16".
        buffer: pairs to read ahead.
        batch_tokens: pieces in a batch.
        too_long: "stop" or "blank".

    Raises:
        ValueError: anything about the model or the settings that does not fit; the message says what.
        ModuleNotFoundError: fairseq is not installed; the message says how to.
    """
    settings = Settings(score=score, position=position, layer=layer, head=head, null=null, threshold=threshold)
    if dtype not in DTYPES:
        raise ValueError(f"dtype is one of {', '.join(DTYPES)}; not {dtype!r}")
    files = {name: backend.files for name, backend in BACKENDS.items()}
    folder = find_model(model, options or ModelOptions(), files)
    recorder = BACKENDS[folder.backend].recorder(folder, pick_device(device), dtype)
    if recorder.name.partition(":")[0] != folder.backend:
        raise ValueError(f"the recorder of backend {folder.backend} calls itself {recorder.name}")
    for cell in folder.calibration.values():
        if cell not in all_cells(recorder):
            raise ModelError(
                f"layer {cell.layer}, head {cell.head} is out of range: "
                f"the model has {recorder.layers} layers of {recorder.heads} heads",
                file=str(folder.root / "model.toml"),
            )
    return Aligner(
        recorder,
        settings,
        calibration=folder.calibration,
        buffer=buffer,
        batch_tokens=batch_tokens,
        too_long=too_long,
    )
