"""What tells models apart in signatures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path


def fingerprint(files: Iterable[Path], text: str) -> str:
    """Seven hex digits that change whenever a file or rule changes that the links depend on."""
    digest = hashlib.sha256(text.encode())
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:7]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; one that has not changed since is not read again."""
    status = path.stat()
    return _file_digest(path.resolve(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _file_digest(path: Path, changed: int, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
