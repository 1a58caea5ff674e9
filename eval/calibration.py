"""How many lines choosing layer and head takes, and by which rule: eval/results/calibration.tsv.

    .venv/bin/python eval/calibration.py --data DIR

Lines are drawn at random, again and again, from the text that the models of the experiment "bundled" were trained on,
and from each of its larger sources by itself; norms in the input position choose. AER of what is chosen is that on the
experiment's gold, of both directions made one.

- lexical consistency: of each model's own links, as `extract-align` has it;
- of both: of the links that two directions have in common, for each pair of cells;
- agreement: the pair of cells with the highest Dice of links, as SHIFT-ATT chooses its layer (Chen et al., 2020).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from reproduce import HERE, parse_with_data, read_config, read_gold, read_train

from align import Aligner, Pair, Settings, TwoWayAligner, __version__, load
from align.aligners.choice import all_cells
from align.aligners.encoding import encode
from align.aligners.sweep import link_all
from align.aligners.swept import POSITIONS, SCORES
from align.attention.consistency import Vocabulary, lexical_consistency
from align.batching import chunks
from align.links.metrics import SEED, count_all, estimate
from align.memory import keep_freed_memory
from align.types import Cell, TextWarning
from align.view.tables import Column, Value, as_text, as_tsv

Ints = NDArray[np.int64]
SIZES = (20, 50, 100, 200, 500, 1000, 2000, 5000)
DRAWS = 20
IN_DOMAIN = 500
Chosen = tuple[int, int]
"""Numbers of a forward and a reverse cell."""


class Lines:
    """Links of every cell in both directions, of every line: the best words, and the words' numbers."""

    def __init__(self, aligners: tuple[Aligner, Aligner], pairs: list[Pair]) -> None:
        words = Vocabulary(), Vocabulary()
        self.lines: list[tuple[Ints, Ints, Ints, Ints]] = []
        self.ids: list[int] = []
        s, p = SCORES.index("norm"), POSITIONS.index("input")
        for chunk in chunks(iter(pairs), aligners[0].buffer):
            swapped = [Pair(pair.target, pair.source, pair.id) for pair in chunk]
            back = link_all(aligners[1], [encode(aligners[1].recorder, pair, "blank") for pair in swapped])
            forth = link_all(aligners[0], [encode(aligners[0].recorder, pair, "blank") for pair in chunk])
            for pair, there, again in zip(chunk, forth, back, strict=True):
                if there and again:
                    numbers = words[0].numbers(pair.source), words[1].numbers(pair.target)
                    self.ids.append(pair.id)
                    self.lines.append((there.words[s, p], again.words[s, p], *numbers))

    def sample(self, numbers: list[int]) -> tuple[Ints, Ints, Ints, Ints]:
        """These lines one behind the other: `[C, J]` source words of target words, `[C', I]`, and words' numbers."""
        forward, reverse, offsets = [], [], [0, 0]
        some = [self.lines[n] for n in numbers]
        for there, back, source, target in some:
            forward.append(np.where(there >= 0, there + offsets[0], -1))
            reverse.append(np.where(back >= 0, back + offsets[1], -1))
            offsets = [offsets[0] + len(source), offsets[1] + len(target)]
        source, target = (np.concatenate([line[side] for line in some]) for side in (2, 3))
        return np.concatenate(forward, axis=1), np.concatenate(reverse, axis=1), source, target


def by_consistency(forward: Ints, reverse: Ints, source: Ints, target: Ints) -> Chosen:
    """Each model's own."""
    there = [lexical_consistency(source[f[f >= 0]], target[f >= 0], len(target)) for f in forward]
    back = [lexical_consistency(target[r[r >= 0]], source[r >= 0], len(source)) for r in reverse]
    return int(np.argmax(there)), int(np.argmax(back))


def best_pair(forward: Ints, reverse: Ints, value: Callable[[Ints, Ints, NDArray[np.bool_]], float]) -> Chosen:
    """The pair of cells with the highest value of its links and of which are in both directions."""
    targets = np.arange(forward.shape[1])
    values = {
        (a, b): value(f, r, (r[np.maximum(f, 0)] == targets) & (f >= 0))
        for (a, f), (b, r) in product(enumerate(forward), enumerate(reverse))
    }
    return max(values, key=lambda chosen: values[chosen])


def by_both(forward: Ints, reverse: Ints, source: Ints, target: Ints) -> Chosen:
    """That of the links in common."""
    return best_pair(
        forward, reverse, lambda f, _, same: lexical_consistency(source[f[same]], target[same], len(target))
    )


def by_agreement(forward: Ints, reverse: Ints, source: Ints, target: Ints) -> Chosen:
    """Dice."""
    return best_pair(forward, reverse, lambda f, r, same: 2 * same.sum() / max(1, (f >= 0).sum() + (r >= 0).sum()))


RULES = {"lexical consistency": by_consistency, "of both": by_both, "agreement": by_agreement}


def rows(
    lines: Lines, labels: list[str], rate: Callable[[Chosen], float], cells: list[Cell]
) -> Iterator[dict[str, Value]]:
    """The table: what each rule chooses from how many lines of which text, and what that is worth."""
    random = np.random.default_rng(SEED)
    everywhere = list(range(len(lines.lines)))
    texts = [("all", everywhere, size) for size in SIZES if size <= len(everywhere)]
    for label, count in Counter(labels).most_common():
        if count >= IN_DOMAIN:
            texts.append((label, [n for n in everywhere if labels[n] == label], IN_DOMAIN))
    for text, numbers, size in texts:
        for rule, choose in RULES.items():
            draws = DRAWS if size < 1000 else max(2, DRAWS * 200 // size)
            found = [choose(*lines.sample(random.choice(numbers, size, replace=False).tolist())) for _ in range(draws)]
            rates = [100 * rate(chosen) for chosen in found]
            most, times = Counter(found).most_common(1)[0]
            yield {
                **{"text": text, "lines": size, "rule": rule, "draws": draws},
                **{"mean": float(np.mean(rates)), "worst": max(rates)},
                **{"most": f"{cells[most[0]]}; {cells[most[1]]}", "share": 100 * times / draws},
            }


def main() -> int:
    """Choose, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=12_000, help="to draw from")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "calibration.tsv")
    args = parse_with_data(parser)
    config = read_config(HERE / "experiments.toml")
    experiment = config["experiment"]["bundled"]
    keep_freed_memory()
    text = read_gold(config, experiment["gold"], args.data)
    forward, reverse = (load(experiment[key][0], device="cpu") for key in ("models", "reverse_models"))
    about = config["train"][experiment["train"][0]]
    sources = (args.data / about["labels"]).read_text(encoding="utf-8").split("\n")
    train = [pair for pair in read_train(about, args.data) if not pair.blank]
    taken = np.random.default_rng(SEED).permutation(len(train))[: args.lines].tolist()
    lines = Lines((forward, reverse), [train[n] for n in taken])
    cells = all_cells(forward.recorder)  # the reverse model has the same

    @lru_cache
    def rate(chosen: Chosen) -> float:
        a, b = (Settings(layer=cells[n].layer, head=cells[n].head) for n in chosen)
        both = TwoWayAligner(Aligner(forward.recorder, a), Aligner(reverse.recorder, b))
        found = [alignment.links for alignment in both(text.pairs)]
        return estimate(count_all(found, text.gold), samples=0).value or 0.0

    names = [sources[n - 1] for n in lines.ids]
    table = list(rows(lines, names, rate, cells))
    columns = [Column("text", "text"), Column("lines", "lines"), Column("rule", "rule"), Column("draws", "draws")]
    columns += [Column("mean", "mean AER", 1), Column("worst", "worst", 1), Column("most", "chosen most often")]
    columns += [Column("share", "% of draws", 0)]
    sign = f"calibration|{forward.recorder.name}|{reverse.recorder.name}|lines:{len(lines.lines)}|seed:{SEED}"
    sign += f"|v:{__version__}"
    print(as_text(columns, table, sign))
    args.output.write_text(as_tsv(columns, table, sign) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", TextWarning)
    sys.exit(main())
