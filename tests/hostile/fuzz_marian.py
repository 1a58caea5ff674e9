"""Marian model folders damaged at random, each loaded in a process of its own; see `fuzz_models`."""

from __future__ import annotations

import io
import random
import struct
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests import marian
from tests.hostile import driver, fuzz_models
from tests.hostile.driver import Case

WAYS = ("bytes", "bytes", "settings", "settings", "head", "yaml", "paths", "archive", "weights")
VALUES = (
    *("", "-1", "0", "1", "7", "999999999", "1e9", "'x'", "[1, 2]", "{a: b}", "&a [*a]", "!!python/object:os.system x"),
    *("nan", "true", "[" * 5000, "a" * 10**6, "\\x00", "rnn", "ssru", "gelu", "n", "dan", "'a: b'", "- 1"),
)
YAML = (
    b"a: 0\n" * 10**5, b"[" * 10**6, b"a: &x [1]\nb: " + b"*x " * 9, b"\xff\xfe", b"- a\n" * 10**5, b"a" * 10**7, b"",
    b"".join(b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1) if n > 97 else b"x"] * 9)) for n in range(97, 110)),
    b"vocabs:\n  - ../../etc/passwd\n  - /etc/passwd\n", b"vocabs: [vocab.yml]",
    b"'</s>': 0\n'<unk>': 99999999999\n",
)  # fmt: skip


def save_sound(root: Path) -> Mapping[str, Path]:
    """Sound folders, one of each kind of file."""
    folders: dict[str, Path] = {}
    for name, shape in (
        ("npz", "teacher"),
        ("bin", "student"),
        ("int8", "pre-norm-ssru"),
        ("untied", "untied"),
        ("int16", "tied-layers"),
    ):
        folder = folders[name] = root / name
        folder.mkdir(parents=True)
        items, settings = marian.make(marian.SHAPES[shape])
        if name in ("npz", "untied"):
            marian.write_npz(folder / "model.npz", items, settings)
        else:
            marian.write_bin(folder / "model.deen.bin", items, settings, marian.QUANTISED.get(name))
        marian.write_vocabulary(folder / "vocab.yml")
        (folder / "decoder.yml").write_text("vocabs:\n  - vocab.yml\n  - vocab.yml\n")
        (folder / "model.toml").write_text('source = "de"\ntarget = "en"\n[text]\nsubwords = "none"\n')
    return folders


def damage(folder: Path, rng: random.Random) -> str:
    """Damage a sound folder, and return in which way."""
    way = rng.choice(WAYS)
    (model,) = (path for path in folder.iterdir() if path.suffix in (".npz", ".bin"))
    if way == "bytes":
        fuzz_models.damage_bytes(rng.choice([model, model, *folder.glob("*.yml")]), rng)
    elif way == "settings":
        items, settings = marian.make(marian.SHAPES[rng.choice([*marian.SHAPES])])
        lines = settings.split("\n")
        for _ in range(rng.choice((1, 1, 3))):
            n = rng.randrange(len(lines))
            lines[n] = f"{lines[n].partition(':')[0]}: {rng.choice(VALUES)}"
        write = marian.write_npz if model.suffix == ".npz" else marian.write_bin
        write(model, items, "\n".join(lines))
    elif way == "head":
        content = bytearray(model.read_bytes())
        for _ in range(rng.choice((1, 2, 9))):
            at = 8 * rng.randrange(min(200, len(content) // 8))
            number = rng.choice((0, 1, 2, 255, 0x4101, 0x1801, 0x404, 2**31, 2**32 + 4, 2**62, 2**63, 2**64 - 1))
            content[at : at + 8] = struct.pack("<Q", number)
        model.write_bytes(content)
    elif way == "yaml":
        rng.choice([*folder.glob("*.yml")]).write_bytes(rng.choice(YAML))
    elif way == "paths":
        fuzz_models.damage_paths(folder, rng, [path.name for path in folder.iterdir()])
    elif way == "archive":
        _write_archive(folder, model, rng)
    else:
        items, settings = marian.make(marian.SHAPES["teacher"])
        name = rng.choice([*items])
        shapes = ((0, 4), (1,), (10**4, 10), (2, 2, 2), (), (1, 10**6))
        items[name] = np.zeros(rng.choice(shapes), dtype=rng.choice([np.float32, np.int64, np.float16, np.complex64]))
        if rng.random() < 0.3:
            items[name] = np.full((16, 16), np.nan, dtype=np.float32)
        model.unlink()
        marian.write_npz(folder / "model.npz", items, settings)
    return way


def _write_archive(folder: Path, model: Path, rng: random.Random) -> None:
    """An archive that is not what it says, or that would be far larger."""
    items, settings = marian.make(marian.SHAPES["teacher"])
    header = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}".format(
        rng.choice(("<f4", "|O", "<f8", "|S9", "<U99999999", "(10000,10000)<f4", "V9")),
        rng.choice(("(10**9,)", "(1000000, 1000000)", "(-1,)", "(2,)", "()", "(" * 5000)),
    ).encode()
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 65536) + header
    if rng.random() < 0.5:
        whole = io.BytesIO()
        np.save(whole, np.zeros(rng.choice((10, 10**8 // 4)), dtype=np.float32))
        data = whole.getvalue()
    model.unlink()
    marian.write_npz(folder / "model.npz", items, settings)
    with zipfile.ZipFile(folder / "model.npz", "a", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        archive.writestr(rng.choice(("x.npy", "../../x.npy", "Wemb.npy", "x", "special:model.yml.npy")), data)


def marian_case(root: Path) -> Case:
    """Return what damages one of these folders and loads it; works below a folder."""
    return fuzz_models.folder_case(save_sound(root / "sound"), root, damage)


def main() -> int:
    """Run from the command line."""
    with TemporaryDirectory() as temporary:
        return driver.main("marian", marian_case(Path(temporary)), 1000)


if __name__ == "__main__":
    sys.exit(main())
