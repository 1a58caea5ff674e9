"""`extract-align analyse adversary` and `adversary-translation`: tables of small texts, wrong usage, bad files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands.program import main
from tests import toy
from tests.analysis.test_tagger import TEST, TRAIN
from tests.cli.conftest import Result, failed
from tests.corpora import as_text, word_by_word
from tests.hugging import save_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """Runs the program."""
    return lambda *arguments, **named: run_main(main, *arguments, **named)


def conll(sentences: object) -> str:
    """Sentences as CoNLL-2000 has them."""
    return "\n".join("".join(f"{' '.join(row)}\n" for row in zip(*one, strict=True)) for one in sentences)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("adversary", "the following arguments are required: --train, --test"),
        ("adversary --train a --test b -m de-en", "--model has no effect: taggers are trained here, on the CPU"),
        ("adversary --train a --test b --source-lang de", "--source-lang has no effect"),
        ("adversary --train a --test b --seeds 1,2", "--seeds takes others than --seed"),
        ("adversary --train a --test b --lambdas 1,x", "argument --lambdas: 'x' is not a number from 0 to 1000"),
        (
            "adversary --train a --test b --threshold 2",
            "argument --threshold: '2' is not a number from 0 to 1 or seeds",
        ),
        ("adversary --train - --test -", "only one of the files can be stdin"),
        ("adversary-translation -s a -t b -g c", "arguments are required: --tune-source, --tune-target"),
        ("adversary-translation --tune-source a --tune-target b -s a -t b", "arguments are required: -g/--gold"),
    ],
)
def test_wrong_usage(run: Callable[..., Result], command: str, error: str) -> None:
    result = run(*command.split())
    assert (result.code, result.out) == (2, b"")
    assert f"error: {error}" in result.err or error in result.err


def test_tables_of_a_small_text(run: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> None:
    write(train=conll(TRAIN), test=conll(TEST))
    arguments = ("--train", "train", "--test", "test", "--lambdas", "0.5", "--seeds", "2,2", "--epochs", "2")
    result = run("adversary", *arguments, "-f", "json", "--threads", "1", "--plots", str(tmp_path / "plot"))
    found = json.loads(result.out)
    assert result.code == 0
    assert found["signature"].startswith(
        "analysis|adversary|train:train(250)|test:test(60)|lambda:0.5|divergence:js|threshold:seeds|epochs:2|seed:1|seeds:2|v:"
    )
    assert [row["model"] for row in found["models"]] == ["original", "seed 2", "uniform", "adversary 0.5"]
    assert "uniform" in [row["attention"] for row in found["probes"]]
    assert "extract-align analyse: adversary 0.5: F1 " in result.err
    assert {path.name for path in tmp_path.glob("plot.*.png")} == {"plot.curve.png", "plot.ranks.png"}
    again = run("adversary", "-q", *arguments, "-f", "json", "--threads", "1")
    assert (again.code, again.err, again.out) == (0, "", result.out)


def test_help_has_no_option_that_is_refused(run: Callable[..., Result]) -> None:
    said = run("adversary", "--help").out.decode()
    assert "attend elsewhere.\n" in said
    assert "--threads" in said
    assert not {"--model", "--device", "--case"} & set(said.replace(",", " ").split())
    said = run("adversary-translation", "--help").out.decode()
    assert "of its links?\n" in said
    assert "--model" in said


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("train", "a b O\nc d\n", "train, line 2: 2 fields, not 3"),
        ("test", "a b O\nc d NOUN\n", "test, line 2: 'NOUN' is no tag"),
        ("train", "\n\n", "train: no sentence in it"),
    ],
)
def test_files_that_are_no_chunks(
    run: Callable[..., Result], write: Callable[..., None], name: str, text: str, error: str
) -> None:
    write(**{"train": conll(TRAIN[:2]), "test": conll(TEST[:2]), name: text})
    failed(run("adversary", "-q", "--train", "train", "--test", "test"), error)


def test_no_file(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(train=conll(TRAIN[:2]))
    failed(run("adversary", "-q", "--train", "train", "--test", "none"), "none: No such file")


def write_text(write: Callable[..., None]) -> None:
    """A text that is learnt from, and one with gold."""
    pairs = word_by_word(60)
    sides = {side: [getattr(pair, side) for pair in pairs] for side in ("source", "target")}
    gold = "".join(" ".join(f"{n}-{n}" for n in range(len(pair.source))) + "\n" for pair in pairs[:5])
    write(tune_de=as_text(sides["source"]), tune_en=as_text(sides["target"]))
    write(de=as_text(sides["source"][:5]), en=as_text(sides["target"][:5]), gold=gold)


FILES = ("--tune-source", "tune_de", "--tune-target", "tune_en", "-s", "de", "-t", "en", "-g", "gold")


def test_translation(run: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> None:
    write_text(write)
    toy.save_model(tmp_path / "toy")
    arguments = ("-q", "-f", "json", "-m", str(tmp_path / "toy" / "checkpoint.pt"), "--pairs", "40", "--held-out", "10")
    result = run(
        "adversary-translation",
        *FILES,
        *arguments,
        "--updates",
        "3",
        "--lambdas",
        "1",
        "--move",
        "norm",
        "--threads",
        "1",
    )
    found = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert (
        "|tuned:tune_de(40)|held-out:10|text:de|n:5|gold:pharaoh-0|lambda:1|divergence:js|move:norm|"
        in found["signature"]
    )
    assert [row["model"] for row in found["models"]] == ["original", "adversary 1"]
    assert len(found["layers"]) == 4


def test_translation_of_too_little(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write_text(write)
    failed(run("adversary-translation", "-q", *FILES, "--pairs", "60"), "tune_de: 60 lines: none is left to measure on")
    write(blank="\n" * 60)
    blank = ("--tune-source", "tune_de", "--tune-target", "blank", *FILES[4:], "--pairs", "50")
    failed(run("adversary-translation", "-q", *blank), "tune_de and blank: there is no pair that the model can read: ")
    write(gold="\n" * 5)
    failed(run("adversary-translation", "-q", *FILES, "--pairs", "50"), "gold: no sentence has a link")
    write(en="the house\n")
    failed(run("adversary-translation", "-q", *FILES, "--pairs", "50"), "de has 5 lines, en has 1")


def test_translation_by_other_models(run: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> None:
    write_text(write)
    save_model("marian", tmp_path / "hf")
    result = run("adversary-translation", "-q", *FILES, "--pairs", "50", "-m", str(tmp_path / "hf"))
    failed(result, "only models of fairseq can be trained here")
