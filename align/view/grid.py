"""Draw alignment grids in a terminal: source words down, target words across, `</s>` (NULL) last.

A grid that exceeds the width ends in `…`. The default width is the terminal's, if stdout is one; 0 means no limit.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from unicodedata import bidirectional

from wcwidth import iter_graphemes, wcswidth

from align.core.errors import printable
from align.core.types import Alignment, Gold, Links, Pair

SHADES = " ░▒▓█"
MAX_LETTERS = 14
MAX_CELLS = 1_000_000  # maximum number of cells: larger grids are unreadable, and a file may hold any number


def grid(alignment: Alignment, width: int | None = None) -> str:
    """Return the links of one pair as a grid: ■ where a source word (row) and a target word (column) are linked.

    Args:
        alignment: the pair and its links.
        width: maximum width in columns of the terminal; 0 for no limit, None for the terminal's width.
    """
    source, target = alignment.pair.source, alignment.pair.target
    cells = [["■" if (i, j) in alignment.scores else "·" for j in range(len(target))] for i in range(len(source))]
    return _frame(source, target, cells, width)


def heat_grid(alignment: Alignment, scores: Sequence[Sequence[float]], width: int | None = None) -> str:
    """Return one pair's scores as a grid, each column (target word) shaded by share; ◆ is a link, ◇ at `</s>` is none.

    Args:
        alignment: the pair and its links.
        scores: `[J][I+1]`, as returned by `Aligner.word_scores`.
        width: as for `grid`.
    """
    rows = [*alignment.pair.source, "</s>"]
    null = set(alignment.null)
    cells = []
    for i in range(len(rows)):
        row = []
        for j, column in enumerate(scores):
            share = max(column[i], 0) / (sum(value for value in column if value > 0) or 1)
            shade = SHADES[min(len(SHADES) - 1, round(share * (len(SHADES) - 1)))]
            unlinked = "◇" if j in null and i == len(rows) - 1 else shade
            row.append("◆" if (i, j) in alignment.scores else unlinked)
        cells.append(row)
    return _frame(rows, alignment.pair.target, cells, width)


ERROR_SIGNS = {
    "■": "sure, found",
    "▣": "possible, found",
    "□": "sure, missing",
    "▫": "possible, left out",
    "✗": "wrong",
}


def error_grid(links: Links, gold: Gold, pair: Pair | None = None, width: int | None = None) -> str:
    """Compare a hypothesis with gold in a grid, with the signs of `ERROR_SIGNS`.

    Without the pair, words appear as their numbers from 0, and only those that have a link. A grid of more than
    `MAX_CELLS` cells is replaced by a message. `width` is as for `grid`.
    """
    rows: Sequence[int] = sorted({i for i, _ in links | gold.possible})
    columns: Sequence[int] = sorted({j for _, j in links | gold.possible})
    if pair is not None:
        rows, columns = range(len(pair.source)), range(len(pair.target))
    if len(rows) * len(columns) > MAX_CELLS:
        return f"too large to draw: {len(rows):,} by {len(columns):,} words; a table (TSV, JSON) lists the errors"
    source = [pair.source[i] if pair else str(i) for i in rows]
    target = [pair.target[j] if pair else str(j) for j in columns]

    def sign(link: tuple[int, int]) -> str:
        if link in gold.sure:
            return "■" if link in links else "□"
        if link in gold.possible:
            return "▣" if link in links else "▫"
        return "✗" if link in links else "·"

    return _frame(source, target, [[sign((i, j)) for j in columns] for i in rows], width)


def _frame(rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]], width: int | None) -> str:
    """Return the cells with their words: those of rows on the left, those of columns on top, one letter per line."""
    left = [_letters(word) for word in rows]
    margin = max((sum(map(wcswidth, letters)) for letters in left), default=0)
    if width is None:
        on_terminal = sys.stdout is not None and sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if on_terminal else 0
    if width and margin + 2 * len(columns) > width:
        count = max(1, (width - margin) // 2 - 1)
        columns, cells = [*columns[:count], "…"], [[*row[:count], "…"] for row in cells]
    top = [_letters(word) for word in columns]
    height = max(map(len, top), default=0)
    lines = []
    for k in range(height):
        letters = [column[k - height + len(column)] if k >= height - len(column) else " " for column in top]
        # a mark (LRM) after right-to-left letters keeps each in its column
        marked = (letter + "\u200e" * (bidirectional(letter[0]) in ("R", "AL")) for letter in letters)
        lines.append(" " * margin + "".join(" " * (2 - wcswidth(letter)) + letter for letter in marked))
    for word, row in zip(left, cells, strict=True):
        lines.append(" " * (margin - sum(map(wcswidth, word))) + "".join(word) + " " + " ".join(row))
    return "\n".join(line.rstrip() for line in lines)


def _letters(word: str) -> list[str]:
    """Split a word into letters for cells of the terminal, with combining marks; shorten a long one."""
    letters = list(iter_graphemes(printable(word)))
    return letters if len(letters) <= MAX_LETTERS else [*letters[: MAX_LETTERS - 1], "…"]
