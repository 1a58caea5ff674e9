"""The nouns' own checks, and the signature."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from align import __version__
from align.core.text import IdPair, LinePair
from align.core.types import NOWHERE, Alignment, Cell, Choice, Origin, Pair, Place, Search, Settings
from align.io.manifest import differences
from align.io.signature import describe, signature
from tests.conftest import plain


def test_alignment_prints_as_pharaoh_and_knows_its_null_words() -> None:
    alignment = Alignment(Pair(("a", "b"), ("c", "d", "e"), 1), {(1, 0): 0.5, (0, 2): 0.5})
    assert str(alignment) == "0-2 1-0"
    assert alignment.null == [1]
    assert alignment.links == {(0, 2), (1, 0)}
    assert hash(alignment) == hash(Alignment(alignment.pair, {(0, 2): 0.5, (1, 0): 0.5}))


def test_pickled_pairs_leave_what_they_carry_behind() -> None:
    for pair in (Pair(("a",), ("b", "c"), 7), LinePair.of("a", "b  c", 7), IdPair.of([1, 2], [3], [0, None], id=7)):
        copy = pickle.loads(pickle.dumps(replace(pair, origin=Origin("file", 7, item=object))))
        assert copy == pair
        assert type(copy) is type(pair)
        assert copy.origin is NOWHERE


def test_signature_says_what_was_asked_and_what_was_taken() -> None:
    def line(settings: Settings, cell: Cell | None, dtype: str = "float32") -> str:
        choice = Choice(Place(cell), "by lexical consistency") if cell else None
        return signature(describe("fairseq:de-en@1f3c9a2", settings, choice, dtype))

    assert line(plain(), Cell(1, 3)) == (
        f"align|fairseq:de-en@1f3c9a2|norm|layer:auto(1)|head:auto(3)|input|sum/mean|null:eos|v:{__version__}"
    )
    assert "|layer:2|head:auto(all)|" in line(plain(layer=2), Cell(2, "all"))
    assert "|layer:auto|head:4|" in line(Settings(head=4), None)
    assert "|dtype:bfloat16|" in line(Settings(), Cell(1, 3), "bfloat16")
    assert line(plain(layer=2, head="all", threshold=0.4), Cell(2, "all")) == (
        f"align|fairseq:de-en@1f3c9a2|norm|layer:2|head:all|input|sum/mean|null:eos|threshold:0.4|v:{__version__}"
    )
    assert "|threshold:0|" in line(Settings(threshold=0.0), None)
    both = Choice(Place(Cell(1, 3), Cell(2, "all")), "as asked")
    parts = "|both|output-layer:{}|output-head:{}|sum/mean|null:eos|threshold:0.5|"
    for settings, layer, head in ((Settings(), "auto(2)", "auto(all)"), (Settings(output_layer=2), "2", "auto(all)")):
        assert parts.format(layer, head) in signature(describe("fairseq:de-en@1f3c9a2", settings, both, "float32"))
    assert parts.format(2, "auto") in line(Settings(output_layer=2), None)


def test_another_null_of_the_reverse_model_is_signed() -> None:
    more = {"reverse": "r", "reverse-position": "both", "reverse-null": "eos", "symmetrize": "soft:0.5"}
    assert describe("m", Settings(null="mask"), None, "float32", more)["reverse-null"] == "eos"
    assert "reverse-null" not in describe("m", Settings(null="eos"), None, "float32", more)


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


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("align|m|layer:1|v:1", "align|m|layer:2|v:1", "x: layer:1 → layer:2"),
        ("align|m|v:1", "align|m|mt:en|v:1", "x: none → mt:en"),
        ("a|b", "b|a", "x: a|b → b|a"),
        ("a|b", None, "x: a|b → None"),
    ],
)
def test_of_two_signatures_only_what_differs_is_shown(was: object, now: object, message: str) -> None:
    assert differences({"x": was, "y": 1}, {"x": now, "y": 1}) == message
