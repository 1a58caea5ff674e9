"""`extract-align analyse` and its first command: exact tables, wrong usage, figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands.program import COMMANDS, main
from tests.cli.conftest import Result
from tests.conftest import ROOT

TEXT = str(ROOT / "examples" / "de-en.txt")


@pytest.fixture
def run(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """Runs the program."""
    return lambda *arguments, **named: run_main(main, *arguments, **named)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("mixin", "argument COMMAND: invalid choice: 'mixin'"),
        ("mixing", "give FILEs of both sides, or -s, and -t where there is another side"),
        ("mixing -t a", "-t/--target requires -s/--source"),
        ("mixing a -s b", "either FILEs of both sides, or -s and -t"),
        ("mixing a --parts head", "argument --parts: 'head' is not one of encoder, decoder, cross"),
        ("mixing a --wide -f tsv", "--wide is for text: other formats have all columns"),
        ("mixing a --lines 0", "argument --lines: '0' is not a number from 1"),
    ],
)
def test_wrong_usage(run: Callable[..., Result], command: str, error: str) -> None:
    result = run(*command.split())
    assert (result.code, result.out) == (2, b"")
    assert result.err.startswith("extract-align analyse")
    assert f"error: {error}" in result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(run: Callable[..., Result], command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert result.out.decode().startswith(f"usage: extract-align analyse {command} ")
    assert "\nexamples:\n" in result.out.decode()


def test_tables_of_the_bundled_model(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("mixing", "-q", "-f", "json", TEXT, "--plots", str(tmp_path / "a"))
    found = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert found["signature"].startswith("analysis|mixing|fairseq:de-en@f9bf75b|n:20|seed:1|v:")
    assert {(row["part"], row["category"]) for row in found["categories"]} == {
        (part, kind) for part in ("encoder", "decoder", "cross") for kind in ("rest", ". and ,", "</s>")
    }
    assert len(found["heads"]) == 3 * 3 * 3 * 4
    for part in ("encoder", "decoder", "cross"):
        assert sum(row["norm_share"] for row in found["categories"] if row["part"] == part) == pytest.approx(
            100, abs=0.3
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"a.{part}.points.{kind}" for part in ("encoder", "decoder", "cross") for kind in ("png", "pdf")
    )


def test_one_side_is_enough_for_the_encoder(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a").write_text("das Haus ist alt .\n\nwir sehen das .\nnicht gelesen\n")
    result = run("mixing", "-q", "-f", "tsv", "-s", str(tmp_path / "a"), "--lines", "3")
    assert (result.code, result.err) == (0, "")
    assert b"|n:2|" in result.out
    assert b"decoder" not in result.out


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ("das Haus\n", ("--parts", "cross"), "cross-attention needs a text's other side: give -t"),
        ("\n\n", (), "there is no line that the model can read"),
        ("das \udcff Haus\n", (), "line 1: not UTF-8"),
    ],
)
def test_texts_that_are_not_enough(
    run: Callable[..., Result], tmp_path: Path, text: str, arguments: tuple[str, ...], error: str
) -> None:
    (tmp_path / "a").write_bytes(text.encode("utf-8", "surrogateescape"))
    result = run("mixing", "-q", "-s", str(tmp_path / "a"), *arguments)
    assert (result.code, result.out) == (1, b"")
    assert error in result.err


def test_one_word_has_no_correlations(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello\n\n" + "haus " * 3000 + "\n")
    result = run("mixing", "-f", "json", "-s", str(tmp_path / "a"))
    assert {row["rank"] for row in json.loads(result.out)["dispersion"]} <= {None, -1, 1}
    assert b"NaN" not in result.out
    assert b"|n:1|" in result.out  # of three lines
    assert result.err.endswith("warning: too long for the model, and left out: 1 line\n")


@pytest.mark.parametrize("prefix", ["figures/", "."])
def test_figures_need_the_beginning_of_a_name(run: Callable[..., Result], prefix: str) -> None:
    result = run("mixing", TEXT, "--plots", prefix)
    assert (result.code, result.out) == (2, b"")
    assert f"argument --plots: '{prefix}' is a folder" in result.err


def test_figures_that_cannot_be_written_leave_stdout_empty(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.encoder.points.png").mkdir()
    result = run("mixing", "-q", TEXT, "--parts", "encoder", "--plots", str(tmp_path / "a"))
    assert (result.code, result.out) == (1, b"")
    assert "a.encoder.points.png" in result.err


def test_long_sentences_have_no_maps_to_draw(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a").write_text("haus " * 29 + "haus\n")
    result = run("patterns", "-q", "-s", str(tmp_path / "a"), "--plots", str(tmp_path / "b"))
    assert result.code == 0
    assert b"no map is drawn of texts of more than 25 pieces" in result.out
    assert not list(tmp_path.glob("*.examples.*"))
