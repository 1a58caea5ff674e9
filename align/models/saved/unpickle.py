"""Reads what torch saved without trusting it: nothing in the file runs, and its size bounds what reading it costs.

torch's restricted unpickler builds tensors, plain containers and what it is told to allow. Real checkpoints hold a few
more classes; each of them is named here, and read as something that does nothing: never as a class of numpy's or
fairseq's, whose constructors a file could call with arguments of its own. Of what torch itself allows, only what real
checkpoints need is let through, because the rest can be made to cost any time and memory.
"""

from __future__ import annotations

import argparse
import re
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.models.recognise import OTHER_TOOLKIT
from align.models.saved.index import TooMuch, Unsafe, checked_file

_FORMATS = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "b1": "?"}
"""numpy's names of number types, and the codes of `struct` for them."""


class Inert:
    """Stands for an object that is not needed: takes any arguments and any state, and keeps none of them."""

    def __new__(cls, *arguments: Any, **named: Any) -> Inert:
        """Ignores the arguments."""
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
"""What torch's restricted unpickler makes of the names that real checkpoints hold beside tensors."""

_ELSE_NEEDED = {
    *("collections OrderedDict", "_codecs encode", "torch Size", "torch device", "torch.nn.parameter Parameter"),
    *(f"torch._utils _rebuild_{what}" for what in ("tensor", "tensor_v2", "parameter", "parameter_with_state")),
    *(f"torch {kind}Storage" for kind in ("Float", "Half", "BFloat16", "Double", "Long", "Int", "Short", "Char")),
    *(f"torch {kind}Storage" for kind in ("Byte", "Bool")),
    *(f"torch {kind}" for kind in ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool")),
}
"""What real checkpoints name of all that torch's unpickler itself allows."""

_NAMES = _ELSE_NEEDED | {" ".join(name.rsplit(".", 1)) for _, name in _ALLOWED}

_allowing = threading.RLock()


@contextmanager
def only_checkpoint_classes() -> Iterator[None]:
    """Let `torch.load` read what fairseq saves, none of it as a class that the process has allowed for other files."""
    registry = torch.serialization
    our_names = {name for _, name in _ALLOWED}
    with _allowing:
        clashing: list[Any] = [entry for entry in registry.get_safe_globals() if _name_of(entry) in our_names]
        if clashing:  # which is rare; as a rule other threads can go on loading their own files meanwhile
            harmless = [entry for entry in registry.get_safe_globals() if entry not in clashing]
            registry.clear_safe_globals()
            registry.add_safe_globals(harmless)
        try:
            with registry.safe_globals(_ALLOWED):
                yield
        finally:
            registry.add_safe_globals(clashing)


def _name_of(allowed: Any) -> str:
    """The name under which torch's unpickler knows an allowed object."""
    return allowed[1] if isinstance(allowed, tuple) else f"{allowed.__module__}.{allowed.__qualname__}"


def load_weights(path: Path, mapped: bool = False) -> dict[str, Tensor]:
    """Read a file of weights alone, as transformers saved them before safetensors; otherwise as `load_saved`.

    Raises:
        ValueError: as there, or there is something else in it.
    """
    return load_saved(path, _weights_alone, "a file of weights", mapped)


def load_saved(
    path: Path, checked: Callable[[Any, int], dict[str, Any]], wanted: str, mapped: bool = False
) -> dict[str, Any]:
    """What is in a file, read on the CPU with torch's restricted unpickler.

    Args:
        path: a file that torch saved.
        checked: its content and its size to what is wanted of it; raises NotWanted where it holds something else.
        wanted: what that is, for messages.
        mapped: whether tensors stay in the file until they are used; it must not change as long as they are.

    Raises:
        ValueError: there is no such file, or it is damaged, wants to run code, takes more memory than its size accounts
            for, or is not what is wanted; says whose it is where that can be told.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such checkpoint")
    try:
        with warnings.catch_warnings(), only_checkpoint_classes(), checked_file(path, _NAMES) as content:
            warnings.simplefilter("ignore")  # torch's advice on pickle protocols is for whoever saved the file
            mapped = mapped and isinstance(content, Path)  # not the format before torch 1.6
            state = torch.load(content, map_location="cpu", weights_only=True, mmap=mapped)
        return checked(state, path.stat().st_size)
    except (PermissionError, MemoryError):
        raise
    except TooMuch as error:
        raise ValueError(f"{path}: refused, for it holds {error}") from None
    except Unsafe as error:
        if str(error).startswith(("onmt.", "torchtext.")):
            raise ModelError("an OpenNMT-py model", file=str(path), remedy=OTHER_TOOLKIT) from None
        raise ValueError(
            f"{path}: refused, for it asks to run {shorten(str(error))} while being read; "
            "a checkpoint that only holds a model has no need to"
        ) from None
    except ModelError as error:
        raise error.in_file(str(path)) from None
    except NotWanted as error:
        raise ValueError(f"{path}: not {wanted}: {error}") from None
    except Exception:  # damaged pickles raise nearly anything: KeyError, EOFError, RuntimeError, ...
        raise ValueError(f"{path}: not a checkpoint that torch can read; it may be cut short or damaged") from None


class NotWanted(Exception):
    """The file was read, but holds something else."""


def _weights_alone(state: Any, size: int) -> dict[str, Tensor]:
    if not isinstance(state, dict):
        raise NotWanted("no weights by name in it")
    return plain_weights(state, size)


def plain_weights(weights: dict[Any, Any], size: int) -> dict[str, Tensor]:
    """Weights by name, which fit into a file of this size."""
    plain = {_name(name): _plain(name, weight) for name, weight in weights.items()}
    if sum({(store := w.untyped_storage()).data_ptr(): store.nbytes() for w in plain.values()}.values()) > size:
        raise TooMuch(f"weights of more than its {size:,} bytes")
    return plain


def _name(name: Any) -> str:
    if not (isinstance(name, str) and re.fullmatch(r"[\w.-]{1,200}", name)):
        raise NotWanted("a weight without a proper name")
    return name


def _plain(name: str, weight: Any) -> Tensor:
    """A weight without what a pickle can attach to it: attributes, hooks, a class of its own.

    torch's functions are called rather than the weight's methods, which the file may have replaced.
    """
    if type(weight) not in (Tensor, torch.nn.Parameter):
        raise NotWanted(f"{name} is not a tensor")
    plain = torch.detach(weight)
    if plain.layout is not torch.strided or plain.device.type != "cpu" or plain.is_quantized or plain.is_complex():
        raise NotWanted(f"{name} is not a dense tensor of real numbers")
    if plain.numel() * plain.element_size() > plain.untyped_storage().nbytes():
        raise TooMuch(f"a tensor ({name}) of more numbers than it stores")
    if 0 in plain.shape and any(plain.shape):
        raise TooMuch(f"a tensor ({name}) of a size without numbers")
    return plain
