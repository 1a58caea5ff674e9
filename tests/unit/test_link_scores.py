"""Scores beside links, in the formats that have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.core.errors import LinksError
from align.core.types import Alignment, Pair
from align.evaluation.gold import LinkOptions, read_as
from align.evaluation.link_formats import parse_scored

ALIGNMENT = Alignment(Pair(("a", "b"), ("x", "y"), 1), {(0, 1): 0.8312, (1, 0): 1.0})


def scores_of(path: Path, text: str, options: LinkOptions | None = None) -> list[dict[tuple[int, int], float | None]]:
    path.write_text(text, encoding="utf-8")
    return [dict(scores) for scores in read_as("hyp", str(path), options or LinkOptions(), scored=True).scores]


def test_what_extract_align_writes(tmp_path: Path) -> None:
    from align.core.formats import format_jsonl, format_pharaoh

    assert scores_of(tmp_path / "a", format_jsonl(ALIGNMENT)) == [{(0, 1): 0.8312, (1, 0): 1.0}]
    assert scores_of(tmp_path / "a", format_pharaoh(ALIGNMENT, scores=True)) == [{(0, 1): 0.83, (1, 0): 1.0}]
    assert scores_of(tmp_path / "a", "0-0 1-1:0.5\n\n") == [{(1, 1): 0.5}, {}]


def test_scores_go_with_their_links(tmp_path: Path) -> None:
    options = LinkOptions(base=1, swapped=True)
    assert scores_of(tmp_path / "a", "1-2:0.25 3p1:1e-3\n", options) == [{(1, 0): 0.25, (0, 2): 0.001}]


@pytest.mark.parametrize("scores", ['"x"', "null", "[0.5]", "[NaN, 1]", "[1, -1]", "[[1], {}]", "[1, 1e999]"])
def test_what_is_no_score_is_refused(tmp_path: Path, scores: str) -> None:
    line = f'{{"links": [[0, 0], [1, 1]], "scores": {scores}}}'
    with pytest.raises(LinksError, match=r"a, line 2: .*score"):
        scores_of(tmp_path / "a", f'{{"links": []}}\n{line}\n')
    with pytest.raises(ValueError, match="score"):
        parse_scored(line)
    assert len(read_as("hyp", str(tmp_path / "a"), LinkOptions()).pairs) == 2  # where none are asked for
