"""Unpack a package of Argos Translate, an archive that is not trusted, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from align.core.errors import ModelError, one_line, plural
from align.io.manifest import digest_of

ENDING = ".argosmodel"

_FILES = frozenset((
    *("metadata.json", "sentencepiece.model", "bpe.model", "model/model.bin", "model/config.json"),
    *(f"model/{name}_vocabulary.{ending}" for name in ("shared", "source", "target") for ending in ("json", "txt")),
))  # fmt: skip
"""Files of a package that are unpacked, below its folder."""

_MOST_GROWTH = 20
"""Maximum size of these files, in sizes of the archive: weights hardly shrink."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Methods of compression that are read: zipfile unpacks others by the block, which may be a million times as large."""


def unpack(package: Path) -> Path:
    """Return a folder with the files of a package; a package that was unpacked before is not unpacked again.

    Raises:
        ModelError: it is damaged, would be many times as large as its file, or has no model in it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "extract-align", "argos")
    folder = cache / digest_of(package, hashlib.sha256())[:32]
    if folder.is_dir():
        return folder
    try:
        with zipfile.ZipFile(package) as archive:
            members = dict(_members(archive))
            if "model/model.bin" not in members:
                raise ModelError("no model/model.bin in it", file=str(package))
            if any(member.compress_type not in METHODS for member in members.values()):
                raise ModelError("compressed in a way that is not read", file=str(package))
            size = sum(member.file_size for member in members.values())
            if size > _MOST_GROWTH * package.stat().st_size:
                raise ModelError(f"{plural(size, 'byte')} in it, too many for its size", file=str(package))
            cache.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(dir=cache))
            try:
                for name, member in members.items():
                    (temporary / name).parent.mkdir(exist_ok=True)
                    with archive.open(member) as source, (temporary / name).open("xb") as target:
                        shutil.copyfileobj(source, target)
                temporary.rename(folder)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                if not folder.is_dir():  # another process may have unpacked it
                    raise
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError, EOFError, struct.error, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(f"not a package that can be unpacked ({one_line(error)})", file=str(package)) from None
    return folder


def _members(archive: zipfile.ZipFile) -> list[tuple[str, zipfile.ZipInfo]]:
    """Return the files to unpack by their names below the package's folder, wherever that is in the archive."""
    members: list[tuple[str, zipfile.ZipInfo]] = []
    for member in archive.infolist():
        parts = PurePosixPath(member.filename).parts
        for depth in (0, 1):
            if "/".join(parts[depth:]) in _FILES:
                members.append(("/".join(parts[depth:]), member))
    return members
