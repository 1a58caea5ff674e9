"""`extract-align eval` from the outside: exact bytes of every mode, files that it takes or refuses, published rates."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import align
from align.baselines.tools import align_with, lower_case
from align.cli import evaluate
from align.core.text import make_pair
from align.evaluation.dialects import ALL_METHODS
from tests.cli.conftest import Run, Write, failed, printed
from tests.conftest import SHARED, needs_fast_align
from tests.corpora import GOLD, ONE, SOURCE, TARGET, TWO

SIGNATURE = f"AER|gold:talp-0|hyp:pharaoh-0|n:3|ci:percentile-1000|seed:12345|v:{align.__version__}"
SHORT = f"AER|gold:talp-0|hyp:pharaoh-0|n:3|v:{align.__version__}"
HANSARDS = SHARED / "gold" / "enfr-hansards447"
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
    columns = run("-g", "gold", "one", "two", "--all-columns").out.decode().splitlines()
    assert [row.split()[-6:] for row in columns[2:4]] == [
        ["100.00", "80.00", "88.89", "5", "4", "5"], ["83.33", "80.00", "81.63", "6", "4", "5"],
    ]  # fmt: skip


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
def test_without_gold_the_links_of_fast_align_take_its_place(run: Run, write: Write) -> None:
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
    brief = run("--without-gold", *options[:-2], "-b")
    assert (brief.out.count(b"\n"), "warning: no gold: fast_align's links" in brief.err) == (2, True)


# Where counting starts, and which side is first


def test_gold_that_may_count_from_1_is_not_guessed(run: Run, write: Write) -> None:
    write(gold="1-1 2p2 3-3\n1-1\n2-2 1-1\n")
    printed(run("-q", "-g", "gold", "-b", "one", "--gold-format", "1-based"), "10.00")
    printed(run("-g", "gold", "-b", "one", "-s", "source", "-t", "target"), "10.00")
    result = run("-g", "gold", "-b", "one", "--gold-format", "0-based")
    assert result.code == 0
    assert (
        "extract-align eval: warning: one: AER 60.0, but with all its indices one higher it would be 10.0: check"
        in result.err
    )


def test_swapped_sides_are_warned_about(run: Run, write: Write) -> None:
    write(gold="0-1 0-2\n1-0 2-0\n", one="1-0 2-0\n0-1 0-2\n")
    result = run("-g", "gold", "-b", "one")
    assert (result.code, result.out) == (0, b"100.00\n")
    warning = "one: AER 100.0, but with its sides swapped it would be 0.0: check --hyp-format and --gold-format"
    assert result.err == f"extract-align eval: warning: {warning}\n"
    printed(run("-g", "gold", "-b", "one", "--hyp-format", "swapped"), "0.00")
    printed(run("-g", "gold", "-b", "one", "--gold-format", "swapped"), "0.00")
    assert b"hyp:pharaoh-0-swapped" in run("-g", "gold", "one", "--hyp-format", "swapped").out


# What is refused: nothing on stdout, and why on stderr


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"one": ONE.replace("0-0\n", "", 1)}, ("one has 2 sentence pairs, gold 3", "check for a missing")),
        ({"one": ONE + "\n"}, ("gold has 3 sentence pairs, one 4", "a blank one at the end")),
    ],
)
def test_files_that_do_not_fit(run: Run, write: Write, files: dict[str, bytes | str], parts: tuple[str, ...]) -> None:
    write(**files)
    result = run("-g", "gold", "one", "two")
    failed(result, *parts)
    assert result.out == b""


def test_links_to_words_that_are_not_there(run: Run, write: Write) -> None:
    write(one=ONE + "0-1 999999999-0\n", gold=GOLD + "0-0\n", source=SOURCE + "d\n", target=TARGET + "u\n")
    arguments = ("-g", "gold", "-b", "one", "-s", "source", "-t", "target", "--hyp-format", "0-based")
    result = run(*arguments)
    failed(result, "one, line 4: link 0-1 (counted from 0), where the sentences have 1 and 1 words", "--out-of-range")
    assert result.out == b""
    warning = "2 links outside their sentences,"
    shown = f"extract-align eval: warning: one: {warning} counted as wrong\n"
    printed(run(*arguments, "--out-of-range", "ignore"), "30.77", err=shown)  # as without the text: not forgiven
    printed(run("-g", "gold", "-b", "one", "--hyp-format", "0-based"), "30.77")
    turned = run(
        "-g", "one", "gold", "-s", "source", "-t", "target", "--gold-format", "0-based", "--out-of-range", "ignore"
    )
    assert f"extract-align eval: warning: one: {warning} left out\n" in turned.err
    assert b"|hyp:talp-0|" in turned.out
    assert b"gold:pharaoh-0-without-2|" in turned.out


# What others have published


def hansards(name: str) -> Path:
    if not HANSARDS.is_dir():
        pytest.skip(f"needs {HANSARDS.relative_to(SHARED)} in {SHARED.name}/ beside the repository")
    return HANSARDS / name


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("fastalign/test.enfr.talp", "16.39"),
        ("fastalign/test.enfr.reverse.talp", "15.89"),
        ("fastalign/test.enfr.grow-diagonal.talp", "10.48"),
        ("fastalign/test.enfr.grow-diagonal-final.talp", "12.09"),
        ("giza/test.enfr.talp", "7.99"),
        ("giza/test.enfr.reverse.talp", "9.75"),
        ("giza/test.enfr.grow-diagonal.talp", "5.94"),
        ("giza/test.enfr.grow-diagonal-final.talp", "6.16"),
    ],
)
def test_published_error_rates(run: Run, name: str, published: str) -> None:
    arguments = ["-g", hansards("test.wa.nonullalign"), "-b", hansards(f"lilt-baselines/{name}")]
    arguments += ["--hyp-format", "swapped"] if "reverse" in name else []
    printed(run(*arguments), published)
    printed(run(*arguments, "-s", hansards("test.e"), "-t", hansards("test.f")), published)
