"""Read untrusted files that torch saved: nothing in them runs, and their size bounds the cost of reading.

torch's restricted unpickler builds tensors, plain containers and the classes that are allowed explicitly. Real
checkpoints hold a few more classes; each of them is named here, and read as an object without behaviour: never as a
class of numpy or fairseq, whose constructors a file could call with its own arguments. Of the names that torch itself
allows, only those that real checkpoints need are accepted, because the others can be made to cost any time and memory.
"""

from __future__ import annotations

import argparse
import encodings
import io
import os
import re
import struct
import threading
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from encodings.aliases import aliases
from pathlib import Path
from pickletools import genops
from pkgutil import iter_modules
from typing import Any, BinaryIO

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.models.recognise import OTHER_TOOLKIT

INDEX_BYTES = 4 << 20
"""Maximum size of a checkpoint's index, a pickle: enough for some 16,000 tensors."""

MOST_SHARED = 50
"""Maximum number of references in an index to an object with parts or a long string, such as those of tied weights."""


class TooMuch(Exception):
    """Error for a file that needs more memory or work than its size accounts for."""


class Unsafe(Exception):
    """Error for a file that names something other than tensors and settings."""


class _IndexReader(io.BufferedReader):
    """Reads a file of the format before torch 1.6, pickles and then numbers, up to a limit while checking its pickles.

    It has no descriptor: torch first tests whether a file that has one is a tar archive, which can take forever.
    """

    left = INDEX_BYTES

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")

    def read(self, size: int | None = -1, /) -> bytes:
        return self._count(super().read(size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._count(super().readline(-1 if size is None else size))

    def _count(self, content: bytes) -> bytes:
        self.left -= len(content)
        if self.left < 0:
            raise TooMuch(f"an index of more than {INDEX_BYTES:,} bytes")
        return content


PICKLES = 5
"""Number of pickles in that format: a magic number, a protocol, the system, the state, and the keys of its numbers."""


@contextmanager
def checked_file(path: Path, names: Collection[str]) -> Iterator[Any]:
    """Yield an argument for `torch.load`, after checking that its index and its unpacked size are in bounds.

    Args:
        names: classes and functions that it may name, as "module name".

    Raises:
        Unsafe: it names another class or function.
        TooMuch: its size does not account for its cost.
        Exception: of any kind, if the file is damaged.
    """
    with path.open("rb") as stream:
        packed = stream.read(4) == b"PK\3\4"
        if packed:
            _check_directory(stream)
    if packed:
        with zipfile.ZipFile(path) as archive:
            _check_records(archive, path.stat().st_size)
            for record in archive.infolist():
                if _is_index(record):
                    _check_index(io.BytesIO(archive.read(record)), names)
        yield path
        return
    with _IndexReader(io.FileIO(path)) as reader:
        for _ in range(PICKLES):
            _check_index(reader, names)
        reader.seek(0)
        reader.left = path.stat().st_size * 2  # no limit in practice: the index has been checked
        yield reader


def _check_directory(stream: BinaryIO) -> None:
    """Refuse zip files in which torch and Python would read different directories."""
    end = stream.seek(-22, os.SEEK_END)  # the record of the end, if no comment follows
    magic, *_, size, offset, comment = struct.unpack("<4s4H2LH", stream.read(22))
    stream.seek(max(end - 20, 0))
    locator, _, zip64_end, _ = struct.unpack("<4sLQL", stream.read(20))
    if locator == b"PK\6\7":
        stream.seek(zip64_end)
        size, offset = struct.unpack("<40x2Q", stream.read(56))
        end, gap = zip64_end, end - 20 - zip64_end - 56
    else:
        gap = 0
    if magic != b"PK\5\6":
        raise ValueError("no directory at its end")
    if comment or gap or offset + size != end:
        raise TooMuch("a directory that is not where it says")


def _is_index(record: zipfile.ZipInfo) -> bool:
    return record.filename.lower().endswith(".pkl")


def _check_records(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse records that are larger unpacked than the file is, before reading any of them."""
    records = archive.infolist()
    if any(record.compress_type != zipfile.ZIP_STORED for record in records):
        raise TooMuch("compressed records, which torch never writes")
    if sum(record.file_size for record in records) > size:
        raise TooMuch(f"records of more than its {size:,} bytes")
    if any(record.file_size > INDEX_BYTES for record in records if _is_index(record)):
        raise TooMuch(f"an index of more than {INDEX_BYTES:,} bytes")


_CODECS = {*aliases, *aliases.values(), *(module.name for module in iter_modules(encodings.__path__))}
_LATIN1 = {"latin_1", *(name for name, codec in aliases.items() if codec == "latin_1")}
"""Names of Latin-1, the codec that pickles use for bytes."""


def _is_other_codec(text: str) -> bool:
    """Tell whether Python has a codec of this name, in any spelling, other than Latin-1."""
    if len(text) > 40:
        return False
    name = re.sub("[^a-z0-9]+", "_", text.lower())
    return name in _CODECS and name not in _LATIN1


def _check_index(stream: BinaryIO, names: Collection[str]) -> None:
    """Check the names in a pickle and its references back to objects, without building anything."""
    small: dict[Any, bool] = {}  # by the number that the pickle gives to an object, to refer back to it
    last_is_small, shared = False, 0
    encodes, codec = False, ""
    for operation, argument, _ in genops(stream):
        name = operation.name
        if isinstance(argument, str):
            encodes = encodes or argument == "_codecs encode"
            codec = codec or (argument if name != "GLOBAL" and _is_other_codec(argument) else "")
        if encodes and codec:  # such as "hex", which doubles the size of its input
            raise Unsafe("_codecs.encode")
        if name == "GLOBAL" and argument not in names:
            raise Unsafe(str(argument).replace(" ", "."))
        if name in ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"):
            raise Unsafe(name)
        if name in ("BINPUT", "LONG_BINPUT", "PUT"):
            small[argument] = last_is_small
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            shared += not small.get(argument, False)
            if shared > MOST_SHARED:
                raise TooMuch(f"parts that it uses more than {MOST_SHARED} times")
        last_is_small = name == "GLOBAL" or (isinstance(argument, str) and len(argument) <= 100)


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

_ELSE_NEEDED = {
    *("collections OrderedDict", "_codecs encode", "torch Size", "torch device", "torch.nn.parameter Parameter"),
    *(f"torch._utils _rebuild_{suffix}" for suffix in ("tensor", "tensor_v2", "parameter", "parameter_with_state")),
    *(f"torch {kind}Storage" for kind in ("Float", "Half", "BFloat16", "Double", "Long", "Int", "Short", "Char")),
    *(f"torch {kind}Storage" for kind in ("Byte", "Bool")),
    *(f"torch {kind}" for kind in ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool")),
}
"""Names in real checkpoints that torch's unpickler allows by itself."""

_NAMES = _ELSE_NEEDED | {" ".join(name.rsplit(".", 1)) for _, name in _ALLOWED}

_allowing = threading.RLock()


@contextmanager
def only_checkpoint_classes() -> Iterator[None]:
    """Restrict `torch.load` to what fairseq saves, without classes that the process has allowed for other files."""
    registry = torch.serialization
    our_names = {name for _, name in _ALLOWED}
    with _allowing:
        clashing: list[Any] = [entry for entry in registry.get_safe_globals() if _name_of(entry) in our_names]
        if clashing:  # rare; otherwise other threads can load their own files meanwhile
            harmless = [entry for entry in registry.get_safe_globals() if entry not in clashing]
            registry.clear_safe_globals()
            registry.add_safe_globals(harmless)
        try:
            with registry.safe_globals(_ALLOWED):
                yield
        finally:
            registry.add_safe_globals(clashing)


def _name_of(allowed: Any) -> str:
    """Return the name under which torch's unpickler knows an allowed object."""
    return allowed[1] if isinstance(allowed, tuple) else f"{allowed.__module__}.{allowed.__qualname__}"


def load_weights(path: Path, mapped: bool = False) -> dict[str, Tensor]:
    """Read a file of weights alone, as transformers saved them before safetensors; otherwise like `load_saved`.

    Raises:
        ValueError: as in `load_saved`, or the file has other content.
    """
    return load_saved(path, _weights_alone, "a file of weights", mapped)


def load_saved(
    path: Path, checked: Callable[[Any, int], dict[str, Any]], wanted: str, mapped: bool = False
) -> dict[str, Any]:
    """Read a file on the CPU with torch's restricted unpickler.

    Args:
        checked: returns the needed part of the content, given the content and the file's size; raises NotWanted for
            other content.
        wanted: name of that part, for messages.
        mapped: whether tensors stay in the file until they are used; it must not change in the meantime.

    Raises:
        ModelError: the file is missing or damaged, would run code, takes more memory than its size accounts for, or has
            other content; the message names its format if it is recognised.
    """
    if not path.is_file():
        raise ModelError("no such checkpoint", file=str(path))
    try:
        with warnings.catch_warnings(), only_checkpoint_classes(), checked_file(path, _NAMES) as content:
            warnings.simplefilter("ignore")  # torch's advice on pickle protocols is for the file's author
            mapped = mapped and isinstance(content, Path)  # not the format before torch 1.6
            state = torch.load(content, map_location="cpu", weights_only=True, mmap=mapped)
        return checked(state, path.stat().st_size)
    except (PermissionError, MemoryError):
        raise
    except TooMuch as error:
        raise ModelError(f"refused, for it holds {error}", file=str(path)) from None
    except Unsafe as error:
        if str(error).startswith(("onmt.", "torchtext.")):
            raise ModelError("an OpenNMT-py model", file=str(path), hint=OTHER_TOOLKIT) from None
        message = f"refused, for it asks to run {shorten(str(error))} while being read; "
        message += "a checkpoint that only holds a model has no need to"
        raise ModelError(message, file=str(path)) from None
    except ModelError as error:
        raise error.in_file(str(path)) from None
    except NotWanted as error:
        raise ModelError(f"not {wanted}: {error}", file=str(path)) from None
    except Exception:  # damaged pickles raise nearly anything: KeyError, EOFError, RuntimeError, ...
        message = "not a checkpoint that torch can read; it may be cut short or damaged"
        raise ModelError(message, file=str(path)) from None


class NotWanted(Exception):
    """Error for a file that was read, but has other content."""


def _weights_alone(state: Any, size: int) -> dict[str, Tensor]:
    if not isinstance(state, dict):
        raise NotWanted("no weights by name in it")
    return plain_weights(state, size)


def plain_weights(weights: dict[Any, Any], size: int) -> dict[str, Tensor]:
    """Return weights by name as plain tensors, after checking that they fit into a file of this size."""
    if not all(isinstance(name, str) and re.fullmatch(r"[\w.-]{1,200}", name) for name in weights):
        raise NotWanted("a weight without a proper name")
    plain = {str(name): _plain(name, weight) for name, weight in weights.items()}
    if sum({(store := w.untyped_storage()).data_ptr(): store.nbytes() for w in plain.values()}.values()) > size:
        raise TooMuch(f"weights of more than its {size:,} bytes")
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
    if plain.numel() * plain.element_size() > plain.untyped_storage().nbytes():
        raise TooMuch(f"a tensor ({name}) of more numbers than it stores")
    if 0 in plain.shape and any(plain.shape):
        raise TooMuch(f"a tensor ({name}) of a size without numbers")
    return plain
