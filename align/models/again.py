"""What a pickled recorder becomes: a process loads each model once, however often it is unpickled there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

from align.core.backend import Recorder
from align.core.errors import ModelError
from align.core.types import Dtype
from align.models.folder import ModelFolder

Load = Callable[[ModelFolder, str, Dtype], Recorder]
"""Loads a model from a folder to a device, with the given precision."""

_loaded: WeakValueDictionary[tuple[Path, str, str, str], Recorder] = WeakValueDictionary()
"""Recorders in use, by checkpoint, name, device and dtype."""

_kept: deque[Recorder] = deque(maxlen=4)
"""The last that were loaded again: a worker process gets an aligner anew with each of its tasks."""


def remember(recorder: Recorder, folder: ModelFolder, device: str, dtype: Dtype) -> None:
    """Let `load_again` find a recorder that was loaded from a folder, as long as it is in use."""
    _loaded[folder.absolute().checkpoint, recorder.name, device, dtype] = recorder


def load_again(load: Load, name: str, folder: ModelFolder, device: str, dtype: Dtype) -> Recorder:
    """The recorder that this process has of the same files, or that model loaded again.

    Args:
        load: what loads such a model, and has it remembered.
        name: of the recorder that was pickled, with its fingerprint.
        folder: where its files were.
        device: where it ran.
        dtype: of its arithmetic.

    Raises:
        ModelError: the files are no longer the same.
        ValueError: a file is missing or damaged.
    """
    recorder = _loaded.get((folder.checkpoint, name, device, dtype))
    if recorder is None:
        recorder = load(folder, device, dtype)
        if recorder.name != name:
            raise ModelError(f"{name} was pickled, but what is there now is {recorder.name}", file=str(folder.root))
        _kept.append(recorder)
    return recorder
