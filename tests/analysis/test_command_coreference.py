"""`extract-align analyse coreference`: exact tables of a few paragraphs, wrong usage, files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import align
from align.analysis.commands.program import main
from tests.cli.conftest import Result, failed, printed
from tests.conftest import ROOT

PRONOUNS = str(ROOT / "examples" / "analysis" / "pronouns.en.tsv")


def test_pronouns_of_the_bundled_model(run_main: Callable[..., Result]) -> None:
    printed(
        run_main(main, "coreference", "-q", "-m", "en-de", PRONOUNS),
        "taken is             best             right, %    interval   gain  its interval",
        "-------------------  ---------------  --------  ----------  -----  ------------",
        "the first                                 57.1  14.3–100.0   14.3   -71.4–100.0",
        "the nearest                               42.9    0.0–85.7    n/a           n/a",
        "most often named                          71.4  28.6–100.0   28.6   -42.9–100.0",
        "in the page's title                       71.4  42.9–100.0   28.6   -42.9–100.0",
        "most attended, a     3-4 p>c 2-1 p>c      28.6    0.0–57.1  -14.3    -57.1–28.6",
        "most attended, ‖af‖  3-4 p>c 2-1 p>c      28.6    0.0–57.1  -14.3    -57.1–28.6",
        "best: layer-head, and who attends (p: the pronoun, c: a candidate); two where halves chose differently",
        "each half is scored by what is best on the other; gain: over the nearest",
        "intervals: 95 %, bootstrap over paragraphs",
        "7 paragraphs, of which 0 cut; left out: 1 where neither candidate is meant, 0 too long",
        f"analysis|coreference|fairseq:en-de@b8330f6|gap:pronouns.en.tsv|n:8|seed:1|v:{align.__version__}",
    )


def test_all_heads_and_figures(run_main: Callable[..., Result], tmp_path: Path) -> None:
    result = run_main(main, "coreference", "-q", "-m", "en-de", PRONOUNS, "-f", "json", "--plots", tmp_path / "c")
    found = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert len(found["heads"]) == 12
    assert {row["pronouns"] for row in found["pronouns"]} == {7}
    assert sorted(path.name for path in tmp_path.glob("c.*")) == ["c.heads.pdf", "c.heads.png"]


def test_wrong_usage(run_main: Callable[..., Result]) -> None:
    result = run_main(main, "coreference")
    assert (result.code, result.out) == (2, b"")
    assert "the following arguments are required: FILE" in result.err


@pytest.mark.parametrize(
    ("cut", "error"),
    [
        (slice(0, 0), "-: no paragraph"),
        (slice(0, -60), "-, line 9: "),
        (slice(1, None), "-, line 1: GAP's first line is ID Text"),
    ],
)
def test_files_that_are_not_of_gap(run_main: Callable[..., Result], cut: slice, error: str) -> None:
    text = Path(PRONOUNS).read_text(encoding="utf-8")
    failed(run_main(main, "coreference", "-q", "-m", "en-de", "-", stdin=text[cut]), error)


def test_a_file_where_no_candidate_is_meant(run_main: Callable[..., Result]) -> None:
    text = Path(PRONOUNS).read_text(encoding="utf-8").replace("TRUE", "FALSE")
    result = run_main(main, "coreference", "-q", "-m", "en-de", "-", stdin=text)
    failed(result, "stdin: no paragraph that the model can read and where one of both candidates is meant")
