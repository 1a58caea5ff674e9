"""Grids, drawn and compared as they are."""

from align import grid, heat_grid
from align.types import Alignment, Pair

PAIR = Pair(("ich", "sehe", "dich"), ("i", "see"), 1)


def test_grid() -> None:
    assert grid(Alignment(PAIR, {(0, 0): 1.0, (1, 1): 1.0})) == "\n".join(
        [
            "       s",
            "       e",
            "     i e",
            " ich ■ ·",
            "sehe · ■",
            "dich · ·",
        ]
    )


def test_heat_grid_shades_by_share_of_the_column() -> None:
    scores = [[3.0, 1.0, 0.0, 0.0], [-1.0, 2.0, 1.0, 1.0]]
    assert heat_grid(Alignment(PAIR, {(0, 0): 0.75}), scores) == "\n".join(
        [
            "       s",
            "       e",
            "     i e",
            " ich ◆",
            "sehe ░ ▒",
            "dich   ░",
            "</s>   ◇",
        ]
    )


def test_words_cannot_act_on_the_terminal_and_long_ones_are_cut() -> None:
    drawn = grid(Alignment(Pair(("\x1b[31mrot\u202e",), ("a" * 40,), 1), {}))
    assert "\x1b" not in drawn
    assert "\u202e" not in drawn
    assert "\\x1b[31mrot\\u…" in drawn
    assert len(drawn.split("\n")) == 15


def test_wide_and_combining_characters_keep_the_columns() -> None:
    pair = Pair(("漢字", "o\u0308l"), ("漢", "e\u0301", "x"), 1)
    assert grid(Alignment(pair, {(0, 0): 1.0})) == "\n".join(
        [
            "    漢 e\u0301 x",
            "漢字 ■ · ·",
            "  o\u0308l · · ·",
        ]
    )
