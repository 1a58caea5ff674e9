"""Score links against gold: counts, scores with intervals, and paired tests of one system or several."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from align.core.errors import LinksError, plural
from align.core.types import Gold, Links
from align.evaluation.gold import LinksWarning
from align.evaluation.link_files import LinkFile
from align.evaluation.link_formats import OTHER_READINGS
from align.evaluation.metrics import METRICS, SAMPLES, SEED, Counts, Estimate, Test, aer, compare, count_all, estimate

MIN_GAIN = 0.05  # difference in AER, as a share of 1, from which another reading of a file causes a warning


@dataclass(frozen=True)
class System:
    """One system's links and scores."""

    name: str
    links: Sequence[Links] = field(repr=False)
    counts: Counts = field(repr=False)  # |A∩S|, |A∩P|, |A|, |S| of each sentence pair `[N, 4]`
    scores: Mapping[str, Estimate]  # by metric, with an interval if requested
    # result of `metrics.compare` with the first; None for the first itself, and without a test
    difference: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class Report:
    """Scores of all systems; `paired` is the test of each against the first, if any."""

    gold: Sequence[Gold] = field(repr=False)
    systems: Sequence[System]
    samples: int
    seed: int
    paired: Test | None

    def signature_parts(self) -> dict[str, str | int | None]:
        """Return the settings that the numbers depend on apart from the files, for `align.io.signature.signature`."""
        parts: dict[str, str | int | None] = {"n": len(self.gold)}
        if self.samples:
            parts |= {"ci": f"percentile-{self.samples}", "seed": self.seed, "test": self.paired}
        return parts


def evaluate(
    gold: Sequence[Gold] | LinkFile,
    systems: Mapping[str, Sequence[Links] | LinkFile] | Iterable[tuple[str, Sequence[Links] | LinkFile]],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
    paired: Test | None = None,
    intervals: Collection[str] = tuple(METRICS),
) -> Report:
    """Score one system or several against gold; warn if links would score clearly better read another way.

    Args:
        gold: links of each sentence pair, as from `read_gold`.
        systems: links of the same pairs by name; pairs of name and links if a name may occur twice.
        samples: number of bootstrap samples or permutations; 0 for no intervals and no test.
        seed: seed of the samples.
        paired: "bootstrap" or "permutation" tests each system against the first; None for no test.
        intervals: the metrics that get a 95 % interval.

    Raises:
        LinksError: a system has another number of sentence pairs than the gold.
    """
    # what may have been read the wrong way
    of_files = ("hyp", "gold") if isinstance(gold, LinkFile) else ("hyp",)
    gold = gold.pairs if isinstance(gold, LinkFile) else gold
    judged: list[System] = []
    for name, system in systems.items() if isinstance(systems, Mapping) else systems:
        links = system.links if isinstance(system, LinkFile) else system
        if len(links) != len(gold):
            raise LinksError(f"{name} has {plural(len(links), 'sentence pair')}, the gold {len(gold):,}")
        counts = count_all(links, gold)
        as_read = float(aer(counts.sum(0)))
        for reading, convert in OTHER_READINGS.items():
            rate = float(aer(count_all(map(convert, links), gold).sum(0)))
            if rate < as_read - MIN_GAIN:
                swapped = reading == "swapped"
                otherwise = "its sides swapped" if swapped else f"all its indices {reading}"
                message = f"AER {100 * as_read:.1f}, but with {otherwise} it would be {100 * rate:.1f}"
                arguments = [f"‹{file}.{'swapped' if swapped else 'base'}›" for file in of_files]
                error = LinksError(message, file=name, hint=f"check {' and '.join(arguments)}")
                warnings.warn(LinksWarning(error), stacklevel=2)
        scores = {m: estimate(counts, m, samples if m in intervals else 0, seed) for m in METRICS}
        difference = None
        if paired and judged:
            difference = compare(counts, judged[0].counts, paired, samples=samples, seed=seed)
        judged.append(System(name, links, counts, scores, difference))
    return Report(gold, judged, samples, seed, paired)
