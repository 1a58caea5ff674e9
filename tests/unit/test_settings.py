"""What settings refuse, and how a search is written."""

from typing import Any

import pytest

from align.core.types import Search, Settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"score": "l1"}, "score is one of norm, weight"),
        ({"position": "in"}, "position is one of input, output"),
        ({"null": "yes"}, "null is one of eos, mask, none"),
        ({"layer": 0}, "layer is a number from 1 or auto"),
        ({"layer": "all"}, "layer is a number from 1 or auto"),
        ({"head": -1}, "head is a number from 1 or auto or all"),
        ({"threshold": -0.1}, "threshold is a number from 0 to 1; not -0.1"),
        ({"threshold": 1.5}, "threshold is a number from 0 to 1; not 1.5"),
        ({"threshold": float("nan")}, "threshold is a number from 0 to 1; not nan"),
    ],
)
def test_settings_refuse_what_they_do_not_know(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "beam and max_len_b are numbers from 1; not 0 and 50"),
        ({"max_len_b": 0}, "beam and max_len_b are numbers from 1; not 5 and 0"),
        ({"length_penalty": -0.1}, "length_penalty is a number from 0 to 10; not -0.1"),
        ({"max_len_a": 10.5}, "max_len_a is a number from 0 to 10; not 10.5"),
        ({"max_len_a": float("nan")}, "max_len_a is a number from 0 to 10; not nan"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Search(**wrong)


def test_a_search_says_what_is_not_the_default() -> None:
    assert str(Search()) == "beam5"
    assert str(Search(beam=3, length_penalty=0.6)) == "beam3-penalty0.6"
    assert str(Search(max_len_a=2, max_len_b=10)) == "beam5-length2x+10"
