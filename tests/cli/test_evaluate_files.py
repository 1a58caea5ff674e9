"""`extract-align eval` and the files it is given: what it takes, what it refuses, and the published error rates."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from align.cli import evaluate
from tests.cli.conftest import Run, Write, failed, printed
from tests.conftest import SHARED
from tests.corpora import GOLD, ONE, SOURCE, TARGET, TWO

HANSARDS = SHARED / "gold" / "enfr-hansards447"


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command, in a folder with gold, two systems and their text."""
    write(gold=GOLD, one=ONE, two=TWO, source=SOURCE, target=TARGET)
    return partial(run_main, evaluate.main)


# Odd files that are fine


def test_naacl_gold_may_leave_out_sentences_that_the_text_has(run: Run, write: Write) -> None:
    write(gold="1 1 1\n")
    failed(run("-g", "gold", "-b", "one"), "gold has 1 sentence pair, one 3", "give the text with -s and -t")
    warning = "gold names no link in 2 of 3 sentences: they are taken to have none"
    result = run("-g", "gold", "-b", "one", "-s", "source", "-t", "target")
    assert (result.code, result.out) == (0, b"66.67\n")
    assert f"extract-align eval: warning: {warning}\n" in result.err
    write(gold="3 1 1\n")
    assert f"extract-align eval: warning: {warning}\n" in run("-g", "gold", "-b", "one").err


# Where counting starts, and which side is first


def test_gold_that_may_count_from_1_is_not_guessed(run: Run, write: Write) -> None:
    write(gold="1-1 2p2 3-3\n1-1\n2-2 1-1\n")
    printed(run("-g", "gold", "-b", "one", "--gold-format", "1-based"), "10.00")
    printed(run("-g", "gold", "-b", "one", "-s", "source", "-t", "target"), "10.00")
    result = run("-g", "gold", "-b", "one", "--gold-format", "0-based")
    assert result.code == 0
    assert (
        "extract-align eval: warning: one: AER 60.0, but with all its indices one higher it would be 10.0: is"
        in result.err
    )


def test_swapped_sides_are_warned_about(run: Run, write: Write) -> None:
    write(gold="0-1 0-2\n1-0 2-0\n", one="1-0 2-0\n0-1 0-2\n")
    result = run("-g", "gold", "-b", "one")
    assert (result.code, result.out) == (0, b"100.00\n")
    warning = "one: AER 100.0, but with its sides swapped it would be 0.0: is --hyp-format or --gold-format right?"
    assert result.err == f"extract-align eval: warning: {warning}\n"
    printed(run("-g", "gold", "-b", "one", "--hyp-format", "swapped"), "0.00")
    printed(run("-g", "gold", "-b", "one", "--gold-format", "swapped"), "0.00")
    assert b"hyp:pharaoh-0-swapped" in run("-g", "gold", "one", "--hyp-format", "swapped").out


# What is refused: nothing on stdout, and why on stderr


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({"one": ONE.replace("0-0\n", "", 1)}, ("one has 2 sentence pairs, gold 3", "a line is missing")),
        ({"one": ONE + "\n"}, ("gold has 3 sentence pairs, one 4", "a blank one at the end?")),
        ({"one": "1 1 1\n4 1 1\n"}, ("gold has 3 sentence pairs, one 4",)),
        ({"gold": "1 0 1 S\n"}, ("gold: index 0 in naacl format", "give --gold-format 0-based")),
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
    warning = "links to words that their sentences do not have: 2; they are"
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
