"""Records of runs: their content, how two of them differ, and digests of files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from align.core.errors import DataError, printable, shorten

BLOCK = 1 << 20  # bytes that are hashed at a time
MAX_NAMED = 8  # differences between two runs that a message names


def digest_of(file: str | Path | Any, digest: Any = None) -> str:
    """Return the digest of a file as hexadecimal digits.

    Args:
        file: path, or a binary stream that is read to its end.
        digest: the hash object to update; None for a new BLAKE2b of 32 bytes.
    """
    digest = digest or blake2b(digest_size=32)
    if isinstance(file, str | Path):
        with open(file, "rb") as stream:
            return digest_of(stream, digest)
    while block := file.read(BLOCK):
        digest.update(block)
    return str(digest.hexdigest())


def dump_json(content: Any) -> bytes:
    """Return the bytes of a JSON file."""
    return json.dumps(content, indent=1).encode() + b"\n"


def load_json(content: bytes, file: str) -> dict[str, Any]:
    """Read a record of this package, which is trusted to be one if it is a JSON object."""
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError):
        raise DataError("is not a record of extract-align", file=file, hint="remove it") from None


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe how two runs differ in one line, as `buffer: 2000 → 100`."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    changes = []
    for name in names[:MAX_NAMED]:
        was, new = before.get(name), now.get(name)
        if isinstance(was, str) and isinstance(new, str) and "|" in was and "|" in new:  # signatures
            parts = Counter(was.split("|")), Counter(new.split("|"))
            removed, added = ("|".join((a - b).elements()) for a, b in (parts, parts[::-1]))
            was, new = (removed or "none", added or "none") if removed or added else (was, new)
        changes.append(f"{name}: {shorten(str(was), 300)} → {shorten(str(new), 300)}")
    return printable("; ".join([*changes, f"and {len(names) - MAX_NAMED:,} more"] if names[MAX_NAMED:] else changes))
