"""Changes of loss, BLEU and AER when heads are masked, with confidence intervals or p-values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.evaluation.metrics import Counts, compare

Doubles = NDArray[np.float64]


class Change(NamedTuple):
    """A difference from the whole model, with its confidence interval or its p-value."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None


def loss_change(masked: Doubles, whole: Doubles, pieces: NDArray[np.int64], samples: int, seed: int) -> Change:
    """Return the difference of losses in nats per piece, with its 95 % percentile bootstrap interval over sentences.

    Args:
        masked: loss of each sentence without the masked heads `[N]`.
        whole: loss of the same sentences with all heads `[N]`.
        pieces: number of pieces of each sentence `[N]`.
        samples: number of bootstrap samples; 0 for no interval.
        seed: seed of the bootstrap.
    """
    changes = masked - whole
    value = float(changes.sum() / pieces.sum())
    if not samples or len(pieces) < 2:
        return Change(value)
    drawn = np.random.default_rng(seed).integers(len(pieces), size=(samples, len(pieces)))
    low, high = np.quantile(changes[drawn].sum(1) / pieces[drawn].sum(1), (0.025, 0.975))
    return Change(value, float(low), float(high))


def aer_change(masked: Counts | None, whole: Counts | None, samples: int, seed: int) -> Change:
    """Return the difference of AER in points, with the p-value of a paired bootstrap; no value without gold."""
    if masked is None or whole is None:
        return Change(None)
    value, p = compare(masked, whole, "bootstrap", "aer", samples, seed)
    return Change(None if value is None else 100 * value, p=p)


def bleu_scores(
    whole: Sequence[str], variants: Sequence[Sequence[str]], references: Sequence[str], samples: int
) -> tuple[float, list[Change], str]:
    """Return a model's BLEU, the difference of each other model from it, and sacrebleu's signature; case is ignored.

    Args:
        whole: the model's translations.
        variants: translations by each other model.
        references: one for each sentence.
        samples: samples of sacrebleu's paired bootstrap (Koehn 2004); 0 for no p-values.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    metric = BLEU(lowercase=True, force=True, references=[list(references)])
    score = float(metric.corpus_score(whole, None).score)
    if not samples:
        changes = [Change(float(metric.corpus_score(translations, None).score) - score) for translations in variants]
        return score, changes, str(metric.get_signature())
    systems: list[Any] = [("whole", whole), *((f"without {n}", texts) for n, texts in enumerate(variants))]
    test = PairedTest(systems, {"BLEU": metric}, references=None, test_type="bs", n_samples=samples)
    signatures, scores = test()
    results: list[Any] = scores["BLEU"][1:]  # the first is the whole model's
    changes = [Change(float(result.score) - score, p=result.p_value) for result in results]
    return score, changes, str(signatures["BLEU"])


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    """Return Spearman's rank correlation and its p-value; None if a side is constant or has under three values."""
    from scipy.stats import spearmanr

    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None, None
    result = spearmanr(a, b)
    return float(result.statistic), float(result.pvalue)
