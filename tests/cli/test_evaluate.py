"""`eval-align` from the outside: exact bytes, what it refuses, and the published error rates."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import align
from align.cli import evaluate
from tests.cli.conftest import Result, failed
from tests.conftest import SHARED

HANSARDS = SHARED / "gold" / "enfr-hansards447"

GOLD = "0-0 1p1 2-2\n0-0\n1-1 0-0\n"
ONE = "0-0 1-1\n0-0\n0-0 1-1\n"
TWO = "0-0 1-1 2-2\n0-1\n0-0 1-1\n"
SOURCE = "a b c\nd e\nf g\n"
TARGET = "x y z\nu v\nw w\n"

SIGNATURE = f"AER|gold:talp-0|hyp:pharaoh-0|n:3|ci:percentile-1000|seed:12345|v:{align.__version__}"
SHORT = f"AER|gold:talp-0|hyp:pharaoh-0|n:3|v:{align.__version__}"
NOTE = "gold: 3 sentence pairs, 5 sure and 1 only possible links"


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None]) -> Callable[..., Result]:
    """The command, in a folder with gold, two systems and their text."""
    write(gold=GOLD, one=ONE, two=TWO, source=SOURCE, target=TARGET)
    return partial(run_main, evaluate.main)


def printed(result: Result, *lines: str, err: str = "") -> None:
    """These lines on stdout, exit code 0."""
    assert (result.code, result.err) == (0, err)
    assert result.out.decode() == "\n".join(lines) + "\n"


# What comes out


def test_default(run: Callable[..., Result]) -> None:
    printed(
        run("-g", "gold", "one", "two"),
        "system      AER  95 % interval         P      R     F1    links    in sure    in sure or possible",
        "--------  -----  ---------------  ------  -----  -----  -------  ---------  ---------------------",
        "one       10.00  0.00 to 25.00    100.00  80.00  88.89        5          4                      5",
        "two       18.18  0.00 to 100.00    83.33  80.00  81.63        6          4                      5",
        NOTE,
        SIGNATURE,
    )


def test_tsv(run: Callable[..., Result]) -> None:
    intervals = "\t".join(f"{name}\t{name}_low\t{name}_high" for name in ("aer", "precision", "recall", "f1"))
    printed(
        run("-g", "gold", "one", "-f", "tsv", "-w", 1),
        f"# {SIGNATURE}",
        f"# {NOTE}",
        f"system\t{intervals}\tlinks\tin_sure\tin_possible",
        "one\t10.0\t0.0\t25.0\t100.0\t100.0\t100.0\t80.0\t50.0\t100.0\t88.9\t66.7\t100.0\t5\t4\t5",
    )


def test_json(run: Callable[..., Result]) -> None:
    result = run("-g", "gold", "one", "-f", "json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert (list(found), found["signature"], found["notes"]) == (["signature", "notes", "rows"], SIGNATURE, [NOTE])
    (row,) = found["rows"]
    assert row == {
        **{"system": "one", "links": 5, "in_sure": 4, "in_possible": 5},
        **{"aer": 10.0, "aer_low": 0.0, "aer_high": 25.0},
        **{"precision": 100.0, "precision_low": 100.0, "precision_high": 100.0},
        **{"recall": 80.0, "recall_low": 50.0, "recall_high": 100.0},
        **{"f1": 88.89, "f1_low": 66.67, "f1_high": 100.0},
    }


def test_latex(run: Callable[..., Result]) -> None:
    printed(
        run("-g", "gold", "one", "-f", "latex", "--samples", 0),
        f"% {SHORT}",
        f"% {NOTE}",
        r"% needs \usepackage{booktabs}",
        r"\begin{tabular}{lrrrrrrr}",
        r"\toprule",
        r" system   &   AER &      P &     R &    F1 &   links &   in sure &   in sure or possible \\",
        r"\midrule",
        r" one      & 10.00 & 100.00 & 80.00 & 88.89 &       5 &         4 &                     5 \\",
        r"\bottomrule",
        r"\end{tabular}",
    )


def test_brief(run: Callable[..., Result]) -> None:
    printed(run("-g", "gold", "-b", "one", "two"), "10.00", "18.18")
    printed(run("-g", "gold", "-b", "one", "-w", 0), "10")
    printed(run("-g", "-", "-b", "one", stdin=GOLD), "10.00")
    printed(run("-g", "gold", "-b", "-", stdin=TWO), "18.18")


def test_per_sentence(run: Callable[..., Result]) -> None:
    printed(
        run("-g", "gold", "one", "two", "--per-sentence", "-w", 1),
        "  line  system      AER      P      R     F1    links    in sure    in sure or possible    sure",
        "------  --------  -----  -----  -----  -----  -------  ---------  ---------------------  ------",
        "     1  one        25.0  100.0   50.0   66.7        2          1                      2       2",
        "     1  two         0.0  100.0  100.0  100.0        3          2                      3       2",
        "     2  one         0.0  100.0  100.0  100.0        1          1                      1       1",
        "     2  two       100.0    0.0    0.0    n/a        1          0                      0       1",
        "     3  one         0.0  100.0  100.0  100.0        2          2                      2       2",
        "     3  two         0.0  100.0  100.0  100.0        2          2                      2       2",
        NOTE,
        SHORT,
    )
    printed(
        run("-g", "gold", "two", "--per-sentence", "-w", 1, "-f", "tsv"),
        f"# {SHORT}",
        f"# {NOTE}",
        "line\tsystem\taer\tprecision\trecall\tf1\tlinks\tin_sure\tin_possible\tsure",
        "1\ttwo\t0.0\t100.0\t100.0\t100.0\t3\t2\t3\t2",
        "2\ttwo\t100.0\t0.0\t0.0\tn/a\t1\t0\t0\t1",
        "3\ttwo\t0.0\t100.0\t100.0\t100.0\t2\t2\t2\t2",
    )
    rows = json.loads(run("-g", "gold", "two", "--per-sentence", "-f", "json").out)["rows"]
    assert [(row["line"], row["aer"], row["f1"]) for row in rows] == [(1, 0, 100), (2, 100, None), (3, 0, 100)]
    latex = run("-g", "gold", "two", "--per-sentence", "-f", "latex").out
    assert latex.count(b"\\\\") == 4


def test_errors_are_drawn(run: Callable[..., Result]) -> None:
    signs = "■ sure, found   ▣ possible, found   □ sure, missing   ▫ possible, left out   ✗ wrong"
    two = ("two, line 2: 1 wrong, 1 missing, AER 100.00", "  u v", "d □ ✗", "e · ·", "")
    one = ("one, line 1: 0 wrong, 1 missing, AER 25.00", "  x y z", "a ■ · ·", "b · ▣ ·", "c · · □", "")
    text = ("-s", "source", "-t", "target")
    printed(run("-g", "gold", "two", "one", "--errors", 5, *text), *two, *one, signs, SHORT)
    numbers = ("two, line 2: 1 wrong, 1 missing, AER 100.00", "  0 1", "0 □ ✗", "")
    fewer = "words without a link have no row or column; with -s and -t all words are shown"
    printed(run("-g", "gold", "two", "--errors", 1), *numbers, signs, fewer, SHORT)
    printed(run("-g", "gold", "gold", "--errors", 1), "no errors", SHORT.replace("hyp:pharaoh", "hyp:talp"))


def test_errors_in_tables(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(one="2-2\n0-0\n0-0 1-1\n")  # a possible link left out is no error
    arguments = ("-g", "gold", "one", "two", "--errors", 5)
    printed(
        run(*arguments, "-f", "tsv"),
        f"# {SHORT}",
        f"# {NOTE}",
        "system\tline\terrors\taer\twrong\tmissing",
        "one\t1\t1\t33.33\t\t0-0",
        "two\t2\t2\t100.00\t0-1\t0-0",
    )
    assert json.loads(run(*arguments, "-f", "json").out)["rows"] == [
        {"system": "one", "line": 1, "errors": 1, "aer": 33.33, "wrong": "", "missing": "0-0"},
        {"system": "two", "line": 2, "errors": 2, "aer": 100.0, "wrong": "0-1", "missing": "0-0"},
    ]
    assert b" two      &      2 &        2 & 100.00 & 0-1     & 0-0       \\\\\n" in run(*arguments, "-f", "latex").out


def test_the_seed_and_the_number_of_samples_are_taken(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(gold=GOLD * 20, two=TWO * 20)
    intervals = set()
    for samples, seed in ((1000, 12345), (1000, 2), (500, 2)):
        arguments = ("--samples", samples, "--seed", seed, "-w", 9, "-f", "json")
        found = json.loads(run("-g", "gold", "two", *arguments).out)
        assert f"|ci:percentile-{samples}|seed:{seed}|" in found["signature"]
        intervals.add((found["rows"][0]["aer_low"], found["rows"][0]["aer_high"]))
    assert len(intervals) == 3


@pytest.mark.parametrize("test", ["bootstrap", "permutation"])
def test_paired(run: Callable[..., Result], write: Callable[..., None], test: str) -> None:
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
    assert text[0].endswith("    - first       p")
    assert text[2].endswith("        n/a     n/a")
    assert text[3].split()[-2:] == ["8.18", f"{p[1]:.4f}"]


# Odd files that are fine


@pytest.mark.parametrize(
    "text",
    [ONE.replace("\n", "\r\n"), "\ufeff" + ONE, ONE[:-1], " 0-0\t 1-1 \n0-0 0-0\n1-1 0-0\t\n",
     "0-0:0.5 1-1\n0-0\n0-0 1-1", '{"links": [[0, 0], [1, 1]]}\n{"links": [[0, 0]]}\n{"links": [[0, 0], [1, 1]]}\n',
     "1 1 1\n3 1 1 S 0.5\n3 2 2\n2 1 1 P\n1 2 2 S\n"],
)  # fmt: skip
def test_the_same_links_in_other_forms(run: Callable[..., Result], write: Callable[..., None], text: str) -> None:
    write(one=text)
    printed(run("-g", "gold", "-b", "one"), "10.00")


def test_a_system_without_links(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(nothing="\n\n\n")
    (line,) = run("-g", "gold", "nothing", "-f", "tsv").out.decode().splitlines()[3:]
    assert line == "\t".join(["nothing", *["100.00"] * 3, *["n/a"] * 3, *["0.00"] * 3, *["n/a"] * 3, "0", "0", "0"])


def test_nothing_at_all(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(nothing="")
    printed(run("-g", "nothing", "nothing", "-b"), "n/a")


def test_naacl_gold_may_leave_out_sentences_that_the_text_has(
    run: Callable[..., Result], write: Callable[..., None]
) -> None:
    write(gold="1 1 1\n")
    failed(run("-g", "gold", "-b", "one"), "gold has 1 sentence pairs, one 3", "give the text with -s and -t")
    warning = "gold names no link in 2 of 3 sentences: they are taken to have none"
    result = run("-g", "gold", "-b", "one", "-s", "source", "-t", "target")
    assert (result.code, result.out) == (0, b"66.67\n")
    assert f"eval-align: warning: {warning}\n" in result.err
    write(gold="3 1 1\n")
    assert f"eval-align: warning: {warning}\n" in run("-g", "gold", "-b", "one").err


def test_gold_and_system_exchanged(run: Callable[..., Result]) -> None:
    warning = "gold tells sure from possible links, and the gold does not: are they exchanged?"
    assert f"eval-align: warning: {warning}\n" in run("-g", "one", "gold").err


# Where counting starts, and which side is first


def test_gold_that_may_count_from_1_is_not_guessed(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(gold="1-1 2p2 3-3\n1-1\n2-2 1-1\n")
    failed(run("-g", "gold", "one"), "gold: no index 0 in 6 links", "give --gold-base 1 (or --gold-base 0 if")
    printed(run("-g", "gold", "-b", "one", "--gold-base", 1), "10.00")
    printed(run("-g", "gold", "-b", "one", "-s", "source", "-t", "target"), "10.00")
    result = run("-g", "gold", "-b", "one", "--gold-base", 0)
    assert result.code == 0
    assert "eval-align: warning: one: AER 60.0, but with all its indices one higher it would be 10.0: is" in result.err


def test_a_system_that_counts_from_1(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(one="1-1 2-2\n1-1\n1-1 2-2\n")
    failed(run("-g", "gold", "one"), "one: no index 0 in 5 links", "give --hyp-base 1 (or --hyp-base 0 if")
    printed(run("-g", "gold", "-b", "one", "--hyp-base", 1), "10.00")
    failed(run("-g", "gold", "two", "--hyp-base", 1), "two, line 1: link 0-0 has index 0, but counting starts at 1")


def test_swapped_sides_are_warned_about(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(gold="0-1 0-2\n1-0 2-0\n", one="1-0 2-0\n0-1 0-2\n")
    result = run("-g", "gold", "-b", "one")
    assert (result.code, result.out) == (0, b"100.00\n")
    warning = "one: AER 100.0, but with its sides swapped it would be 0.0: is --hyp-swapped or --gold-swapped right?"
    assert result.err == f"eval-align: warning: {warning}\n"
    printed(run("-g", "gold", "-b", "one", "--hyp-swapped"), "0.00")
    printed(run("-g", "gold", "-b", "one", "--gold-swapped"), "0.00")
    assert b"hyp:pharaoh-0-swapped" in run("-g", "gold", "one", "--hyp-swapped").out


def test_swapped_sides_are_refused_where_the_text_shows_it(
    run: Callable[..., Result], write: Callable[..., None]
) -> None:
    write(gold="0-0 0-1 0-2\n", one="0-0 2-0 3-0\n", source="a\n", target="x y z u\n")
    text = ("-s", "source", "-t", "target")
    failed(run("-g", "gold", "one", *text), "one, line 1: link 2-0", "1 and 4 words", "with --hyp-swapped, or with")
    printed(run("-g", "gold", "-b", "one", *text, "--hyp-swapped"), "33.33")


# What is refused: nothing on stdout, and why on stderr


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"one": ONE.replace("0-0\n", "", 1)}, ("one has 2 sentence pairs, gold 3", "a line is missing")),
        ({"one": ONE + "\n"}, ("gold has 3 sentence pairs, one 4", "a blank one at the end?")),
        ({"gold": GOLD + "\n"}, ("one has 3 sentence pairs, gold 4",)),
        ({"one": ""}, ("one has 0 sentence pairs, gold 3",)),
        ({"one": "1 1 1\n4 1 1\n"}, ("gold has 3 sentence pairs, one 4",)),
        ({"one": "0-0\n-1-0\n\n"}, ("one, line 2: '-1-0' is not a link such as 0-3",)),
        ({"one": "0-0\n1 2\n\n"}, ("one, line 2: '1' is not a link such as 0-3",)),
        ({"gold": "0-0 1p1\n1?1\n\n"}, ("gold: some possible links are marked with p, others with ?",)),
        ({"one": b"0-0\n\xff\x00\n\n"}, ("one, line 2: not UTF-8",)),
        ({"one": '{"links": [[0.0, 0]]}\n'}, ("one, line 1: a link in JSON is two numbers from 0",)),
        ({"gold": "1 0 1 S\n"}, ("gold: index 0 in naacl format", "give --gold-base 0")),
    ],
)
def test_files_that_do_not_fit(
    run: Callable[..., Result], write: Callable[..., None], files: dict[str, bytes | str], parts: tuple[str, ...]
) -> None:
    write(**files)
    result = run("-g", "gold", "one", "two")
    failed(result, *parts)
    assert result.out == b""


def test_files_that_are_not_there(run: Callable[..., Result]) -> None:
    for arguments in (
        ("-g", "gold", "gone"),
        ("-g", "gone", "one"),
        ("-g", "gold", "one", "-s", "gone", "-t", "target"),
    ):
        result = run(*arguments)
        failed(result, "eval-align: error: gone: No such file or directory")
        assert result.out == b""
    failed(run("-g", "gold", "."), ".: Is a directory")


def test_text_of_another_length(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(longer=SOURCE + "h\n")
    failed(run("-g", "gold", "one", "-s", "longer", "-t", "target"), "longer has 4 lines, target has 3")
    failed(run("-g", "gold", "one", "-s", "longer", "-t", "longer"), "gold has 3 sentence pairs, the text 4")
    write(one="1 1 1\n4 1 1\n")
    failed(run("-g", "gold", "one", "-s", "source", "-t", "target"), "one has 4 sentence pairs, the text 3")


def test_links_to_words_that_are_not_there(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(one=ONE + "0-1 999999999-0\n", gold=GOLD + "0-0\n", source=SOURCE + "d\n", target=TARGET + "u\n")
    arguments = ("-g", "gold", "-b", "one", "-s", "source", "-t", "target", "--hyp-base", 0)
    result = run(*arguments)
    failed(result, "one, line 4: link 0-1 (counted from 0), where the sentences have 1 and 1 words", "--out-of-range")
    assert result.out == b""
    warning = "links to words that their sentences do not have: 2; they are"
    shown = f"eval-align: warning: one: {warning} counted as wrong\n"
    printed(run(*arguments, "--out-of-range", "ignore"), "30.77", err=shown)  # as without the text: not forgiven
    printed(run("-g", "gold", "-b", "one", "--hyp-base", 0), "30.77")
    turned = run("-g", "one", "gold", "-s", "source", "-t", "target", "--gold-base", 0, "--out-of-range", "ignore")
    assert f"eval-align: warning: one: {warning} left out\n" in turned.err
    assert b"|hyp:talp-0|" in turned.out
    assert b"gold:pharaoh-0-without-2|" in turned.out


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("one",), ("-g", "gold"), ("-g", "-", "-"), ("-g", "gold", "one", "-s", "source"),
        ("-g", "gold", "one", "-t", "target"), ("-g", "gold", "one", "--gold-base", "2"),
        ("-g", "gold", "one", "--hyp-format", "xml"), ("-g", "gold", "one", "--samples", "-1"),
        ("-g", "gold", "one", "--errors", "0"), ("-g", "gold", "one", "-b", "--per-sentence"),
        ("-g", "gold", "one", "--paired", "t"), ("-g", "gold", "one", "-f", "xml"),
        ("-g", "gold", "one", "--frobnicate"), ("-g", "gold", "one", "--paired", "permutation"),
        ("-g", "gold", "one", "two", "--paired", "permutation", "--samples", "0"),
        ("-g", "gold", "one", "-b", "-f", "json"), ("-g", "gold", "one", "--out-of-range", "ignore"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(run: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert "usage: eval-align" in result.err


def test_help_and_version_answer_without_torch() -> None:
    check = "import sys; sys.argv = ['eval-align', '{}']\nfrom align.cli.evaluate import main\n"
    check += "try: main()\nfinally: assert not {{'torch', 'scipy', 'fairseq'}} & set(sys.modules)"
    for flag, expected in (("--help", "examples:"), ("--version", f"eval-align {align.__version__}")):
        result = subprocess.run([sys.executable, "-c", check.format(flag)], capture_output=True, text=True, check=True)
        assert expected in result.stdout
        assert result.stderr == ""


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
def test_published_error_rates(run: Callable[..., Result], name: str, published: str) -> None:
    arguments = ["-g", hansards("test.wa.nonullalign"), "-b", hansards(f"lilt-baselines/{name}")]
    arguments += ["--hyp-swapped"] if "reverse" in name else []
    printed(run(*arguments), published)
    printed(run(*arguments, "-s", hansards("test.e"), "-t", hansards("test.f")), published)


def test_a_published_file_taken_the_wrong_way(run: Callable[..., Result]) -> None:
    arguments = ["-g", hansards("test.wa.nonullalign"), hansards("lilt-baselines/giza/test.enfr.reverse.talp"), "-b"]
    result = run(*arguments)
    assert (result.code, result.out) == (0, b"73.19\n")
    assert "AER 73.2, but with its sides swapped it would be 9.8: is --hyp-swapped or --gold-swapped" in result.err
    text = ("-s", hansards("test.e"), "-t", hansards("test.f"))
    failed(run(*arguments, *text), "is it source first (else --hyp-swapped)?")
    failed(
        run(*arguments, *text, "--hyp-base", 0),
        "with --hyp-swapped, or with -s and -t exchanged, all links would be in range",
    )
