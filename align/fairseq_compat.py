"""Make `import fairseq` work on today's Python and torch, and load its checkpoints without running their code.

Importing this module installs an import hook and nothing else; fairseq itself is imported by whoever needs
it, and is mended on its way in:

1. Python >= 3.11 refuses mutable dataclass defaults, of which fairseq (and hydra 1.0) have many.
2. fairseq 0.12.2's "BetterTransformer" encoder path fails on padded batches with torch >= 2.
3. torch >= 2.6 unpickles tensors and plain containers only; fairseq's checkpoints hold a few harmless
   classes more, which are allowed by name.

Tested with fairseq 0.12.2; fairseq-fixed 0.12.3.1 takes the same path.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.abc
import importlib.util
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

MENDED = ("fairseq", "hydra")

INSTALL = """fairseq is not installed. These two commands install it:
  pip install 'extract-align[fairseq]'
  pip install --no-deps fairseq==0.12.2"""


@contextmanager
def _hashable_dataclasses() -> Iterator[None]:
    """Let instances of fairseq's dataclasses be defaults of others, as they could be before Python 3.11."""
    original = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        def decorate(plain: type) -> Any:
            made: Any = original(plain, **options)
            if made.__module__.partition(".")[0] in MENDED and made.__hash__ is None:
                made.__hash__ = object.__hash__
            return made

        return decorate if cls is None else decorate(cls)

    dataclasses.dataclass = dataclass
    try:
        yield
    finally:
        dataclasses.dataclass = original


@contextmanager
def _logging_untouched() -> Iterator[None]:
    """Keep fairseq's modules from sending all logging to stdout: `basicConfig` yields to any handler."""
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


def _allow_checkpoint_classes() -> None:
    """Tell torch's restricted unpickler which classes real fairseq checkpoints hold beside tensors."""
    import numpy as np
    import torch
    from fairseq.logging import meters

    try:
        from numpy._core import multiarray
    except ImportError:  # numpy < 2
        from numpy.core import multiarray  # type: ignore[no-redef]

    allowed: list[Any] = [argparse.Namespace]
    # --eval-bleu keeps its n-gram counts as numpy arrays, under either name of numpy's core
    allowed += [np.ndarray, np.dtype, *{type(np.dtype(kind)) for kind in ("int64", "float64", "int32", "float32")}]
    for core in ("numpy.core", "numpy._core"):
        for function in (multiarray._reconstruct, multiarray.scalar):
            allowed.append((function, f"{core}.multiarray.{function.__name__}"))
    # checkpoints of fairseq 0.6 to 0.9 keep their training meters, under the module's name of then
    for meter in (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter):
        allowed += [meter, (meter, f"fairseq.meters.{meter.__name__}")]
    torch.serialization.add_safe_globals(allowed)


def _leave_fast_path() -> None:
    """Keep fairseq 0.12.2's encoder layers off torch's fused kernel, which rejects their padding mask."""
    from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

    TransformerEncoderLayerBase.can_use_fastpath = property(lambda self: False, lambda self, value: None)


def _mend() -> None:
    """What can be mended once fairseq is imported, by whomever; doing it again changes nothing."""
    _allow_checkpoint_classes()
    _leave_fast_path()


class _Hook(importlib.abc.MetaPathFinder):
    """Wraps the loading of the top-level package `fairseq`, once."""

    searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "fairseq" or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        if spec is None:
            raise ModuleNotFoundError(INSTALL, name="fairseq")
        if spec.loader is not None:
            execute = spec.loader.exec_module

            def mended(module: Any) -> None:
                with _hashable_dataclasses(), _logging_untouched():
                    execute(module)
                _mend()

            spec.loader.exec_module = mended  # type: ignore[method-assign]
        return spec


if not any(isinstance(finder, _Hook) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Hook())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a fairseq checkpoint on the CPU, with torch's restricted unpickler.

    Args:
        path: a file that fairseq saved.

    Returns:
        The saved state: "model" (tensors) and "cfg" or, before fairseq 0.10, "args".

    Raises:
        ValueError: no such file, a damaged one, one that wants to run code, or not a fairseq checkpoint.
        ModuleNotFoundError: fairseq is not installed; the message says how to.
    """
    import fairseq  # noqa: F401
    import torch

    _mend()  # where fairseq was imported before this module, the hook came too late
    if not path.is_file():
        raise ValueError(f"{path}: no such checkpoint")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on pickle protocols is for whoever saved the file
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (PermissionError, MemoryError):
        raise
    except Exception as error:  # damaged pickles raise nearly anything: KeyError, EOFError, RuntimeError, ...
        unsafe = re.search(r"GLOBAL ([\w.]+)", str(error)) if isinstance(error, UnpicklingError) else None
        if unsafe is None:
            raise ValueError(f"{path}: not a checkpoint that torch can read; it may be cut short or damaged") from None
        raise ValueError(
            f"{path}: refused, for it asks to run {unsafe[1]} while being read; "
            "a checkpoint that only holds a model has no need to"
        ) from None
    if not _is_fairseq(state):
        raise ValueError(f"{path}: not a fairseq checkpoint: no model with its configuration in it")
    return state


def _is_fairseq(state: Any) -> bool:
    """Whether tensors and a configuration are where fairseq puts them."""
    import torch

    if not (isinstance(state, dict) and isinstance(state.get("model"), dict)):
        return False
    tensors = all(isinstance(weight, torch.Tensor) for weight in state["model"].values())
    return tensors and (isinstance(state.get("args"), argparse.Namespace) or isinstance(state.get("cfg"), dict))
