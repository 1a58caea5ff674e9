"""Recipes damaged at random: each is read, with only such options as a recipe may set, or refused in one line."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from align.training.recipe import OPTIONS, read_recipe
from tests.conftest import ROOT
from tests.hostile.command import Deadline, options, print_table

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


def run(count: int, seed: int, seconds: float, folder: Path, keep: Path | None = None) -> Counter[str]:
    """Damage and read recipes; counts the results. Those that go wrong are kept by their number."""
    content = (ROOT / "align" / "training" / "recipes" / "small.toml").read_bytes()
    counts: Counter[str] = Counter()
    deadline = Deadline(seconds)
    for number in range(count):
        if deadline.over:
            break
        path = folder / "recipe.toml"
        path.write_bytes(damage(content, random.Random(f"{seed}/{number}")))
        what = judge(path)
        counts[what.partition(":")[0]] += 1
        if what not in ("read", "refused"):
            print(f"seed {seed}, case {number}: {what[:300]}", file=sys.stderr)
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                path.replace(keep / f"{seed}-{number}.toml")
    return counts


def main() -> int:
    """Run from the command line; exit code 1 where something is wrong."""
    parser = options("recipes", 20_000)
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        counts = run(args.count, args.seed, args.seconds, Path(folder), args.keep)
    print_table(parser, [("came of it", "recipes"), *((what, counts[what]) for what in ("read", "refused", "wrong"))])
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
