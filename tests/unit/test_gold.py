"""Gold and hypotheses from Python: read beyond doubt, checked against the text, or refused with what to set."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align import LinksError, Pair, read_gold, read_hypotheses
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
    assert (gold.kind, gold.has_possible_links) == ("talp-0", True)


def test_out_of_range(file: Callable[..., Path]) -> None:
    path = file("0-0 7p8\n1-1\n")
    where = "links, line 1: link 7-8 (counted from 0), where the sentences have 3 and 3 words: is it of this text"
    with refused(where) as caught:
        read_gold(path, text=TEXT)
    assert 'right? out_of_range="ignore" passes over such links' in str(caught.value)
    with pytest.warns(TextWarning, match="links to words that their sentences do not have: 1; they are left out"):
        gold = read_gold(path, text=TEXT, out_of_range="ignore")
    assert gold.links == [{(0, 0)}, {(1, 1)}]
    assert gold.kind == "talp-0-without-1"
    with pytest.warns(TextWarning, match="1; they are counted as wrong"):
        kept = read_hypotheses(path, text=TEXT, out_of_range="ignore")
    assert kept.links[0] == {(0, 0), (7, 8)}
    assert kept.kind == "talp-0"


def test_the_number_of_pairs(file: Callable[..., Path]) -> None:
    with refused("has 1 sentence pair, the text 2: a line is missing, or one too many"):
        read_gold(file("0-0\n"), text=TEXT)
    short, long = read_gold(file("1 1 1\n", "{a}")), read_gold(file("0-0\n0-0\n", "b"))
    with refused("if the last sentences have no links in") as caught:
        match_lengths([short, long])
    assert str(caught.value).endswith("{a}, give text")
    assert caught.value.told(with_options).endswith("{a}, give the text with -s and -t")
    with pytest.warns(TextWarning, match="names no link in 1 of 2 sentences: they are taken to have none"):
        assert read_gold(short.file.name, text=TEXT).links == [{(0, 0)}, frozenset()]
    assert match_lengths([long, long]) == [long, long]


def test_links_and_gold_need_no_torch() -> None:
    names = (
        "aer count_all evaluate parse_marked parse_pharaoh read_gold read_hypotheses read_text symmetrize LinksError"
    )
    check = f"import sys, align\nfor name in {names.split()}: getattr(align, name)\n"
    check += "align.Alignment(align.Pair(('a',), ('b',), 1), {})._repr_html_()\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)
