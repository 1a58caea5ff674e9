"""Tables whose columns are described in one text."""

from __future__ import annotations

import pytest

from align.evaluation.tables import Column
from align.view.findings import make_table


def test_columns_have_keys_heads_decimal_places_and_width() -> None:
    table = make_table("part | a + b: both, % .1 | loss .3 | p: p(BLEU) .3 + | read at +", [("x", 1, 2, 3, 4)], "note")
    assert table.columns == [
        Column("part", "part"),
        Column("a + b", "both, %", 1),
        Column("loss", "loss", 3),
        Column("p", "p(BLEU)", 3, wide=True),
        Column("read at", "read at", wide=True),
    ]
    assert table.rows == [{"part": "x", "a + b": 1, "loss": 2, "p": 3, "read at": 4}]
    assert (table.notes, table.wide) == (("note",), False)


def test_a_row_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        make_table("a | b", [(1,)])
