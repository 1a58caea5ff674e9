"""Means of several aligners' scores, compared with a naive computation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.symmetrize import mean_links, share_of_directions

SCORES = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.sampled_from([0.0, 0.25, 0.5, 1.0]))


@given(scores=st.lists(st.tuples(SCORES, st.sampled_from([1.0, 2.0, 0.5])), min_size=1, max_size=4))
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_a_mean_is_that_of_all_who_linked_anything(
    scores: list[tuple[dict[tuple[int, int], float], float]], threshold: float
) -> None:
    means = mean_links([links for links, _ in scores], threshold, [weight for _, weight in scores])
    voters = [(links, weight) for links, weight in scores if links]
    total = sum(weight for _, weight in voters)
    for i in range(4):
        for j in range(4):
            mean = sum(links.get((i, j), 0) * weight for links, weight in voters) / (total or 1)
            assert means.get((i, j), 0.0) == (pytest.approx(mean) if mean > threshold else 0.0)
    assert list(means) == sorted(means)
    equal = [links for links, _ in scores]
    assert mean_links(equal, threshold) == mean_links(equal, threshold, [3.0] * len(equal))


def test_links_of_one_direction_count_half() -> None:
    assert share_of_directions({(0, 0), (1, 2)}, {(1, 2), (0, 1)}) == {(0, 0): 0.5, (0, 1): 0.5, (1, 2): 1.0}
