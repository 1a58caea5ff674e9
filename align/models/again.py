"""Unpickle recorders: a process loads each model once, no matter how often it is unpickled there."""

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
"""The last recorders that were reloaded: a worker process unpickles an aligner with each of its tasks."""


def remember(recorder: Recorder, folder: ModelFolder, device: str, dtype: Dtype) -> None:
    """Register a loaded recorder, so that `load_again` returns it as long as it is in use."""
    _loaded[folder.absolute().checkpoint, recorder.name, device, dtype] = recorder


def load_again(load: Load, name: str, folder: ModelFolder, device: str, dtype: Dtype) -> Recorder:
    """Return this process's recorder of the same files, or load the model again.

    Args:
        load: loads and registers a model of this kind.

    Raises:
        ModelError: the files have changed.
        ValueError: a file is missing or damaged.
    """
    recorder = _loaded.get((folder.checkpoint, name, device, dtype))
    if recorder is None:
        recorder = load(folder, device, dtype)
        if recorder.name != name:
            raise ModelError(f"{name} was pickled, but what is there now is {recorder.name}", file=str(folder.root))
        _kept.append(recorder)
    return recorder
