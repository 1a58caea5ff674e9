"""The variants that `variants` tries, a function for each part of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from common import Text
from variants_lexicon import Lexicon
from variants_scores import FORMULAS, KERNELS, SCORES, Scores, Way, best, soft, soft_near, with_null

from align import Pair
from align.core.settings import THRESHOLD, Null
from align.core.soft import ALONE, claims, links_above, sharpen, soft_scores
from align.core.types import Cell, Links
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import count_all, estimate

THRESHOLDS = [n / 50 for n in range(2, 46)]

Variant = tuple[str, list[Links], str]
"""Its name, links, and the threshold that made them, if any."""


@dataclass(frozen=True)
class Material:
    """What variants are made of.

    Attributes:
        text: to align, with gold.
        ways: both directions.
        reference: the reference's links.
        lexicon: of the text's own links; None for no such variants.
    """

    text: Text
    ways: tuple[Way, Way]
    reference: list[Links]
    lexicon: Lexicon | None

    @cached_property
    def forward(self) -> Scores:
        """Shares as the reference has them."""
        return self.ways[0].shares()

    @cached_property
    def reverse(self) -> Scores:
        """Likewise."""
        return self.ways[1].shares()

    @cached_property
    def rows(self) -> tuple[Scores, Scores]:
        """What is sharpened to make these, `</s>` last."""
        return self.ways[0].rows(), self.ways[1].rows()

    @cached_property
    def next_rows(self) -> tuple[Scores, Scores]:
        """Likewise, of the next layer in the output position."""
        forward, reverse = self.ways
        return forward.rows(forward.next_layer, "output"), reverse.rows(reverse.next_layer, "output")

    def both_positions(self, power: float) -> list[Scores]:
        """Rows of either direction in both positions, the output position's to this power."""
        return [
            [a * b**power for a, b in zip(read, predicted, strict=True)]
            for read, predicted in zip(self.rows, self.next_rows, strict=True)
        ]

    @cached_property
    def best(self) -> tuple[list[Links], list[Links]]:
        """Best words of the forward and the reverse direction, as (source, target)."""
        return best(self.ways[0].word_scores()), turned(best(self.ways[1].word_scores()))


def above(scores: Scores, threshold: float) -> list[Links]:
    """Links of words whose score is above the threshold."""
    return [frozenset(links_above(words, threshold)[0]) for words in scores]


def turned(links: Sequence[Links]) -> list[Links]:
    """Source and target of every link the other way round."""
    return [frozenset((i, j) for j, i in some) for some in links]


def mirrored(scores: Scores) -> Scores:
    """Shares as if a model of the other direction had them."""
    return [words.mT for words in scores]


def alone(forward: Scores, reverse: Scores) -> Scores:
    """Soft scores that know of no neighbours."""
    return [claims(f.double() * r.mT).float() for f, r in zip(forward, reverse, strict=True)]


def at_reference(name: str, scores: Scores) -> Variant:
    """Scores at the reference's threshold."""
    return name, above(scores, THRESHOLD), f"{THRESHOLD:g}"


def by_gold(name: str, scores: Scores, text: Text) -> Variant:
    """Scores at the threshold that gold likes best, which no user has."""
    rates = {t: estimate(count_all(above(scores, t), text.gold), samples=0).value for t in THRESHOLDS}
    lowest = min(THRESHOLDS, key=lambda t: rates[t] or 0)
    return name, above(scores, lowest), f"{lowest:g}, by gold"


def one_direction(of: Material) -> Iterator[Variant]:
    """Either model by itself."""
    yield "best words, forward", of.best[0], ""
    yield "best words, reverse", of.best[1], ""
    yield at_reference("soft, forward", [soft_scores(f) for f in of.forward])
    yield at_reference("soft, reverse", [soft_scores(r.mT) for r in of.reverse])


def heuristics(of: Material) -> Iterator[Variant]:
    """Methods on the best words of either direction."""
    for name, method in ALL_METHODS.items():
        yield name, list(map(method, *of.best)), ""


def formulas(of: Material) -> Iterator[Variant]:
    """Soft scores, these of rows that are as sharp as they come, and other scores out of both directions' shares."""
    yield "reference", of.reference, f"{THRESHOLD:g}"
    yield by_gold("reference", soft(of.forward, of.reverse), of.text)
    yield at_reference("no neighbours", alone(of.forward, of.reverse))
    plain = soft(*([words[..., :-1] for words in rows] for rows in of.rows))
    yield at_reference("not sharpened", plain)
    yield by_gold("not sharpened", plain, of.text)
    for name, formula in FORMULAS.items():
        scores = [formula(f, r.mT) for f, r in zip(of.forward, of.reverse, strict=True)]
        yield by_gold(name, scores, of.text)


def scores_at(of: Material, all_heads: bool) -> Iterator[Variant]:
    """Other scores, at the head that was chosen or at all heads of its layer."""
    cells = [Cell(way.cell.layer, "all") if all_heads else way.cell for way in of.ways]
    for score in SCORES:
        yield at_reference(score, soft(*(way.shares(score, cell) for way, cell in zip(of.ways, cells, strict=True))))


def second_heads(of: Material) -> Iterator[Variant]:
    """A mean of two heads' shares."""
    seconds = [way.rows(way.second_head()) for way in of.ways]
    for weight in (0.1, 0.2, 0.3):
        mixed = [
            [sharpen((1 - weight) * a + weight * b, "eos") for a, b in zip(first, second, strict=True)]
            for first, second in zip(of.rows, seconds, strict=True)
        ]
        yield by_gold(f"{weight} of the scores", soft(*mixed), of.text)


def merging(of: Material) -> Iterator[Variant]:
    """Other ways from pieces to words."""
    for merge in (("sum", "max"), ("max", "mean"), ("max", "max")):
        yield at_reference("/".join(merge), soft(*(way.shares(merge=merge) for way in of.ways)))
    forward, reverse = of.ways[0].piece_links(), turned(of.ways[1].piece_links())
    for name in ("intersection", "grow-diag"):
        yield f"links united, {name}", list(map(ALL_METHODS[name], forward, reverse)), ""


def nulls(of: Material) -> Iterator[Variant]:
    """Other ways with `</s>`."""
    policies: tuple[Null, ...] = ("mask", "none")
    for null in policies:
        yield at_reference(null, soft(*(way.shares(null=null) for way in of.ways)))


def punctuation(of: Material) -> Iterator[Variant]:
    """Where both sides end in a mark, these two are linked to each other and to nothing else."""

    def mend(links: Links, pair: Pair) -> Links:
        ends = len(pair.source) - 1, len(pair.target) - 1
        if any(words[-1][-1].isalnum() for words in (pair.source, pair.target)):
            return links
        return frozenset(link for link in links if link[0] != ends[0] and link[1] != ends[1]) | {ends}

    yield "final marks linked", list(map(mend, of.reference, of.text.pairs)), ""


def positions(of: Material) -> Iterator[Variant]:
    """The next layer's output position too."""
    for power in (0.3, 0.5, 0.7, 1):
        forward, reverse = ([sharpen(rows, "eos") for rows in some] for some in of.both_positions(power))
        name = f"output position of the next layer to the power of {power}"
        yield at_reference(name, soft(forward, reverse))
        yield at_reference(f"{name}, forward", [soft_scores(f) for f in forward])


def sharpness(of: Material) -> Iterator[Variant]:
    """Rows of both positions more and less sharp than by default."""
    joined = of.both_positions(0.5)
    for mean in (0.4, 0.45, 0.5, 0.55, 0.6, 0.65):
        forward, reverse = ([sharpen(rows, "eos", mean) for rows in some] for some in joined)
        yield at_reference(f"{mean:g}", soft(forward, reverse))
        yield at_reference(f"{mean:g}, forward", [soft_scores(f) for f in forward])
        yield at_reference(f"{mean:g}, reverse", [soft_scores(r.mT) for r in reverse])


def neighbours(of: Material) -> Iterator[Variant]:
    """No neighbours of links in both positions, other ones, and other weights."""
    forward, reverse = ([sharpen(rows, "eos") for rows in some] for some in of.both_positions(0.5))
    both = {
        "": (forward, reverse),
        ", forward": (forward, mirrored(forward)),
        ", reverse": (mirrored(reverse), reverse),
    }
    ways = [(near, ALONE, 0.5) for near in KERNELS]
    ways += [("eight", least, 0.5) for least in (0.05, 0.2)] + [("eight", ALONE, power) for power in (0.3, 0.7)]
    for name, (one, other) in both.items():
        yield at_reference(f"none{name}", alone(one, other))
        for near, least, power in ways:
            scores = soft_near(one, other, near, least, power)
            yield at_reference(f"{near}, {least:g}, to the power of {power:g}{name}", scores)


def lexical(of: Material) -> Iterator[Variant]:
    """Shares times how much more often two words are linked in the text than chance would have it."""
    for power in (0.1, 0.3, 0.5) if of.lexicon else ():
        assert of.lexicon
        factors = [torch.from_numpy(of.lexicon.factors(n) ** power)[None] for n in range(len(of.text.pairs))]
        forward = [f * w for f, w in zip(of.forward, factors, strict=True)]
        reverse = [r * w.mT for r, w in zip(of.reverse, factors, strict=True)]
        name = f"{of.lexicon.pairs:,} pairs, exponent {power}"
        yield at_reference(name, soft(forward, reverse))
        yield f"{name}, best words, forward", best([with_null(f) for f in forward]), ""


PARTS: dict[str, Callable[[Material], Iterator[Variant]]] = {
    "one direction": one_direction,
    "heuristics": heuristics,
    "soft": formulas,
    "score, the head chosen": partial(scores_at, all_heads=False),
    "score, all heads": partial(scores_at, all_heads=True),
    "second most consistent head too": second_heads,
    "merging pieces": merging,
    "NULL": nulls,
    "punctuation": punctuation,
    "both positions": positions,
    "sharpness, both positions": sharpness,
    "neighbours, both positions": neighbours,
    "lexicon": lexical,
}
"""The parts of the table, in its order."""
