"""Two files of links: how they may have been meant, by what both directions have in common."""

from __future__ import annotations

import pytest

from align.core.types import Links
from align.evaluation.dialects import better_readings, read_two


def links(*pairs: tuple[int, int]) -> Links:
    return frozenset(pairs)


def test_both_directions_are_source_first_and_possible_links_count() -> None:
    lines = ["0-0 1p2", "", '{"links": [[0, 1]]}'], ["0-0 2-1", "1-0", "1-0"]
    pairs = list(read_two(*lines, ("a", "b"), swapped=True))
    assert pairs == [(links((0, 0), (1, 2)),) * 2, (links(), links((0, 1))), (links((0, 1)),) * 2]


def test_a_line_that_is_none_names_its_own_file() -> None:
    for lines, name in ((["0-0", "x"], ["0-0", "0-0"]), "a"), ((["0-0", "0-0"], ["0-0", "x"]), "b"):
        with pytest.raises(ValueError, match=f"^{name}, line 2: 'x' is not a link"):
            list(read_two(*lines, ("a", "b")))


@pytest.mark.parametrize(
    ("reverse", "readings"),
    [
        (links((3, 0), (5, 1)), [("swapped", 0, 40)]),
        (links((1, 4), (2, 6)), [("one lower", 0, 40)]),
        (links((0, 2)), []),
        (links((0, 3), (1, 5)), []),
    ],
)
def test_readings_that_agree_on_more(reverse: Links, readings: list[tuple[str, int, int]]) -> None:
    pair = links((0, 3), (1, 5)), reverse
    assert better_readings([pair] * 20) == readings
    assert better_readings([pair] * 5) == []  # ten links more may be chance
