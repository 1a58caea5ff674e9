"""`extract-align sweep` from the outside: tables, counts, pictures, and bad input."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from align.cli import sweep
from align.evaluation.sweep import SCORES
from tests import toy
from tests.cli.conftest import Run, failed
from tests.conftest import ROOT, SHARED

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def run(run_main: Run) -> Run:
    return partial(run_main, sweep.main)


@pytest.fixture
def toy_text(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A toy model, a text of three lines, and gold for it."""
    text, gold = tmp_path / "text", tmp_path / "gold"
    text.write_text("das haus ist alt ||| the house is old\nwir sehen ||| we see\n\n", encoding="utf-8")
    gold.write_text("0-0 1-1 2p2 3-3\n0-0 1-1\n\n", encoding="utf-8")
    return toy.save_model(tmp_path / "toy"), text, gold


def test_a_text_against_links_of_the_model_itself(run: Run, tmp_path: Path) -> None:
    """Gold is what `extract-align` gives by default: the sweep must find that setting without error."""
    number = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
    arguments = ("-q", "-m", GOLDEN / "models" / "de-en", GOLDEN / "text", "-g", GOLDEN / "toy.pharaoh")
    result = run(*arguments, "-o", tmp_path / "counts.tsv")
    assert (result.code, result.err) == (0, "")
    out = result.out.decode()
    expected = (GOLDEN / "toy.sweep").read_text(encoding="utf-8")
    assert [number.sub("0", line) for line in out.splitlines()] == [number.sub("0", x) for x in expected.splitlines()]
    found, wanted = ([float(value) for value in number.findall(text)] for text in (out, expected))
    assert found == pytest.approx(wanted, abs=2e-3)  # the last digits are the processor's
    assert (tmp_path / "counts.tsv").read_text(encoding="utf-8").splitlines()[:2] == [
        out.splitlines()[-1].join(("# ", "")),
        "score\tposition\tlayer\thead\tpairs\ttarget_words\tnull_words\tin_sure\tin_possible\tlinks\tsure"
        "\tmean_norm\tconsistency",
    ]


def test_every_format_holds_the_same_numbers(run: Run, toy_text: tuple[Path, Path, Path]) -> None:
    model, text, gold = toy_text
    arguments = ("-q", "-m", model, text, "-g", gold)
    record = json.loads(run(*arguments, "-f", "json").out)
    assert list(record) == ["signature", "cells", "norms", "rules", "best"]
    lines = [line for line in run(*arguments, "-f", "tsv").out.decode().splitlines() if not line.startswith("#")]
    first = dict(zip(*(line.split("\t") for line in lines[:2]), strict=True))
    assert first["metric"] == "AER"
    assert first["head_all"] == f"{record['cells'][0]['head_all']:.2f}"
    assert {row["chosen"] for row in record["rules"]} == {"with gold", "without gold"}
    assert sum("chosen with gold" in row["best"] for row in record["cells"]) == 2 * len(SCORES)
    latex = run(*arguments, "-f", "latex").out.decode()
    assert latex.count("\\begin{tabular}") == 3
    assert latex.count("\\textbf{") == 2 * len(SCORES)  # the best of each
    assert "% AER; bold: the lowest of its position and score, chosen WITH gold" in latex


def test_pictures_are_drawn_the_same_each_time(run: Run, toy_text: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Whatever a matplotlibrc says, which matplotlib reads from the current folder first."""
    matplotlib = pytest.importorskip("matplotlib")
    model, text, gold = toy_text
    drawn = []
    for options in (("-g", gold), ("-g", gold), ()):
        prefix = tmp_path / f"figures{len(drawn)}" / "toy"
        with matplotlib.rc_context({"text.usetex": True, "figure.facecolor": "red"} if len(drawn) == 1 else {}):
            assert run("-m", model, text, *options, "--plots", prefix).code == 0
        drawn.append({path.name: path.read_bytes() for path in sorted(prefix.parent.iterdir())})
    assert list(drawn[0]) == ["toy.heads.pdf", "toy.heads.png", "toy.layers.pdf", "toy.layers.png"]
    assert drawn[0] == drawn[1]
    assert drawn[0]["toy.heads.png"].startswith(b"\x89PNG")
    assert drawn[2]["toy.layers.png"] != drawn[0]["toy.layers.png"]


def test_lines_that_are_too_long_or_none(run: Run, toy_text: tuple[Path, Path, Path]) -> None:
    model, text, _ = toy_text
    text.write_text("das " * 50 + "||| the\ndas ||| the\n", encoding="utf-8")
    result = run("-q", "-m", model, text)
    assert (result.code, "too long for the model, and without links: 1 pair\n" in result.err) == (0, True)
    text.write_text("\u200b ||| the\ndas ||| the\n", encoding="utf-8")  # a word without a piece
    result = run("-q", "-m", "de-en", text)
    assert (result.code, result.err) == (0, "")
    text.write_text("", encoding="utf-8")
    failed(run("-q", "-m", model, text), "has no sentence pairs")


def test_real_gold_gives_the_published_order_of_settings(run: Run) -> None:
    """On 84 real sentences: input before output, and lexical consistency takes the oracle's cell in the input."""
    folder = SHARED / "gold" / "deen-dev84"
    if not folder.is_dir():
        pytest.skip(f"needs gold/deen-dev84 in {SHARED.name}/ beside the repository (or $EXTRACT_ALIGN_DATA)")
    names = (folder / f"dev84.{name}" for name in ("de", "en", "align"))
    result = run("-q", "-f", "json", *(x for pair in zip(("-s", "-t", "-g"), names, strict=True) for x in pair))
    assert result.code == 0
    rules = {(row["position"], row["score"], row["rule"]): row for row in json.loads(result.out)["rules"]}
    best = {key: row["aer"] for key, row in rules.items() if key[2] == "lowest AER, heads"}
    assert max(aer for (position, *_), aer in best.items() if position == "input") < 30
    assert min(aer for (position, *_), aer in best.items() if position == "output") > 40
    for score in ("weight", "norm"):
        chosen, oracle = (rules["input", score, rule] for rule in ("lexical consistency, heads", "lowest AER, heads"))
        assert (chosen["layer"], chosen["head"]) == (oracle["layer"], oracle["head"])
