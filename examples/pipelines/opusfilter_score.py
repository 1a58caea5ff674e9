"""A filter for OpusFilter; in its configuration: `AgreementFilter: {threshold: 0.1}` and `module: opusfilter_score`."""

import sys
from itertools import compress, tee

from opusfilter import CLEAN_HIGH, FilterABC

from align import load, two_way
from align.compat import eflomal

sys.modules["eflomal"] = eflomal  # what OpusFilter's own WordAlignFilter imports


class AgreementFilter(FilterABC):
    """Scores of `extract-align score`, of which the lower one counts."""

    score_direction = CLEAN_HIGH
    accept_threshold, reject_threshold = 0, 1 + 10**-6

    def __init__(self, forward="de-en", reverse="en-de", threshold=0.1, **kwargs):
        super().__init__(**kwargs)
        self.threshold = threshold
        models = [load(name, too_long="blank") for name in (forward, reverse) if name]  # an encoder needs no reverse
        self.aligner = (two_way(*models) if reverse else models[0]).fixed()

    def score(self, pairs):
        """Yield a score from 0 to 1 for each pair."""
        for alignment in self.aligner(pairs):
            yield min(alignment.agreement or (0, 0))

    def filter(self, pairs):
        """Yield the pairs that are kept, aligned many at a time; the method of FilterABC takes single ones."""
        pairs, scored = tee(pairs)
        return compress(pairs, self.decisions(scored))

    def accept(self, score):
        """Tell whether a pair is kept."""
        return score >= self.threshold
