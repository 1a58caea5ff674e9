"""What does it add to aligning a text to put tags into it? eval/results/benchmark_markup.tsv.

Each source sentence gets a tag around a run of 1 to 6 words, and one between two words. What is timed in turn, 500
lines at a time: aligning them, as `extract-align` does by default; and reading their tags, aligning with all scores
that the tags are put by, and putting them. One process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from random import Random

import torch
from markup import LONGEST, tagged
from timing import Row, in_turn, ratio, read, write_rows

from align import Aligner, Direction, Pair, Settings, load, two_way
from align.core.batching import chunks
from align.evaluation.metrics import SEED
from align.transfer.markup import place_markup
from align.transfer.tree import read_markup
from align.transfer.windows import FLOOR

TOGETHER = 500

Line = tuple[Pair, str, str]
"""A pair, its source with tags, and its target as text between tags is written."""


def with_tags(pairs: list[Pair]) -> list[Line]:
    """The pairs that have words, with two tags each."""
    random = Random(SEED)
    lines = []
    for pair in pairs:
        if not pair.blank:
            first, point = random.randrange(len(pair.source)), random.randrange(len(pair.source))
            span = first, min(len(pair.source), first + random.randint(1, LONGEST))
            lines.append((pair, tagged(pair, [(point, point), span]), " ".join(map(escape, pair.target))))
    return lines


def align_all(aligner: Aligner, lines: list[Line]) -> None:
    """Align lines."""
    for _ in aligner(pair for pair, *_ in lines):
        pass


def transfer_all(aligner: Aligner, lines: list[Line]) -> None:
    """Read the tags of lines, align them, and put the tags into the targets."""
    markups = [read_markup(source, "xml") for _, source, _ in lines]
    pairs = (Pair(markup.readable(), pair.target, pair.id) for markup, (pair, *_) in zip(markups, lines, strict=True))
    for alignment, markup, (_, _, target) in zip(aligner(pairs), markups, lines, strict=True):
        place_markup(markup, target, alignment.scores)


def run(
    source: str, target: str, model: str, reverse_model: str, lines: int, rounds: int, threads: int, output: Path
) -> None:
    """Measure, print, write."""
    torch.set_num_threads(threads)
    models = [load(name, device="cpu", too_long="blank").forward.recorder for name in (model, reverse_model)]
    pairs = read(source, target, lines)
    sharp, soft = Settings(threshold=None), Settings(threshold=FLOOR)
    forward, reverse = (Aligner(Direction(one, sharp), too_long="blank") for one in models)
    aligners: dict[str, tuple[Aligner, Aligner]] = {
        "one model": (
            Aligner(Direction(models[0]), too_long="blank"),
            Aligner(Direction(models[0], soft), too_long="blank"),
        ),
        "two models": (two_way(forward, reverse), two_way(forward, reverse, threshold=FLOOR)),
    }
    parts = list(chunks(with_tags(pairs), TOGETHER))
    rows: list[Row] = []
    for name, (default, scoring) in aligners.items():
        ways: dict[str, Callable[[list[Line]], object]] = {
            "links": partial(align_all, default.fixed(pairs)),
            "tags": partial(transfer_all, scoring.fixed(pairs)),
        }
        seconds = in_turn(ways, parts, rounds)
        ratios = [b / a for a, b in zip(seconds["links"], seconds["tags"], strict=True)]
        rows.append((name, "putting tags / aligning", ratio(seconds, "tags", "links"), "x"))
        rows += [
            (name, f"{which} of the rounds", value, "x")
            for which, value in (("lowest", min(ratios)), ("highest", max(ratios)))
        ]
    arguments = ("-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds)
    about = " and ".join(one.name for one in models)
    write_rows(rows, output / "benchmark_markup.tsv", *arguments, about=about, threads=threads)
