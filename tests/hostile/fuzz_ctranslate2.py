"""CTranslate2 folders damaged at random, each loaded in a process of its own; see `fuzz_models`."""

from __future__ import annotations

import random
import shutil
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import hugging
from tests.hostile import driver, fuzz_models
from tests.hostile.driver import Case
from tests.hostile.fuzz_hugging import damage_json

WAYS = ("bytes", "bytes", "numbers", "numbers", "names", "json", "json", "vocabulary", "paths")
VOCABULARIES = (
    b"[]",
    b"{}",
    b"[1, 2]",
    b"[" * 10**6,
    b'["a"' + b', "a"' * 10**6 + b"]",
    b"\xff",
    b"a\n" * 10**6,
    b"",
    b"</s>\n<unk>\n",
)


def save_sound(root: Path) -> Mapping[str, Path]:
    """Sound folders, one of each kind of numbers."""
    from ctranslate2.converters import TransformersConverter

    source = root / "transformers"
    hugging.save_model("marian", source)
    folders = {}
    for kind in ("float32", "int8", "int16", "bfloat16"):
        folder = folders[kind] = root / kind
        converter = TransformersConverter(str(source))
        converter.convert(str(folder), quantization=None if kind == "float32" else kind)
        for path in source.glob("*.spm"):
            shutil.copy(path, folder)
    return folders


def damage(folder: Path, rng: random.Random) -> str:
    """Damage a sound folder, and return in which way."""
    way = rng.choice(WAYS)
    model = folder / "model.bin"
    if way == "bytes":
        fuzz_models.damage_bytes(rng.choice([model, model, *folder.glob("*.json")]), rng)
    elif way == "numbers":
        content = bytearray(model.read_bytes())
        for _ in range(rng.choice((1, 1, 3))):
            kind = rng.choice("BHIQ")
            size = struct.calcsize(kind)
            at = rng.randrange(min(3000, len(content) - 8))
            number = rng.choice((0, 1, 2, 4, 7, 255, 65535, 2**31, 2**32 - 1, 2**62)) % 2 ** (8 * size)
            content[at : at + size] = struct.pack(f"<{kind}", number)
        model.write_bytes(content)
    elif way == "names":
        whole = model.read_bytes()
        names = (
            b"layer_0",
            b"layer_norm",
            b"self_attention",
            b"weight_scale",
            b"encodings",
            b"alignment_heads",
            b"num_heads",
        )
        name = rng.choice(names)
        new = bytes(rng.choice((name[:-1] + b"9", b"x" * len(name), name[::-1])))
        model.write_bytes(whole.replace(name, new, rng.choice((1, 3, -1))))
    elif way == "json":
        damage_json(folder / "config.json", rng)
    elif way == "vocabulary":
        rng.choice([*folder.glob("*vocabulary*")]).write_bytes(rng.choice(VOCABULARIES))
    else:
        fuzz_models.damage_paths(folder, rng, [path.name for path in folder.iterdir()])
    return way


def ctranslate2_case(root: Path) -> Case:
    """Return what damages one of these folders and loads it; works below a folder."""
    return fuzz_models.folder_case(save_sound(root / "sound"), root, damage)


def main() -> int:
    """Run from the command line."""
    with TemporaryDirectory() as temporary:
        return driver.main("ctranslate2", ctranslate2_case(Path(temporary)), 1000)


if __name__ == "__main__":
    sys.exit(main())
