"""Compute alignment error rate, precision, recall and F1 from integer counts, with intervals and paired tests.

Each sentence is counted once; everything after that is sums of the counts, so that no text is read twice.
A score that would divide by zero is undefined: NaN in arrays, `None` in results for people.

Sources: AER, precision and recall with sure and possible links are those of Och and Ney (2003), eqs. 24 to 26;
the paired bootstrap is that of Koehn (2004), centred; the permutation test swaps the systems sentence by sentence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.core.types import Gold, Links

Counts = NDArray[np.int64]
"""|A∩S|, |A∩P|, |A|, |S| in the last axis `[..., 4]`; A the hypothesis, S sure and P possible gold links."""

Test = Literal["bootstrap", "permutation"]

SAMPLES, SEED, CONFIDENCE = 1000, 12345, 0.95
_BATCH = 1 << 21  # sentence numbers drawn at a time: an eighth of a gigabyte with their counts


def count(links: Links, gold: Gold) -> tuple[int, int, int, int]:
    """Return |A∩S|, |A∩P|, |A|, |S| of one sentence pair."""
    return len(links & gold.sure), len(links & gold.possible), len(links), len(gold.sure)


def count_all(links: Iterable[Links], gold: Iterable[Gold]) -> Counts:
    """Return the counts of all sentence pairs `[N, 4]`; links and gold must be equally many."""
    rows = [count(a, g) for a, g in zip(links, gold, strict=True)]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    whole = np.asarray(whole, dtype=np.float64)
    quotient: NDArray[np.float64] = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)
    return quotient


def precision(counts: Counts) -> NDArray[np.float64]:
    """Return |A∩P| / |A|, `[..., 4]` to `[...]`."""
    return _share(counts[..., 1], counts[..., 2])


def recall(counts: Counts) -> NDArray[np.float64]:
    """Return |A∩S| / |S|, `[..., 4]` to `[...]`."""
    return _share(counts[..., 0], counts[..., 3])


def f1(counts: Counts) -> NDArray[np.float64]:
    """Return the harmonic mean of precision and recall, `[..., 4]` to `[...]`."""
    p, r = precision(counts), recall(counts)
    return _share(2 * p * r, p + r)


def aer(counts: Counts) -> NDArray[np.float64]:
    """Return 1 - (|A∩S| + |A∩P|) / (|A| + |S|): of one sentence, a corpus (summed first), or many samples at once."""
    return 1 - _share(counts[..., 0] + counts[..., 1], counts[..., 2] + counts[..., 3])


METRICS: dict[str, Callable[[Counts], NDArray[np.float64]]] = {
    "aer": aer,
    "precision": precision,
    "recall": recall,
    "f1": f1,
}


class Estimate(NamedTuple):
    """A corpus score and its confidence interval, as shares of 1; None if undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _of_sample(counts: Counts, metric: str) -> Callable[..., NDArray[np.float64]]:
    """Return a function for the score of drawn sentences, by their numbers, as scipy's resampling expects it."""

    def statistic(numbers: NDArray[np.int64], axis: int = -1) -> NDArray[np.float64]:
        return METRICS[metric](counts[numbers].sum(axis=axis - 1 if axis < 0 else axis))

    return statistic


def estimate(counts: Counts, metric: str = "aer", samples: int = SAMPLES, seed: int = SEED) -> Estimate:
    """Return a corpus score with its 95 % percentile bootstrap interval over sentences, from counts `[N, 4]`.

    Without `samples` there is no interval. With the same seed all metrics and systems draw the same
    sentences.
    """
    value = _known(METRICS[metric](counts.sum(0)))
    if not samples or len(counts) < 2 or value is None:
        return Estimate(value)
    low, high = _bootstrap(_of_sample(counts, metric), len(counts), samples, seed).confidence_interval
    return Estimate(value, _known(low), _known(high))


def _bootstrap(statistic: Callable[..., NDArray[np.float64]], sentences: int, samples: int, seed: int) -> Any:
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy's warnings of samples without a score name another method
        return bootstrap(
            (np.arange(sentences),),
            statistic,
            n_resamples=samples,
            confidence_level=CONFIDENCE,
            method="percentile",
            vectorized=True,
            batch=max(1, _BATCH // sentences),
            rng=np.random.default_rng(seed),
        )


def compare(
    system: Counts, first: Counts, test: Test, metric: str = "aer", samples: int = SAMPLES, seed: int = SEED
) -> tuple[float | None, float | None]:
    """Return a system's difference from the first one, as a share of 1, and p (two-sided); None if undefined.

    Args:
        system: counts of N sentences `[N, 4]`.
        first: counts of the same N sentences by the system to compare with.
        test: "bootstrap" draws sentences, and the smallest p is 1/(samples+1); "permutation" swaps the two systems'
            counts, and p is scipy's, twice that of the smaller tail, at least 2/(samples+1).
    """
    if system.shape != first.shape:
        raise ValueError(f"{len(system):,} and {len(first):,} sentences cannot be compared")
    of_system, of_first = _of_sample(system, metric), _of_sample(first, metric)
    numbers = np.arange(len(system))
    difference = _known(of_system(numbers) - of_first(numbers)) if len(system) else None
    if difference is None or not samples or len(system) < 2:
        return difference, None
    if test == "bootstrap":
        drawn = _bootstrap(lambda n, axis=-1: of_system(n, axis) - of_first(n, axis), len(system), samples, seed)
        deltas = drawn.bootstrap_distribution
        if not np.isfinite(deltas).all():
            return difference, None
        extreme = np.abs(deltas - deltas.mean()) >= abs(difference) - 1e-12
        return difference, float((extreme.sum() + 1) / (samples + 1))
    from scipy.stats import permutation_test

    both = np.concatenate((system, first))
    score = _of_sample(both, metric)
    result = permutation_test(
        (numbers, len(system) + numbers),  # rows of `both`
        lambda a, b, axis=-1: score(a, axis) - score(b, axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=samples,
        batch=max(1, _BATCH // len(both)),
        rng=np.random.default_rng(seed),
    )
    return difference, _known(result.pvalue) if np.isfinite(result.null_distribution).all() else None


def worst(counts: Counts, most: int) -> Sequence[int]:
    """Return the sentences with the most wrong and missed links, worst first: positions in `counts` `[N, 4]`."""
    wrong = counts[:, 2] - counts[:, 1] + counts[:, 3] - counts[:, 0]
    order = np.argsort(-wrong, kind="stable")[:most]
    return [int(n) for n in order if wrong[n] > 0]
