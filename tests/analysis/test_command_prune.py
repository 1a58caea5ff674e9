"""`extract-align analyse prune` from the outside, and what other programs make of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands import program
from align.cli import extract, sweep
from tests import hugging, toy
from tests.analysis.keyphrase_files import made_documents, write_documents
from tests.analysis.test_command_ablate import SOURCE, TARGET
from tests.cli.conftest import Result, failed

PRUNED = "small: heads have been pruned from this model: questions about attention need all of them"


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> Callable[..., Result]:
    """The command on a toy model, and of other programs what follows."""
    write(source=SOURCE, target=TARGET)
    toy.save_model(tmp_path / "toy")

    def call(*arguments: object, main: Callable[[], int] = program.main) -> Result:
        first = ("prune", "-m", "toy") if main is program.main else ()
        return run_main(main, *first, "-q", "-s", "source", "-t", "target", *arguments)

    return call


@pytest.mark.parametrize("order", ["importance", "effect"])
def test_a_smaller_model_that_is_read(order: str, run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("--heads", 18, "-o", "new/small", "--order", order)
    assert (result.code, result.err) == (0, "")
    lines = result.out.decode().split("\n")
    assert [line.split()[:2] for line in lines[2:4]] == [["whole", "24"], ["pruned", "6"]]
    assert sorted(path.name for path in (tmp_path / "new" / "small").iterdir()) == [
        "checkpoint.pt", "dict.de.txt", "dict.en.txt", "model.toml",
    ]  # fmt: skip
    assert f"|n:3|order:{order}|pruned:fairseq:de-en@" in lines[-2]
    links = run("-m", "new/small", main=extract.main)
    assert (links.code, links.out.count(b"\n")) == (0, 3)
    assert run("-m", "new/small", main=sweep.main).code == 0


def test_commands_that_need_a_model_whole(
    run: Callable[..., Result], run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path
) -> None:
    assert run("--heads", 2, "-o", "small").code == 0
    again = run_main(
        program.main, "ablate", "-q", "-m", "small", "-s", "source", "-t", "target", "--bleu-lines", 0, "--lines", 1
    )
    failed(again, PRUNED)
    again = run_main(
        program.main, "prune", "-q", "-m", "small", "-s", "source", "-t", "target", "--heads", 1, "-o", "smaller"
    )
    failed(again, PRUNED)
    names = ("--tune-source", "source", "--tune-target", "target", "-s", "source", "-t", "target", "-g", "gold")
    write(gold="0-0\n0-0\n\n")
    again = run_main(program.main, "adversary-translation", "-q", "-m", "small", *names, "--pairs", 1)
    failed(again, PRUNED)
    write_documents(tmp_path / "texts.jsonl", made_documents())
    again = run_main(program.main, "keywords", "-q", "-m", "small", "--keyphrases", "texts.jsonl")
    failed(again, PRUNED)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required"),
        (("--heads", "1", "-o", "x", "--parts", "cross"), "--parts has no effect here"),
        (("--heads", "1", "-o", "x", "--plots", "p"), "--plots has no effect here"),
        (("--heads", "0", "-o", "x"), "'0' is not a number from 1"),
    ],
)
def test_wrong_usage(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert message in result.err


def test_more_heads_than_can_go(run: Callable[..., Result], tmp_path: Path) -> None:
    failed(run("--heads", 19, "-o", "x"), "19 heads cannot go: the model can spare 18, for each layer keeps one")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_there(run: Callable[..., Result]) -> None:
    failed(run("--heads", 1, "-o", "toy"), "toy: there is such a file or folder: name a new one")


def test_a_hugging_face_model(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> None:
    write(source=SOURCE, target=TARGET)
    hugging.save_model("marian", tmp_path / "marian")
    result = run_main(
        program.main, "prune", "-q", "-m", "marian", "-s", "source", "-t", "target", "--heads", 1, "-o", "x"
    )
    failed(result, "heads can be taken out of fairseq models only")
