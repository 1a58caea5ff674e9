"""An alignment as HTML for notebooks: a static picture and a table, without a script, and all text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from wcwidth import wcswidth

from align.core.errors import shorten
from align.core.escape import printable
from align.core.types import Alignment

MOST_WORDS = 100
"""Of a side that is drawn: nobody reads more, and each cell of the table takes room in the notebook's file."""

LONGEST = 24
"""Characters of a word that are shown."""

ROW, GAP, COLUMN, EDGE = 24, 110, 8.5, 6
"""Pixels: height of a word, room for the lines, width of a letter, and what is between a word and its lines."""

_TURNED = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;font-weight:normal;padding:6px 0"
_CELL = "border:1px solid #8886;width:1.4em;height:1.4em;padding:0;text-align:center"


def as_html(alignment: Alignment) -> str:
    """The links between the words of both sides, a word below the other, and beside them the matrix.

    Where a side has no words or very many, the Pharaoh line alone.
    """
    source, target = (list(map(_shown, side)) for side in (alignment.pair.source, alignment.pair.target))
    if not source or not target or max(len(source), len(target)) > MOST_WORDS:
        return f"<code>{escape(str(alignment))}</code>"
    parts = _drawing(alignment, source, target), _matrix(alignment, source, target)
    return f'<div style="display:flex;flex-wrap:wrap;gap:32px;align-items:flex-start">{"".join(parts)}</div>'


def _shown(word: str) -> str:
    return shorten(printable(word), LONGEST)


def _drawing(alignment: Alignment, source: Sequence[str], target: Sequence[str]) -> str:
    """Both sides as columns of words, source on the left, with a line for each link: the fainter, the less sure."""
    left, right = (COLUMN * max(map(wcswidth, side)) for side in (source, target))
    width, height = left + GAP + right, ROW * max(len(source), len(target))
    lines, words = [], []
    for i, j in alignment:
        score = alignment.scores[i, j]
        opacity = 0.3 + 0.7 * min(max(score, 0.0), 1.0)
        y1, y2 = (ROW * (n + 0.5) for n in (i, j))
        ends = f'x1="{left + EDGE:g}" y1="{y1:g}" x2="{left + GAP - EDGE:g}" y2="{y2:g}"'
        lines.append(f'<line {ends} stroke-opacity="{opacity:.2f}"><title>{score:.2f}</title></line>')
    for side, x, anchor in ((source, left, "end"), (target, left + GAP, "start")):
        for n, word in enumerate(side):
            place = f'x="{x:g}" y="{ROW * (n + 0.5):g}" text-anchor="{anchor}"'
            words.append(f'<text {place} dominant-baseline="central">{escape(word)}</text>')
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    style = 'font-family="sans-serif" font-size="14" fill="currentColor" stroke-width="2"'
    drawn = f'<g stroke="currentColor">{"".join(lines)}</g>{"".join(words)}'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>{drawn}</svg>'


def _matrix(alignment: Alignment, source: Sequence[str], target: Sequence[str]) -> str:
    """A table of source words by target words, ■ where two are linked."""
    head = "".join(f'<th style="{_TURNED}">{escape(word)}</th>' for word in target)
    rows = []
    for i, word in enumerate(source):
        cells = []
        for j in range(len(target)):
            score = alignment.scores.get((i, j))
            title = "" if score is None else f' title="{score:.2f}"'
            cells.append(f'<td style="{_CELL}"{title}>{"" if score is None else "■"}</td>')
        rows.append(f'<tr><th style="text-align:right;font-weight:normal">{escape(word)}</th>{"".join(cells)}</tr>')
    table = f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table style="border-collapse:collapse">{table}</table>'
