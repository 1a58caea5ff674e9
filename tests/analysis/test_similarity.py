"""Divergences of heads against scipy, the nearest heads, and maps of heads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from align.analysis.similarity import divergences, embed, measure, similarity
from align.core.errors import DataError
from align.core.types import Pair
from tests.analysis.made import MadeModel, random_maps, tokens

TEXTS = [tokens("das Haus ist ##t alt , </s>"), tokens("wir sehen . </s>")]
PAIRS = [Pair(("a",), (), n) for n in (1, 2)]


def test_divergences_are_those_of_scipy() -> None:
    values = np.random.default_rng(1).random((4, 5, 6)).astype(np.float32)
    values[1, 2, :3] = 0
    found = divergences(values)
    for one, other in np.ndindex(4, 4):
        expected = sum(jensenshannon(values[one, t], values[other, t], 2) ** 2 for t in range(5))
        assert found[one, other] == pytest.approx(expected, abs=1e-5)


def test_means_are_over_all_rows_of_a_text() -> None:
    maps = [random_maps(one, one, seed=n) for n, one in enumerate(TEXTS)]
    model = MadeModel([{"encoder": one} for one in maps])
    means, rows = measure(model, PAIRS, ["encoder"])
    expected = sum(divergences(one.weights.reshape(6, *one.weights.shape[2:])) for one in maps) / 11
    np.testing.assert_allclose(means["encoder"]["weight"], expected)
    assert rows == {"encoder": 11}
    table = similarity(model, PAIRS, ["encoder"]).tables["heads"].rows
    row = next(row for row in table if (row["measure"], row["head"]) == ("a", "2-2"))
    others = np.delete(means["encoder"]["weight"][4], 4)
    assert (row["distance"], row["mean"]) == pytest.approx((others.min(), others.mean()))


def test_heads_that_lie_in_a_plane_come_to_lie_as_far_apart() -> None:
    places = np.random.default_rng(2).random((7, 2))
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    found = embed(distances, seed=1)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=2), distances, atol=0.02)
    np.testing.assert_array_equal(found, embed(distances, seed=1))
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-9)


def test_too_few_heads_or_lines() -> None:
    alone = MadeModel([{"encoder": random_maps(TEXTS[0], TEXTS[0], (1, 1))}], (1, 1))
    with pytest.raises(DataError, match="the encoder of made:de-en@0000000 has one head"):
        similarity(alone, PAIRS, ["encoder"])
    model = MadeModel([{"encoder": random_maps(one, one, (2, 1))} for one in TEXTS], (2, 1))
    assert similarity(model, PAIRS, ["encoder"]).tables["layers"].rows[0]["within"] is None
    model._maps = [{}, {}]
    with pytest.raises(DataError, match="no line that the model can read"):
        similarity(model, PAIRS, ["encoder"])
