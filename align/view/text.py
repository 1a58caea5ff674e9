"""Alignment grids in a terminal: source words down, target words across, `</s>` (NULL) last."""

from __future__ import annotations

from collections.abc import Sequence

from align.types import Alignment

SHADES = " ░▒▓█"
LONGEST = 14


def printable(word: str) -> str:
    """A word that cannot move the cursor or change colours: what is not printable is shown as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)


def grid(alignment: Alignment) -> str:
    """The links of one pair: ■ where a source word (row) and a target word (column) are linked."""
    source, target = alignment.pair.source, alignment.pair.target
    cells = [["■" if (i, j) in alignment.scores else "·" for j in range(len(target))] for i in range(len(source))]
    return _frame(source, target, cells)


def heat_grid(alignment: Alignment, scores: Sequence[Sequence[float]]) -> str:
    """The scores behind the links, each column (target word) shaded by share; the link's cell has a ◆.

    Args:
        alignment: the pair and its links.
        scores: `[J][I+1]`, as `Aligner.word_scores` gives them.
    """
    rows = [*alignment.pair.source, "</s>"]
    cells = []
    for i in range(len(rows)):
        row = []
        for j, column in enumerate(scores):
            share = max(column[i], 0) / (sum(value for value in column if value > 0) or 1)
            shade = SHADES[min(len(SHADES) - 1, round(share * (len(SHADES) - 1)))]
            row.append("◆" if (i, j) in alignment.scores else shade)
        cells.append(row)
    return _frame(rows, alignment.pair.target, cells)


def _frame(rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Cells with their words: rows on the left, columns on top, letter under letter."""
    left = [_cut(printable(word)) for word in rows]
    top = [_cut(printable(word)) for word in columns]
    width = max(map(len, left), default=0)
    height = max(map(len, top), default=0)
    lines = [" " * width + " " + " ".join(word.rjust(height)[k] for word in top) for k in range(height)]
    lines += [f"{word:>{width}} " + " ".join(row) for word, row in zip(left, cells, strict=True)]
    return "\n".join(line.rstrip() for line in lines)


def _cut(word: str) -> str:
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + "…"
