"""What settings refuse, and how a search is written."""

from typing import Any

import pytest

from align.core.types import Search, Settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"score": "l1"}, "score must be one of norm, weight"),
        ({"layer": 0}, "layer must be a number from 1 or auto"),
        ({"head": -1}, "head must be a number from 1 or auto or all"),
        ({"threshold": 1.5}, "threshold must be a number from 0 to 1; got 1.5"),
    ],
)
def test_settings_refuse_what_they_do_not_know(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**wrong)


def test_a_search_says_what_is_not_the_default() -> None:
    assert str(Search()) == "beam5"
    assert str(Search(beam=3, length_penalty=0.6)) == "beam3-penalty0.6"
    assert str(Search(max_len_a=2, max_len_b=10)) == "beam5-length2x+10"
