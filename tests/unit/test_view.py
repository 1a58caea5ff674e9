"""Grids and tables, drawn and compared as they are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from align import grid, heat_grid
from align.core.types import Alignment, Pair
from align.evaluation.link_formats import make_gold
from align.evaluation.tables import FORMATS, Column, Rows, Table
from align.view.grid import ERROR_SIGNS, error_grid

PAIR = Pair(("ich", "sehe", "dich"), ("i", "see"), 1)


def test_grid() -> None:
    assert grid(Alignment(PAIR, {(0, 0): 1.0, (1, 1): 1.0})) == "\n".join(
        ["       s", "       e", "     i e", " ich ■ ·", "sehe · ■", "dich · ·"]
    )


def test_heat_grid_shades_by_share_of_the_column() -> None:
    scores = [[3.0, 1.0, 0.0, 0.0], [-1.0, 2.0, 1.0, 1.0]]
    assert heat_grid(Alignment(PAIR, {(0, 0): 0.75}), scores) == "\n".join(
        ["       s", "       e", "     i e", " ich ◆", "sehe ░ ▒", "dich   ░", "</s>   ◇"]
    )


def test_words_cannot_act_on_the_terminal_and_long_ones_are_cut() -> None:
    drawn = grid(Alignment(Pair(("\x1b[31mrot\u202e",), ("a" * 40,), 1), {}))
    assert "\x1b" not in drawn
    assert "\u202e" not in drawn
    assert "\\x1b[31mrot\\u…" in drawn
    assert len(drawn.split("\n")) == 15


def test_wide_and_combining_characters_keep_the_columns() -> None:
    pair = Pair(("漢字", "o\u0308l"), ("漢", "e\u0301", "x"), 1)
    assert grid(Alignment(pair, {(0, 0): 1.0})) == "\n".join(["    漢 e\u0301 x", "漢字 ■ · ·", "  o\u0308l · · ·"])


@pytest.mark.parametrize("word", ["हिन्दी", "เบอร์ลิน", "北京", "パ\u309a", "مَرْحَبًا", "שָׁלוֹם", "🇩🇪", "क्षत्रिय"])
def test_columns_are_in_step_in_every_script(word: str) -> None:
    """Columns of a terminal: of each row before its first cell, and of each letter on top."""
    pair = Pair((word, "x"), (word, "y"), 1)
    *top, row, last = grid(Alignment(pair, {(0, 0): 1.0, (1, 1): 1.0})).split("\n")
    margin = wcswidth(row.partition(" ■")[0])
    assert margin == wcswidth(word) == wcswidth(last.partition("x")[0] + "x")
    assert [wcswidth(line.rpartition(" y")[0] if " y" in line else line) for line in top] == [margin + 2] * len(top)
    assert "".join(line.strip(" y\u200e") for line in top) == word


def test_letters_of_right_to_left_words_keep_their_columns() -> None:
    """A terminal that reorders text would show the first column last; marks are between the letters, and only there."""
    drawn = grid(Alignment(Pair(("a", "דג"), ("דג", "של", "b"), 1), {}))
    assert drawn.split("\n") == ["   ד\u200e ש\u200e", "   ג\u200e ל\u200e b", " a · · ·", "דג · · ·"]


def test_error_grid_has_a_sign_for_each_kind_of_link() -> None:
    gold = make_gold([(0, 0), (1, 1)], [(2, 0), (2, 1)])
    drawn = error_grid(frozenset({(0, 0), (2, 0), (0, 1)}), gold, PAIR)
    assert drawn == "\n".join(["       s", "       e", "     i e", " ich ■ ✗", "sehe · □", "dich ▣ ▫"])
    assert set(ERROR_SIGNS) <= set(drawn)


def test_a_grid_that_is_too_wide_ends_in_dots() -> None:
    pair = Pair(("ich", "sehe"), ("i", "can", "see", "漢"), 1)
    alignment = Alignment(pair, {(0, 0): 1.0, (1, 3): 1.0})
    whole = grid(alignment)
    assert grid(alignment, width=12) == grid(alignment, width=0) == whole
    clipped = ["       c", "       a", "     i n …", " ich ■ · …", "sehe · · …"]
    assert grid(alignment, width=11) == grid(alignment, width=10) == "\n".join(clipped)
    assert error_grid(frozenset({(0, 0), (1, 3)}), make_gold([(0, 0), (1, 3)]), pair, width=11) == "\n".join(clipped)
    heat = heat_grid(alignment, [[1.0, 0.0, 0.0]] * 4, width=11).split("\n")
    assert heat[2:] == ["     i n …", " ich ◆ █ …", "sehe     …", "</s>   ◇ …"]
    assert grid(alignment, width=1).split("\n") == ["     i …", " ich ■ …", "sehe · …"]  # the least there is


COLUMNS = [Column("system", "the system"), Column("aer", "AER", 1), Column("links", "links"), Column("p", "p", 4)]
ROWS: Rows = [
    {"system": "a_b", "aer": 12.34, "links": 1234, "p": None},
    {"system": "c", "aer": None, "links": 5, "p": 0.00099},
]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "text",
            [
                "the system   AER  links       p",
                "----------  ----  -----  ------",
                "a_b         12.3  1,234     n/a",
                "c            n/a      5  0.0010",
                "a note",
                "AER|n:2",
            ],
        ),
        ("tsv", ["# AER|n:2", "# a note", "system\taer\tlinks\tp", "a_b\t12.3\t1234\tn/a", "c\tn/a\t5\t0.0010"]),
        (
            "latex",
            [
                "% AER|n:2",
                "% a note",
                r"% needs \usepackage{booktabs}",
                r"\begin{tabular}{lrrr}",
                r"\toprule",
                r"the system & AER & links & p \\",
                r"\midrule",
                r"a\_b & 12.3 & 1,234 & n/a \\",
                r"c & n/a & 5 & 0.0010 \\",
                r"\bottomrule",
                r"\end{tabular}",
            ],
        ),
    ],
)
def test_tables(name: str, lines: list[str]) -> None:
    assert Table(COLUMNS, ROWS, ["a note"]).write(name, "AER|n:2") == "\n".join(lines)


@pytest.mark.parametrize("name", FORMATS)
def test_a_name_cannot_act_on_the_terminal_or_break_a_table(name: str) -> None:
    columns = [Column("system", "system"), Column("n", "n")]
    rows: Rows = [{"system": "\x1b[31mred\n\tx\u202e", "n": 1}]
    written = Table(columns, rows).write(name, "")
    assert "\x1b" not in written
    assert "\u202e" not in written
    assert len(written.split("\n")) == len(Table(columns, [{"system": "red", "n": 1}]).write(name, "").split("\n"))
    assert sum(line.count("\t") for line in written.split("\n")) == (2 if name == "tsv" else 0)


LATEX_ROW = re.compile(r"(?:[^\\{}$&%#_^~<>|\x00-\x1f]|\\[a-z]+\{\}|\\[&%$#_{}]|\$-\$|\{[\[*-]?\})*")
"""What may stand in a cell: nothing that is special to TeX, but for our own commands and groups."""


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_latex_compiles_whatever_the_names(names: list[str]) -> None:
    columns = [Column("system", "100 %"), Column("n", "n", 2)]
    lines = Table(columns, [{"system": name, "n": -1.0} for name in names]).write("latex", "sign").split("\n")
    assert lines[2:5] == [r"\begin{tabular}{lr}", r"\toprule", lines[4]]
    assert lines[5] == r"\midrule"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert len(lines) == 8 + len(names)
    for line in (lines[4], *lines[6:-2]):
        cells = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
        assert line.endswith(r"\\")
        assert len(cells) == 2
        assert all(LATEX_ROW.fullmatch(cell) for cell in cells)
        assert not cells[0].strip().startswith(("[", "*"))  # the \\ before would take it for its own
