"""Read untrusted files that torch saved: nothing in them runs.

torch's restricted unpickler builds tensors, plain containers and the classes that are allowed explicitly. Real
checkpoints hold a few more classes; each of them is named here, and read as an object without behaviour: never as a
class of numpy or fairseq, whose constructors a file could call with its own arguments.
"""

from __future__ import annotations

import argparse
import pickle
import re
import struct
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.models.recognise import other_kind

_FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "b1": "?"}
"""`struct` codes by numpy's names of number types."""


class Inert:
    """Stands for an object that is not needed: accepts and discards any arguments and any state."""

    def __new__(cls, *arguments: Any, **named: Any) -> Inert:
        """Return an instance without using the arguments."""
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class _NumberType(Inert):
    """Stands for a `numpy.dtype`; keeps only its name."""

    def __init__(self, name: Any = "", *rest: Any) -> None:
        self.name = name if isinstance(name, str) else ""


def _number(kind: Any, raw: Any = b"") -> float | Inert:
    """Return a numpy scalar, such as the best validation loss so far, as a Python number."""
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
"""Objects that torch's restricted unpickler uses for the names in real checkpoints other than those of tensors."""

_allowing = threading.RLock()


@contextmanager
def only_checkpoint_classes() -> Iterator[None]:
    """Restrict `torch.load` to what fairseq saves, without classes that the process has allowed for other files."""
    registry = torch.serialization
    with _allowing:
        others = registry.get_safe_globals()
        registry.clear_safe_globals()
        try:
            with registry.safe_globals(_ALLOWED):
                yield
        finally:
            registry.add_safe_globals(others)


class NotWanted(Exception):
    """Error for a file that was read, but has other content."""


def load_weights(path: Path, mapped: bool = False) -> dict[str, Tensor]:
    """Read a file of weights alone, as transformers saved them before safetensors; otherwise like `load_saved`."""

    def checked(state: Any, size: int) -> dict[str, Tensor]:
        if not isinstance(state, dict):
            raise NotWanted("no weights by name in it")
        return plain_weights(state, size)

    return load_saved(path, checked, "a file of weights", mapped)


def load_saved(
    path: Path, checked: Callable[[Any, int], dict[str, Any]], wanted: str, mapped: bool = False
) -> dict[str, Any]:
    """Read a file on the CPU with torch's restricted unpickler.

    `checked` returns the `wanted` part of the content, given it and the file's size, or raises NotWanted. If
    `mapped`, tensors stay in the file until they are used; it must not change in the meantime.
    """
    if not path.is_file():
        raise ModelError("no such checkpoint", file=str(path))
    size = path.stat().st_size
    try:
        with path.open("rb") as stream:
            packed = stream.read(4) == b"PK\3\4"  # not so before torch 1.6
        if packed:
            with zipfile.ZipFile(path) as archive:
                if sum(record.file_size for record in archive.infolist()) > size:
                    raise NotWanted(f"records of more than its {size:,} bytes")
        with warnings.catch_warnings(), only_checkpoint_classes():
            warnings.simplefilter("ignore")  # torch's advice on pickle protocols is for the file's author
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped and packed)
        return checked(state, size)
    except (PermissionError, MemoryError):
        raise
    except ModelError as error:
        raise error.in_file(str(path)) from None
    except NotWanted as error:
        raise ModelError(f"not {wanted}: {error}", file=str(path)) from None
    except Exception as error:  # damaged pickles raise nearly anything: KeyError, EOFError, RuntimeError, ...
        named = re.search(r"GLOBAL (\S+)", str(error)) if isinstance(error, pickle.UnpicklingError) else None
        if named is None:
            message = "not a checkpoint that torch can read; it may be cut short or damaged"
            raise ModelError(message, file=str(path)) from None
        if named[1].startswith(("onmt.", "torchtext.")):
            raise other_kind("an OpenNMT-py model", str(path)) from None
        message = f"refused, for it asks to run {shorten(named[1])} while being read; "
        message += "a checkpoint that only holds a model has no need to"
        raise ModelError(message, file=str(path)) from None


def plain_weights(weights: dict[Any, Any], size: int) -> dict[str, Tensor]:
    """Return weights by name as plain tensors, after checking that they fit into a file of this size."""
    if not all(isinstance(name, str) and re.fullmatch(r"[\w.-]{1,200}", name) for name in weights):
        raise NotWanted("a weight without a proper name")
    plain = {str(name): _plain(name, weight) for name, weight in weights.items()}
    if sum({(store := w.untyped_storage()).data_ptr(): store.nbytes() for w in plain.values()}.values()) > size:
        raise NotWanted(f"weights of more than its {size:,} bytes")
    return plain


def _plain(name: str, weight: Any) -> Tensor:
    """Return a weight without what a pickle can attach to it: attributes, hooks, a subclass.

    torch's functions are called rather than the weight's methods, which the file may have replaced.
    """
    if type(weight) not in (Tensor, torch.nn.Parameter):
        raise NotWanted(f"{name} is not a tensor")
    plain = torch.detach(weight)
    if plain.layout is not torch.strided or plain.device.type != "cpu" or plain.is_quantized or plain.is_complex():
        raise NotWanted(f"{name} is not a dense tensor of real numbers")
    if plain.numel() * plain.element_size() > plain.untyped_storage().nbytes() or (
        0 in plain.shape and any(plain.shape)
    ):
        raise NotWanted(f"{name} declares more numbers than it stores")
    return plain
