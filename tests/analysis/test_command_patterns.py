"""`extract-align analyse patterns`: exact tables, wrong usage, figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from align.analysis.commands.program import main
from align.analysis.patterns.rule import PATTERNS
from tests.cli.conftest import Result, failed
from tests.conftest import ROOT

TEXT = str(ROOT / "examples" / "de-en.txt")
SHARES = """\
part   measure  vertical, %  diagonal, %  both, %  block, %  other, %  texts
-----  -------  -----------  -----------  -------  --------  --------  -----
"""


def test_tables_of_the_bundled_model(run_main: Callable[..., Result], tmp_path: Path) -> None:
    result = run_main(main, "patterns", "-q", TEXT, "--parts", "cross", "--plots", str(tmp_path / "p"))
    assert (result.code, result.err) == (0, "")
    shown = result.out.decode()
    assert shown.startswith(SHARES)
    assert shown.splitlines()[-1].startswith("analysis|patterns|fairseq:de-en@f9bf75b|n:20|threshold:0.5|seed:1|v:")
    assert " head " not in shown
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["p.cross.examples.png", "p.cross.shares.png"]


def test_a_rule_that_asks_for_less_leaves_less_over(run_main: Callable[..., Result]) -> None:
    rest = {}
    for threshold in ("0.2", "0.8"):
        result = run_main(main, "patterns", "-q", "-f", "json", TEXT, "--parts", "encoder", "--threshold", threshold)
        found = json.loads(result.out)
        assert len(found["heads"]) == 2 * 3 * 4
        for table in ("parts", "layers", "heads"):
            assert all(abs(sum(row[key] for key in PATTERNS) - 100) < 0.3 for row in found[table])
        rest[threshold] = found["parts"][0]["heterogeneous"]
    assert rest["0.2"] < rest["0.8"]


def test_wrong_usage(run_main: Callable[..., Result]) -> None:
    result = run_main(main, "patterns", TEXT, "--threshold", "2")
    assert (result.code, result.out) == (2, b"")
    assert "argument --threshold: '2' is not a number from 0 to 1" in result.err


def test_texts_that_are_not_enough(run_main: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "short").write_text("das Haus\n", encoding="utf-8")
    failed(run_main(main, "patterns", "-q", "-s", str(tmp_path / "short")), "no line of 8 pieces or more")
