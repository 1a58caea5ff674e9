"""Check a file that `torch.load` is to read: the names in it, and whether its size accounts for its cost."""

from __future__ import annotations

import encodings
import io
import os
import re
import struct
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from encodings.aliases import aliases
from pathlib import Path
from pickletools import genops
from pkgutil import iter_modules
from typing import Any, BinaryIO

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
