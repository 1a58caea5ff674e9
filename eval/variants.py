"""What was tried for the default with two models, and what it came to on gold: eval/results/variants.*.

    .venv/bin/python eval/variants.py --data DIR

Scores, merge rules, NULL, symmetrisation by heuristics and by soft scores, a lexicon of the text's own links, final
punctuation: each is one change of the default, with a paired test against it. What did not win is in no other file of
this project: here it is written plainly in numpy, a pair at a time. Models, gold and text to learn a lexicon from are
those of the experiment "bundled" in eval/experiments.toml.

Letters: J target words, I source words.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from reproduce import HERE, Text, letters, parse_with_data, read_config, read_gold, read_train
from variants_lexicon import Lexicon
from variants_scores import SCORES, TINY, Array, Way, claims

from align import Pair, __version__, load
from align.attention.consistency import Vocabulary, lexical_consistency
from align.links.metrics import SEED, Counts, compare, count_all, estimate
from align.links.symmetrize import METHODS, THRESHOLD
from align.memory import keep_freed_memory
from align.types import Cell, Links
from align.view.tables import Column, Rows, Value, as_text, as_tsv, show_interval

THRESHOLDS = [n / 50 for n in range(2, 46)]


FORMULAS: dict[str, Callable[[Array, Array], Array]] = {
    "2fr/(f+r)": lambda f, r: 2 * f * r / np.maximum(f + r, TINY),
    "sqrt(fr)": lambda f, r: np.sqrt(f * r),
    "(f+r)/2": lambda f, r: (f + r) / 2,
    "min(f,r)": np.minimum,
    "soft of sqrt(fr)": lambda f, r: claims(np.sqrt(f * r)),
    "soft of 2fr/(f+r)": lambda f, r: claims(2 * f * r / np.maximum(f + r, TINY)),
    "soft of (f+r)/2": lambda f, r: claims((f + r) / 2),
}


def above(scores: list[Array], threshold: float) -> list[Links]:
    """Links of words whose score is above the threshold."""
    return [frozenset((int(i), int(j)) for j, i in zip(*np.nonzero(one > threshold), strict=True)) for one in scores]


def best_words(shares: list[Array]) -> list[Links]:
    """Each target word's best source word, unless `</s>` has more than it."""
    found = []
    for one in shares:
        best, null = one.argmax(1), 1 - one.sum(1)
        found.append(frozenset((int(i), j) for j, i in enumerate(best) if one[j, i] > max(0, null[j])))
    return found


def turned(links: list[Links]) -> list[Links]:
    """Source and target of every link the other way round."""
    return [frozenset((i, j) for j, i in one) for one in links]


def turned_pairs(pairs: list[Pair]) -> list[Pair]:
    """Pairs with their sides swapped."""
    return [Pair(pair.target, pair.source, pair.id) for pair in pairs]


def second_head(way: Way, pairs: list[Pair]) -> Cell:
    """The head of the chosen layer whose links are the most consistent but for the head that was chosen."""
    words = Vocabulary(), Vocabulary()
    numbers = [(words[0].numbers(pair.source), words[1].numbers(pair.target)) for pair in pairs]
    values = {}
    for cell in (Cell(way.cell.layer, head) for head in range(1, way.heads + 1) if head != way.cell.head):
        linked = [
            (source[i], target[j])
            for (source, target), links in zip(numbers, best_words(way.shares(cell=cell)), strict=True)
            for i, j in links
        ]
        sides = np.array(linked, dtype=np.int64).reshape(-1, 2).T
        values[cell] = lexical_consistency(sides[0], sides[1], sum(len(target) for _, target in numbers))
    return max(values, key=lambda cell: values[cell])


def final_punctuation(links: list[Links], pairs: list[Pair]) -> list[Links]:
    """Where both sides end in a mark, these two are linked to each other and to nothing else."""
    found = []
    for one, pair in zip(links, pairs, strict=True):
        ends = len(pair.source) - 1, len(pair.target) - 1
        if not any(words[-1][-1].isalnum() for words in (pair.source, pair.target)):
            one = frozenset(link for link in one if link[0] != ends[0] and link[1] != ends[1]) | {ends}
        found.append(one)
    return found


class Tried:
    """Rows of the table: every variant's counts, beside the default's."""

    def __init__(self, text: Text, default: Counts) -> None:
        self._text, self._default = text, default
        self.rows: list[dict[str, Value]] = []

    def add(self, part: str, variant: str, links: list[Links], threshold: str = "") -> None:
        """Count links, and test them against the default."""
        counts = count_all(links, self._text.gold)
        row: dict[str, Value] = {"part": part, "variant": variant, "threshold": threshold}
        for name, some in self._text.parts():
            value, low, high = (x if x is None else 100 * x for x in estimate(counts[some]))
            row |= {f"aer_{name}": value, f"interval_{name}": show_interval(low, high, 1)}
        for metric in ("precision", "recall"):
            row[metric] = 100 * (estimate(counts, metric, samples=0).value or 0)
        row["p"] = compare(counts, self._default, "permutation", samples=10_000)[1]
        self.rows.append(row)

    def add_best(self, part: str, variant: str, scores: list[Array]) -> None:
        """The same at the threshold that gold likes best, which no user has."""
        rates = {t: estimate(count_all(above(scores, t), self._text.gold), samples=0).value for t in THRESHOLDS}
        best = min(THRESHOLDS, key=lambda t: rates[t] or 0)
        self.add(part, variant, above(scores, best), f"{best:g}, by gold")

    def columns(self) -> list[Column]:
        """What the rows hold."""
        columns = [Column("part", "part"), Column("variant", "variant"), Column("threshold", "threshold")]
        for name, _ in self._text.parts():
            columns += [Column(f"aer_{name}", f"AER {name}", 1), Column(f"interval_{name}", "95 % interval")]
        return [*columns, Column("precision", "P", 1), Column("recall", "R", 1), Column("p", "p against default", 4)]


def both_positions(read: Array, predicted: Array, power: float) -> Array:
    """Shares of both positions made one, the second to the power of this `[J, I]`; `</s>` has what is left of a row."""
    a, b = (np.hstack([one, np.maximum(1 - one.sum(1, keepdims=True), 0)]) for one in (read, predicted))
    rows = a * b**power
    return rows[:, :-1] / np.maximum(rows.sum(1, keepdims=True), TINY)


def soft(forward: list[Array], reverse: list[Array]) -> list[Array]:
    """Soft scores of every pair `[J, I]`."""
    return [claims(f * r.T) for f, r in zip(forward, reverse, strict=True)]


def try_all(tried: Tried, ways: tuple[Way, Way], text: Text, lexicon: Lexicon | None) -> None:
    """Every variant, by parts."""
    forward, reverse = (way.shares() for way in ways)
    there, back = best_words(forward), turned(best_words(reverse))
    tried.add("one direction", "best words, forward", there)
    tried.add("one direction", "best words, reverse", back)
    tried.add("one direction", "soft, forward", above([claims(f) for f in forward], THRESHOLD), f"{THRESHOLD:g}")
    tried.add("one direction", "soft, reverse", above([claims(r).T for r in reverse], THRESHOLD), f"{THRESHOLD:g}")
    for name, method in METHODS.items():
        tried.add("heuristics", name, [method(a, b) for a, b in zip(there, back, strict=True)])
    scores = soft(forward, reverse)
    tried.add("soft", "default", above(scores, THRESHOLD), f"{THRESHOLD:g}")
    tried.add_best("soft", "default", scores)
    for name, formula in FORMULAS.items():
        tried.add_best("soft", name, [formula(f, r.T) for f, r in zip(forward, reverse, strict=True)])
    for head in ("the head chosen", "all heads"):
        cells = [Cell(way.cell.layer, "all") if head == "all heads" else way.cell for way in ways]
        for score in SCORES:
            some = [way.shares(score, cell) for way, cell in zip(ways, cells, strict=True)]
            tried.add(f"score, {head}", score, above(soft(*some), THRESHOLD), f"{THRESHOLD:g}")
    seconds = [second_head(way, pairs) for way, pairs in zip(ways, (text.pairs, turned_pairs(text.pairs)), strict=True)]
    for weight in (0.1, 0.2, 0.3):
        both = [
            [(1 - weight) * a + weight * b for a, b in zip(one, way.shares(cell=cell), strict=True)]
            for one, way, cell in zip((forward, reverse), ways, seconds, strict=True)
        ]
        tried.add_best("second most consistent head too", f"{weight} of the scores", soft(*both))
    for merge in (("sum", "max"), ("max", "mean"), ("max", "max")):
        some = [way.shares(merge=merge) for way in ways]
        tried.add("merging pieces", "/".join(merge), above(soft(*some), THRESHOLD), f"{THRESHOLD:g}")
    there, back = ways[0].piece_links(), turned(ways[1].piece_links())
    for name in ("intersection", "grow-diag"):
        links = [METHODS[name](a, b) for a, b in zip(there, back, strict=True)]
        tried.add("merging pieces", f"links united, {name}", links)
    for null in ("mask", "none"):
        some = [way.shares(null=null) for way in ways]
        tried.add("NULL", null, above(soft(*some), THRESHOLD), f"{THRESHOLD:g}")
    tried.add("punctuation", "final marks linked", final_punctuation(above(scores, THRESHOLD), text.pairs))
    above_cells = [Cell(max(way.layers), "all") for way in ways]
    others = [way.shares(cell=c, position="output") for way, c in zip(ways, above_cells, strict=True)]
    for power in (0.3, 0.5, 0.7, 1):
        both = [
            [both_positions(a, b, power) for a, b in zip(one, other, strict=True)]
            for one, other in zip((forward, reverse), others, strict=True)
        ]
        name = f"output position of the next layer to the power of {power}"
        tried.add("both positions", name, above(soft(*both), THRESHOLD), f"{THRESHOLD:g}")
        tried.add(
            "both positions", f"{name}, forward", above([claims(f) for f in both[0]], THRESHOLD), f"{THRESHOLD:g}"
        )
    for power in (0.1, 0.3, 0.5) if lexicon else ():
        assert lexicon
        factors = [lexicon.factors(n) ** power for n in range(len(text.pairs))]  # [J, I] each
        times = [[f * w for f, w in zip(forward, factors, strict=True)], [
            r * w.T for r, w in zip(reverse, factors, strict=True)]]  # fmt: skip
        name = f"{lexicon.pairs:,} pairs, exponent {power}"
        tried.add("lexicon", name, above(soft(*times), THRESHOLD), f"{THRESHOLD:g}")
        tried.add("lexicon", f"{name}, best words, forward", best_words(times[0]))


def curve(scores: list[Array], links: dict[str, list[Links]], text: Text) -> Iterator[dict[str, Value]]:
    """Precision and recall of soft scores over thresholds, and of other links."""
    points = {f"soft {t:g}": above(scores, t) for t in THRESHOLDS}
    for name, some in {**points, **links}.items():
        counts = count_all(some, text.gold)
        values = {metric: estimate(counts, metric, samples=0).value for metric in ("precision", "recall", "aer")}
        yield {"links": name, **{metric: None if v is None else 100 * v for metric, v in values.items()}}


def main() -> int:
    """Try, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000, help="of the training text, for the lexicon; 0: none")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    args = parse_with_data(parser)
    config = read_config(HERE / "experiments.toml")
    experiment = config["experiment"]["bundled"]
    keep_freed_memory()
    text = read_gold(config, experiment["gold"], args.data)
    aligners = tuple(load(experiment[key][0], device="cpu") for key in ("models", "reverse_models"))
    ways = Way(aligners[0], text.pairs), Way(aligners[1], turned_pairs(text.pairs))
    scores = soft(ways[0].shares(), ways[1].shares())
    tried = Tried(text, count_all(above(scores, THRESHOLD), text.gold))
    lexicon = None
    if args.pairs:
        train = list(read_train(config["train"][experiment["train"][0]], args.data))
        random.Random(SEED).shuffle(train)
        tested = {letters(pair) for pair in text.pairs}
        some = islice((pair for pair in train if letters(pair) not in tested and not pair.blank), args.pairs)
        lexicon = Lexicon((aligners[0], aligners[1]), [*text.pairs, *some])
    try_all(tried, ways, text, lexicon)
    there, back = best_words(ways[0].shares()), turned(best_words(ways[1].shares()))
    heuristics = {name: [METHODS[name](a, b) for a, b in zip(there, back, strict=True)] for name in METHODS}
    points = list(curve(scores, heuristics, text))
    cells = f"forward:{ways[0].cell}, reverse:{ways[1].cell}"
    sign = (
        f"variants|{aligners[0].recorder.name}|{aligners[1].recorder.name}|{cells}|pairs:{args.pairs}|v:{__version__}"
    )
    tables: dict[str, tuple[list[Column], Rows]] = {
        "variants": (tried.columns(), tried.rows),
        "variants.curve": (
            [Column("links", "links"), *(Column(m, m, 1) for m in ("precision", "recall", "aer"))],
            points,
        ),
    }
    for name, (columns, rows) in tables.items():
        print(f"\n{name}\n\n{as_text(columns, rows, sign)}")
        (args.output / f"{name}.tsv").write_text(as_tsv(columns, rows, sign) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
