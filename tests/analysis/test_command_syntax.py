"""`extract-align analyse syntax`: exact tables of a small treebank, wrong usage, files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import align
from align.analysis.commands.program import main
from tests.cli.conftest import Result, failed, printed
from tests.conftest import ROOT

pytest.importorskip("sklearn")

BANK = str(ROOT / "examples" / "analysis" / "trees.de.conllu")


def test_single_heads_of_the_bundled_model(run_main: Callable[..., Result]) -> None:
    printed(
        run_main(main, "syntax", "-q", BANK, "--no-probes", "--fewest", "8"),
        "relation  words  best by a           %  best by ‖af‖        %  offset     %",
        "--------  -----  ---------------  ----  ---------------  ----  ------  ----",
        "all          56  2-4 d>h          51.8  2-4 d>h 1-4 d>h  39.3  +1      44.6",
        "det          14  1-1 d>h 3-3 h>d  21.4  1-1 d>h 3-3 h>d  21.4  +1 +2   35.7",
        "nsubj         8  2-4 d>h 1-1 d>h  62.5  2-4 d>h 1-1 d>h  62.5  +1      87.5",
        "punct         8  2-4 d>h 3-4 d>h  12.5  2-4 d>h 3-4 d>h  12.5  -5 -4   12.5",
        "best: layer-head, and who attends (d: the dependent, h: its head); two where halves chose differently",
        "each half is scored by what is best on the other; intervals: 95 %, bootstrap over sentences",
        "8 sentences",
        f"analysis|syntax|fairseq:de-en@f9bf75b|treebank:trees.de.conllu|n:8|fewest:8|seed:1|probes:none|v:{align.__version__}",
    )


def test_probes_and_figures(run_main: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("die 1 0\nder 1 0\nhaus 0 1\n", encoding="utf-8")
    result = run_main(
        main, "syntax", "-q", "-f", "json", BANK, "--vectors", tmp_path / "v.txt", "--plots", tmp_path / "s"
    )
    found = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert found["signature"].startswith(
        "analysis|syntax|fairseq:de-en@f9bf75b|treebank:trees.de.conllu|n:8|fewest:20|seed:1|vectors:v.txt|v:"
    )
    assert [row["relation"] for row in found["relations"]] == ["all"]
    assert len(found["attachment"]) == 8
    assert {row["task"] for row in found["pairs"]} == {"a dependency or none"}
    assert sorted(path.name for path in tmp_path.glob("s.*")) == ["s.relations.pdf", "s.relations.png"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "the following arguments are required: TREEBANK"),
        ((BANK, "--no-probes", "--vectors", "v.txt"), "--vectors are for probes: leave out --no-probes"),
        ((BANK, "--fewest", "0"), "argument --fewest: '0' is not a number from 1"),
        (("-", "--vectors", "-"), "only one of the files can be stdin"),
    ],
)
def test_wrong_usage(run_main: Callable[..., Result], arguments: tuple[str, ...], error: str) -> None:
    result = run_main(main, "syntax", *arguments)
    assert (result.code, result.out) == (2, b"")
    assert error in result.err


def test_files_that_are_no_treebank(run_main: Callable[..., Result]) -> None:
    text = Path(BANK).read_text(encoding="utf-8")
    failed(run_main(main, "syntax", "-q", "-", stdin=text[: len(text) // 2]), "-, line ", "columns between TABs")
    failed(run_main(main, "syntax", "-q", "-", stdin=text[:-1]), "the file ends within a sentence", "cut off")
    failed(run_main(main, "syntax", "-q", "-", stdin="das Haus\n"), "-, line 1: 1 columns between TABs")
    failed(run_main(main, "syntax", "-q", "-"), "-: no sentence")


def test_too_few_sentences_for_probes(run_main: Callable[..., Result]) -> None:
    result = run_main(main, "syntax", "-q", BANK, "--sentences", "2")
    failed(result, f"{BANK}: probes need 5 sentences: the model can read 2: --no-probes does without")
