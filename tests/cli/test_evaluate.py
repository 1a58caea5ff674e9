"""`extract-align eval` from the outside: exact bytes of every mode and format."""

from __future__ import annotations

import json
from functools import partial

import pytest

import align
from align.baselines.tools import align_with, lower_case
from align.cli import evaluate
from align.core.text import make_pair
from align.evaluation.dialects import ALL_METHODS
from tests.cli.conftest import Run, Write, printed
from tests.conftest import needs_fast_align
from tests.corpora import GOLD, ONE, SOURCE, TARGET, TWO

SIGNATURE = f"AER|gold:talp-0|hyp:pharaoh-0|n:3|ci:percentile-1000|seed:12345|v:{align.__version__}"
SHORT = f"AER|gold:talp-0|hyp:pharaoh-0|n:3|v:{align.__version__}"
NOTE = "gold: 3 sentence pairs, 5 sure and 1 only possible links"


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command, in a folder with gold, two systems and their text."""
    write(gold=GOLD, one=ONE, two=TWO, source=SOURCE, target=TARGET)
    return partial(run_main, evaluate.main)


# What comes out


def test_default(run: Run) -> None:
    printed(
        run("-g", "gold", "one", "two"),
        "system    AER      95 % CI       P      R     F1",
        "------  -----  -----------  ------  -----  -----",
        "one     10.00   0.00–25.00  100.00  80.00  88.89",
        "two     18.18  0.00–100.00   83.33  80.00  81.63",
        NOTE,
        SIGNATURE,
    )
    printed(
        run("-g", "gold", "one", "two", "--all-columns"),
        "system    AER      95 % CI       P      R     F1  links  in sure  in sure or possible",
        "------  -----  -----------  ------  -----  -----  -----  -------  -------------------",
        "one     10.00   0.00–25.00  100.00  80.00  88.89      5        4                    5",
        "two     18.18  0.00–100.00   83.33  80.00  81.63      6        4                    5",
        NOTE,
        SIGNATURE,
    )


def test_per_sentence(run: Run) -> None:
    printed(
        run("-g", "gold", "one", "two", "--per-sentence"),
        "line  system     AER       P       R      F1",
        "----  ------  ------  ------  ------  ------",
        "   1  one      25.00  100.00   50.00   66.67",
        "   1  two       0.00  100.00  100.00  100.00",
        "   2  one       0.00  100.00  100.00  100.00",
        "   2  two     100.00    0.00    0.00     n/a",
        "   3  one       0.00  100.00  100.00  100.00",
        "   3  two       0.00  100.00  100.00  100.00",
        NOTE,
        SHORT,
    )
    printed(
        run("-g", "gold", "two", "--per-sentence", "-f", "tsv"),
        f"# {SHORT}",
        f"# {NOTE}",
        "line\tsystem\taer\tprecision\trecall\tf1\tlinks\tin_sure\tin_possible\tsure",
        "1\ttwo\t0.00\t100.00\t100.00\t100.00\t3\t2\t3\t2",
        "2\ttwo\t100.00\t0.00\t0.00\tn/a\t1\t0\t0\t1",
        "3\ttwo\t0.00\t100.00\t100.00\t100.00\t2\t2\t2\t2",
    )
    rows = json.loads(run("-g", "gold", "two", "--per-sentence", "-f", "json").out)["rows"]
    assert [(row["line"], row["aer"], row["f1"]) for row in rows] == [(1, 0, 100), (2, 100, None), (3, 0, 100)]
    latex = run("-g", "gold", "two", "--per-sentence", "-f", "latex").out
    assert latex.count(b"\\\\") == 4


def test_errors_are_drawn(run: Run) -> None:
    signs = "■ sure, found  ▣ possible, found  □ sure, missing  ▫ possible, left out  ✗ wrong"
    two = ("two, line 2: 1 wrong, 1 missing, AER 100.00", "  u v", "d □ ✗", "e · ·", "")
    one = ("one, line 1: 0 wrong, 1 missing, AER 25.00", "  x y z", "a ■ · ·", "b · ▣ ·", "c · · □", "")
    text = ("-s", "source", "-t", "target")
    printed(run("-g", "gold", "two", "one", "--errors", 5, *text), *two, *one, signs, SHORT)
    numbers = ("two, line 2: 1 wrong, 1 missing, AER 100.00", "  0 1", "0 □ ✗", "")
    fewer = "words without a link have no row or column; with -s and -t all words are shown"
    printed(run("-g", "gold", "two", "--errors", 1), *numbers, signs, fewer, SHORT)
    printed(run("-g", "gold", "gold", "--errors", 1), "no errors", SHORT.replace("hyp:pharaoh", "hyp:talp"))


@pytest.mark.parametrize("test", ["bootstrap", "permutation"])
def test_paired(run: Run, write: Write, test: str) -> None:
    write(gold=GOLD * 20, one=ONE * 20, two=TWO * 20, nothing="\n" * 60)
    result = run("-g", "gold", "one", "two", "one", "nothing", "--paired", test, "-f", "json")
    found = json.loads(result.out)
    assert found["signature"].endswith(f"|seed:12345|test:{test}|v:{align.__version__}")
    p = [row["p"] for row in found["rows"]]
    assert [row["difference"] for row in found["rows"]] == [None, 8.18, 0.0, 90.0]
    assert (p[0], p[2]) == (None, 1.0)
    assert p[3] < 0.01 < p[1] < 0.5
    assert run("-g", "gold", "one", "two", "one", "nothing", "--paired", test, "-f", "json").out == result.out
    other = json.loads(run("-g", "gold", "one", "two", "--paired", test, "-f", "json", "--seed", 2).out)
    assert other["rows"][1]["p"] not in (None, p[1])
    text = run("-g", "gold", "one", "two", "--paired", test).out.decode().splitlines()
    assert text[0].endswith("  dAER       p")
    assert text[2].endswith("   n/a     n/a")
    assert text[3].split()[-2:] == ["8.18", f"{p[1]:.4f}"]


@needs_fast_align
def test_without_gold_the_links_of_fast_align_take_its_place(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ["das Haus ist alt|the house is old", "das Buch ist neu|the book is new", "ein Haus|a House", "|"] * 9
    sides = [[line.split("|")[side] for line in text] for side in (0, 1)]

    def links(of_line: str) -> str:
        return "".join(f"{of_line if line != '|' else ''}\n" for line in text)

    write(de="\n".join(sides[0]) + "\n", en="\n".join(sides[1]) + "\n", one=links("0-0 1-1"), two=links("0-1"))
    pairs = [lower_case(make_pair(source, target, 1)) for source, target in zip(*sides, strict=True)]
    gold = ""
    for forward, reverse in align_with("fast_align", pairs):
        grown = ALL_METHODS["grow-diag-final-and"](forward, reverse)
        sure = forward & reverse
        gold += " ".join([*(f"{i}-{j}" for i, j in sure), *(f"{i}p{j}" for i, j in grown - sure)]) + "\n"
    write(gold=gold)
    options = ("one", "two", "-s", "de", "-t", "en", "--paired", "bootstrap")
    with_gold = run("-g", "gold", "--gold-format", "talp,0-based", *options)
    without = run("--without-gold", *options)
    assert without.out.splitlines()[:4] == with_gold.out.splitlines()[:4]
    *_, note, sign = without.out.decode().splitlines()
    assert note.startswith("no gold: fast_align's links of this text stand in for it")
    assert sign.startswith("AER|gold:none|fast_align:systran-align-")
    assert "fast_align learns from 27 sentence pairs: below 1,000 the order of systems is unsure" in without.err
    for show in (("--per-sentence", "-f", "tsv"), ("--errors", 1), ("-f", "latex", "--samples", 0)):
        assert b"no gold: fast_align's links" in run("--without-gold", *options[:-2], *show).out
    brief = run("--without-gold", *options[:-2], "-b")
    assert (brief.out.count(b"\n"), "warning: no gold: fast_align's links" in brief.err) == (2, True)
    monkeypatch.setattr(evaluate, "FEW", 27)
    assert "fast_align learns" not in run("--without-gold", *options).err
