"""Reads what fairseq saved without trusting it: nothing in the file runs, and its size bounds what reading it costs.

torch's restricted unpickler builds tensors, plain containers and what it is told to allow. Real checkpoints hold a few
classes more; each of them is named here, and read as something that does nothing: never as a class of numpy's or
fairseq's, whose constructors a file could call with arguments of its own.
"""

from __future__ import annotations

import argparse
import io
import re
import struct
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

INDEX_BYTES = 4 << 20
"""The most that a checkpoint's index, a pickle, may have: enough for 16,000 tensors, and read in seconds."""

_FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "b1": "?"}
"""numpy's names of number types to those of `struct`."""


class Inert:
    """Stands for an object that nobody needs: takes any arguments and any state, and keeps none of them."""

    def __new__(cls, *arguments: Any, **named: Any) -> Inert:
        """Ignores the arguments."""
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _NumberType(Inert):
    """Stands for a `numpy.dtype`, of which it keeps the name."""

    def __init__(self, name: Any = "", *rest: Any) -> None:
        self.name = name if isinstance(name, str) else ""


def _number(kind: Any, raw: Any = b"") -> float | Inert:
    """A numpy scalar, such as the best validation loss so far, as Python's own number."""
    code = _FORMATS.get(kind.name) if isinstance(kind, _NumberType) else None
    if code and isinstance(raw, bytes) and len(raw) == struct.calcsize(f"<{code}"):
        number: float = struct.unpack(f"<{code}", raw)[0]
        return number
    return Inert()


_METERS = ("AverageMeter", "TimeMeter", "StopwatchMeter")
_ALLOWED: list[Any] = [
    (argparse.Namespace, "argparse.Namespace"),
    # --eval-bleu keeps its n-gram counts as numpy arrays, under either name of numpy's core
    (Inert, "numpy.ndarray"),
    (_NumberType, "numpy.dtype"),
    *((Inert, f"{core}.multiarray._reconstruct") for core in ("numpy.core", "numpy._core")),
    *((_number, f"{core}.multiarray.scalar") for core in ("numpy.core", "numpy._core")),
    # checkpoints of fairseq 0.6 to 0.9 keep their training meters
    *((Inert, f"fairseq.{home}.{meter}") for home in ("meters", "logging.meters") for meter in _METERS),
]
"""What torch's restricted unpickler is to make of the names that real checkpoints hold beside tensors."""

_allowing = threading.RLock()


@contextmanager
def only_checkpoint_classes() -> Iterator[None]:
    """Let `torch.load` read what fairseq saves, and none of what the process has allowed for files of its own."""
    registry = torch.serialization
    with _allowing:
        theirs = registry.get_safe_globals()
        registry.clear_safe_globals()
        registry.add_safe_globals(_ALLOWED)
        try:
            yield
        finally:
            added = [some for some in registry.get_safe_globals() if some not in _ALLOWED]
            registry.clear_safe_globals()
            registry.add_safe_globals([*theirs, *added])


class _TooMuch(Exception):
    """The file asks for more memory or work than its size accounts for."""


class _IndexReader(io.BufferedReader):
    """A file of the format before torch 1.6: pickles, then numbers, which torch reads past us. Counts the pickles."""

    left = INDEX_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        return self._count(super().read(size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._count(super().readline(-1 if size is None else size))

    def _count(self, content: bytes) -> bytes:
        self.left -= len(content)
        if self.left < 0:
            raise _TooMuch(f"an index of more than {INDEX_BYTES:,} bytes")
        return content


@contextmanager
def _bounded(path: Path) -> Iterator[Any]:
    """What `torch.load` is to read, once its index and its unpacked size are known to be in bounds."""
    with path.open("rb") as stream:
        packed = stream.read(4) == b"PK\3\4"
    if not packed:
        with _IndexReader(io.FileIO(path)) as reader:
            yield reader
        return
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
    size = path.stat().st_size
    if any(record.compress_type != zipfile.ZIP_STORED for record in records):
        raise _TooMuch("compressed records, which torch never writes")
    if sum(record.file_size for record in records) > size:
        raise _TooMuch(f"records of more than its {size:,} bytes")
    if any(record.file_size > INDEX_BYTES for record in records if record.filename.endswith(".pkl")):
        raise _TooMuch(f"an index of more than {INDEX_BYTES:,} bytes")
    yield path


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a fairseq checkpoint on the CPU, with torch's restricted unpickler.

    Args:
        path: a file that fairseq saved.

    Returns:
        The saved state: "model" (names to dense tensors of numbers) and "cfg" (a dict) or, before fairseq 0.10, "args"
        (a Namespace). What is in those two is as untrusted as the file: `model_settings` picks what is needed.

    Raises:
        ValueError: no such file, a damaged one, one that wants to run code or takes more memory than its size accounts
            for, or not a fairseq checkpoint.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such checkpoint")
    try:
        with warnings.catch_warnings(), only_checkpoint_classes(), _bounded(path) as content:
            warnings.simplefilter("ignore")  # torch's advice on pickle protocols is for whoever saved the file
            state = torch.load(content, map_location="cpu", weights_only=True)
        return _checked(state)
    except (PermissionError, MemoryError):
        raise
    except _TooMuch as error:
        raise ValueError(f"{path}: refused, for it holds {error}") from None
    except Exception as error:  # damaged pickles raise nearly anything: KeyError, EOFError, RuntimeError, ...
        unsafe = re.search(r"GLOBAL ([\w.]{1,80})", str(error)) if isinstance(error, UnpicklingError) else None
        if unsafe:
            raise ValueError(
                f"{path}: refused, for it asks to run {unsafe[1]} while being read; "
                "a checkpoint that only holds a model has no need to"
            ) from None
        if isinstance(error, _NotFairseq):
            raise ValueError(f"{path}: not a fairseq checkpoint: {error}") from None
        raise ValueError(f"{path}: not a checkpoint that torch can read; it may be cut short or damaged") from None


class _NotFairseq(Exception):
    """Read, but something is not where or what fairseq saves."""


def _checked(state: Any) -> dict[str, Any]:
    """A state whose weights are where fairseq puts them, and are what they seem."""
    weights = state.get("model") if isinstance(state, dict) else None
    configured = weights is not None and (
        isinstance(state.get("args"), argparse.Namespace) or isinstance(state.get("cfg"), dict)
    )
    if not (configured and isinstance(weights, dict)):
        raise _NotFairseq("no model with its configuration in it")
    return {**state, "model": {_name(name): _plain(name, weight) for name, weight in weights.items()}}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise _NotFairseq("a weight without a name")
    return name


def _plain(name: str, weight: Any) -> Tensor:
    """A weight without what a pickle can hang on it: attributes, hooks, a class of its own.

    torch's functions are called rather than the weight's methods, in place of which the file may have put others.
    """
    if type(weight) not in (Tensor, torch.nn.Parameter):
        raise _NotFairseq(f"{name[:80]} is no tensor")
    plain = torch.detach(weight)
    if plain.layout is not torch.strided or plain.device.type != "cpu" or plain.is_quantized or plain.is_complex():
        raise _NotFairseq(f"{name[:80]} is no dense tensor of real numbers")
    if plain.numel() * plain.element_size() > plain.untyped_storage().nbytes():
        raise _TooMuch(f"a tensor ({name[:80]}) of more numbers than it stores")
    return plain
