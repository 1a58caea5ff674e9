"""Compute fingerprints of models, for signatures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from align.io.manifest import digest_of


def fingerprint(files: Iterable[Path], text: str) -> str:
    """Return seven hex digits that change whenever a file or rule that the links depend on changes."""
    digest = hashlib.sha256(text.encode())
    for path in files:
        digest_of(path, digest)
    return digest.hexdigest()[:7]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, which is read again only after it has changed."""
    status = path.stat()
    return _file_digest(path.resolve(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _file_digest(path: Path, changed: int, size: int) -> str:
    return digest_of(path, hashlib.sha256())
