"""Recipes damaged at random: each is read, with only such options as a recipe may set, or refused in one line."""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from align.training.recipe import OPTIONS, read_recipe
from tests.conftest import ROOT
from tests.hostile import driver
from tests.hostile.driver import Tried

CODE = "__import__('os').system('touch mark')"
LINES = (
    *(f'adam-betas = "{CODE} or (0.9, 0.98)"', '"save-dir=/tmp/elsewhere" = true', '"restore-file=x" = true'),
    *('"--user-dir" = "x"', 'user_dir = "x"', 'tensorboard-logdir = "x"', 'lr = "--save-dir=x"', "lr = [[1]]"),
    *("lr = nan", "lr = -inf", 'arch = "${oc.env:HOME}"', 'arch = "a\\u0000b"', "arch = ''", "seeds = [inf]"),
    *('seeds = ["x"]', "seeds = 3", "[fairseq.lr]\na = 1", "max-update = 1979-05-27", "a = " + "[" * 3000),
    *("[data]\nmax_words = true", "[text]\ncase = 'upper'", "criterion = { a = 1 }", '"" = 1', '"\\n" = 1'),
    *('"lr\\u0000" = 1', 'pretrained = "x"', 'encoder-embed-path = "/etc/x"'),
)


def damage(content: bytes, rng: random.Random) -> bytes:
    """A recipe with other lines among its own, or with other bytes."""
    lines = content.split(b"\n")
    for _ in range(rng.randrange(3)):
        lines.insert(rng.randrange(len(lines)), rng.choice(LINES).encode())
    for _ in range(rng.randrange(3)):
        del lines[rng.randrange(len(lines))]
    raw = bytearray(b"\n".join(lines))
    for _ in range(rng.choice((0, 0, 1, 5))):
        raw[rng.randrange(len(raw))] = (
            rng.choice(b"\0\n[]{}=\"'-_.,:$9aZ\xff") if rng.random() < 0.8 else rng.randrange(256)
        )
    return bytes(raw)


def judge(path: Path) -> str:
    """What happens with a recipe: "read", "refused", or what is wrong."""
    try:
        recipe = read_recipe(path)
    except ValueError as error:
        return "refused" if str(error).startswith(f"{path}: ") else f"wrong: {error}"
    names = [flag for flag in recipe.flags() if flag.startswith("--")]
    if any(name.removeprefix("--") not in OPTIONS for name in names):
        return f"wrong: {names}"
    return "read"


def try_recipe(rng: random.Random) -> Tried:
    """Read a damaged recipe."""
    content = (ROOT / "align" / "training" / "recipes" / "small.toml").read_bytes()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recipe.toml"
        path.write_bytes(damage(content, rng))
        what = judge(path)
        kept = partial(_keep_recipe, path.read_bytes())
    return Tried(what) if what in ("read", "refused") else Tried("other", what, kept)


def _keep_recipe(content: bytes, folder: Path) -> None:
    (folder / "recipe.toml").write_bytes(content)


if __name__ == "__main__":
    sys.exit(driver.main("recipes", try_recipe, 20_000))
