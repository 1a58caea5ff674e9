"""A translation model as its framework's own module, which can be trained, and whose gradients are known."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from align.core.errors import ModelError
from align.models.recorder import ModelRecorder

_modules: WeakKeyDictionary[ModelRecorder, Any] = WeakKeyDictionary()
"""Modules by the recorders of the same models."""


def own_model(recorder: ModelRecorder) -> Any:
    """Return the module of a recorder's model; the first call loads it, later ones return the same object.

    Raises:
        ValueError: there is no such module, or the framework cannot build it.
        ModuleNotFoundError: the framework is not installed.
    """
    if recorder not in _modules:
        folder, device, dtype = recorder.origin
        if recorder.backend == "fairseq":
            from align.analysis.models.native_fairseq import load_own_model as load_fairseq

            _modules[recorder] = load_fairseq(folder, recorder.languages, device, dtype)
        elif recorder.backend == "huggingface":
            from align.analysis.models.native_transformers import load_own_model as load_huggingface

            _modules[recorder] = load_huggingface(folder, device, dtype)
        else:
            raise ModelError("models of this format have no module that can be trained here", file=recorder.name)
    return _modules[recorder]
