"""Compressed files: what `.gz`, `.xz` and `.zst` are read and written with."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO


def import_zstd() -> Any:
    """Return the module of Zstandard: of Python, or before 3.14 its backport. It is imported where it is needed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


BLOCK = 1 << 16  # bytes of a compressed file that are read at a time
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)  # errors of damaged compressed data


class _GzipMembers(io.RawIOBase):
    """Decompresses consecutive `.gz` members: to `gzip.open` a file of 0 bytes, which is damaged, is an empty text."""

    def __init__(self, raw: BinaryIO) -> None:
        self._file = gzip.GzipFile(fileobj=raw, mode="rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it; return 0 at the end of the file."""
        count = self._file.readinto1(buffer)
        if not count and self._file.mtime is None:
            raise EOFError("Compressed file has no header")
        return count


class _XzStreams(io.RawIOBase):
    """Decompresses consecutive `.xz` streams: `lzma.open` ends without an error at a damaged one."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw, self._decoder = raw, lzma.LZMADecompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it; return 0 at the end of the file."""
        while True:
            data = b""
            if self._decoder.eof:
                data = self._decoder.unused_data.lstrip(b"\0")  # padding may stand between streams
                while not data:
                    block = self._raw.read(BLOCK)
                    if not block:
                        return 0
                    data = block.lstrip(b"\0")
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            elif self._decoder.needs_input:
                data = self._raw.read(BLOCK)
                if not data:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            unpacked = self._decoder.decompress(data, len(buffer))
            if unpacked:
                buffer[: len(unpacked)] = unpacked
                return len(unpacked)


class _ZstFrames(io.RawIOBase):
    """Decompresses consecutive `.zst` frames, with the errors of `DAMAGED`."""

    def __init__(self, raw: BinaryIO) -> None:
        zstd = import_zstd()
        self._file, self._error = zstd.open(raw), zstd.ZstdError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it; return 0 at the end of the file."""
        try:
            return int(self._file.readinto1(buffer))
        except self._error as error:
            raise zlib.error(str(error)) from None


OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda raw: io.BufferedReader(_GzipMembers(raw)),
    ".xz": lambda raw: io.BufferedReader(_XzStreams(raw)),
    ".zst": lambda raw: io.BufferedReader(_ZstFrames(raw)),
}
"""What decompresses an open file, by the end of its name."""


def _pack_zst(raw: BinaryIO) -> Any:
    zstd = import_zstd()
    return zstd.open(raw, "wb", options={zstd.CompressionParameter.checksum_flag: 1})


PACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: gzip.GzipFile("", "wb", 9, raw, 0),  # without name and time: the same bytes from the same links
    ".xz": partial(lzma.open, mode="wb"),
    ".zst": _pack_zst,
}
"""What compresses into an open file, by the end of its name."""


def suffix_of(name: str) -> str:
    """Return the end of a file's name that says how it is compressed; "" for none."""
    return next((suffix for suffix in OPENERS if name.endswith(suffix)), "")
