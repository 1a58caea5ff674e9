"""Unpack a package of Argos Translate, an archive that is not trusted, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from align.core.errors import ModelError, one_line
from align.io.manifest import digest_of

ENDING = ".argosmodel"

_FILES = frozenset((
    *("metadata.json", "sentencepiece.model", "bpe.model", "model/model.bin", "model/config.json"),
    *(f"model/{name}_vocabulary.{ending}" for name in ("shared", "source", "target") for ending in ("json", "txt")),
))  # fmt: skip
"""Files of a package that are unpacked, below its folder."""


def unpack(package: Path) -> Path:
    """Return a folder with the files of a package; a package that was unpacked before is not unpacked again."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "extract-align", "argos")
    folder = cache / digest_of(package, hashlib.sha256())[:32]
    if folder.is_dir():
        return folder
    try:
        with zipfile.ZipFile(package) as archive:
            members: dict[str, zipfile.ZipInfo] = {}  # by names below the package's folder, wherever that is
            for member in archive.infolist():
                parts = PurePosixPath(member.filename).parts
                names = ("/".join(parts[depth:]) for depth in (0, 1))
                members |= {name: member for name in names if name in _FILES}
            if "model/model.bin" not in members:
                raise ModelError("no model/model.bin in it", file=str(package))
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                unpacked = Path(temporary, "package")
                for name, member in members.items():
                    (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, (unpacked / name).open("xb") as target:
                        shutil.copyfileobj(source, target)
                if not folder.is_dir():  # another process may have unpacked it
                    unpacked.rename(folder)
    except ModelError:
        raise
    except Exception as error:  # zipfile and its decompressors raise nearly anything
        raise ModelError(f"not a package that can be unpacked ({one_line(error)})", file=str(package)) from None
    return folder
