"""Gold and hypotheses from Python: read beyond doubt, checked against the text, or refused with what to set."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align import LinksError, Pair, read_gold
from align.cli.common import with_options
from align.core.types import TextWarning
from align.evaluation.gold import match_lengths
from align.evaluation.link_formats import make_gold

TEXT = [Pair(("a", "b", "c"), ("x", "y", "z"), 1), Pair(("d", "e"), ("u", "v"), 2)]


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "links") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def refused(message: str) -> Any:
    """Expects an error with this in it."""
    return pytest.raises(LinksError, match=re.escape(message))


def test_gold_with_possible_links(file: Callable[..., Path]) -> None:
    gold = read_gold(file("0-0 1p1\n1-0\n"))
    assert gold.pairs == [make_gold([(0, 0)], [(1, 1)]), make_gold([(1, 0)])]
    assert gold.links == [{(0, 0), (1, 1)}, {(1, 0)}]
    assert gold.kind == "talp-0"


def test_the_number_of_pairs(file: Callable[..., Path]) -> None:
    with refused("has 1 sentence pair, the text 2: check for a missing or an extra line"):
        read_gold(file("0-0\n"), text=TEXT)
    short, long = read_gold(file("1 1 1\n", "{a}")), read_gold(file("0-0\n0-0\n", "b"))
    with refused("if the last sentences have no links in") as caught:
        match_lengths([short, long])
    assert str(caught.value).endswith("{a}, give text")
    assert caught.value.told(with_options).endswith("{a}, give the text with -s and -t")
    with pytest.warns(TextWarning, match="names no link in 1 of 2 sentences: they are taken to have none"):
        assert read_gold(short.name, text=TEXT).links == [{(0, 0)}, frozenset()]
    assert match_lengths([long, long]) == [long, long]
