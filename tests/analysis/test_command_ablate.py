"""`extract-align analyse ablate` from the outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import align
from align.analysis.commands import program
from align.evaluation.tables import WIDTH
from tests import hugging, toy
from tests.cli.conftest import Result, failed

SOURCE, TARGET = "das haus ist alt\nwir sehen\n\n", "the house is old\nwe see it\n\n"
GOLD = "0-0 1-1 2p2 3-3\n0-0 1-1\n\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.save_trained_model(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None], model: Path) -> Callable[..., Result]:
    def call(*arguments: object) -> Result:
        write(source=SOURCE, target=TARGET, gold=GOLD)
        return run_main(program.main, "ablate", "-m", model, "-s", "source", *arguments)

    return call


def test_all_tables(run: Callable[..., Result]) -> None:
    result = run("-t", "target", "-g", "gold", "--bleu-lines", 2, "--beam", 1, "--samples", 20, "-f", "json", "-q")
    assert (result.code, result.err) == (0, "")
    found: dict[str, Any] = json.loads(result.out)
    assert list(found) == ["signature", "model", "heads", "layers", "pruning", "agreement"]
    (row,) = found["model"]
    assert (row["sentences"], row["pieces"]) == (2, 9)
    assert [(row["part"], row["head"]) for row in found["heads"]] == [
        (part, n) for part in ("encoder", "decoder", "cross") for n in range(1, 5)
    ]
    assert len(found["pruning"]) == 2 * 9 + 3 * 3
    said = f"|text:source+target|n:3|gold:talp-0|bleu:2-beam1|ci:percentile-20|seed:12345|v:{align.__version__}"
    assert found["signature"].endswith(said)


def test_the_same_again_to_the_last_byte(run: Callable[..., Result]) -> None:
    arguments = ("-t", "target", "-g", "gold", "--bleu-lines", 1, "--samples", 10, "--parts", "cross", "-q", "--wide")
    assert run(*arguments) == run(*arguments)


def test_tables_fit_a_terminal(run: Callable[..., Result]) -> None:
    result = run("-t", "target", "-g", "gold", "--bleu-lines", 1, "--samples", 10, "-q")
    tables = [table.split("\n") for table in result.out.decode().split("\n\n")]
    assert max(len(line) for table in tables for line in table[: table.index(next(filter(is_note, table)))]) <= WIDTH


def is_note(line: str) -> bool:
    return "; " in line or ": " in line


def test_text_of_a_part(run: Callable[..., Result]) -> None:
    result = run("-t", "target", "--bleu-lines", 0, "--samples", 0, "--parts", "cross", "--lines", 1)
    assert result.code == 0
    tables = [table.split("\n") for table in result.out.decode().rstrip("\n").split("\n\n")]
    assert [table[0].split()[0] for table in tables] == ["sentences", "part", "part", "part"]
    assert [len(table) for table in tables[1:3]] == [2 + 4 + 1, 2 + 1 + 1]
    assert tables[1][2].startswith("cross      1     1 ")


def test_figures(run: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("-t", "target", "--bleu-lines", 0, "--samples", 0, "--parts", "cross", "--plots", "new/ablate", "-q")
    assert result.code == 0
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["ablate.heads.pdf", "ablate.heads.png", "ablate.loss.pdf", "ablate.loss.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-t", "target", "--gold-base", "1"), "--gold-base requires -g"),
        (("-t", "target", "--bleu-lines", "0", "--beam", "2"), "--beam has no effect without sentences to translate"),
        (("-t", "target", "--samples", "0", "--seed", "4"), "--seed has no effect without samples"),
        (("-t", "target", "--parts", "middle"), "'middle' is not one of encoder, decoder, cross"),
        (("-t", "target", "--samples", "x"), "'x' is not a number from 0"),
    ],
)
def test_wrong_usage(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert message in result.err


def test_a_text_of_one_side(run: Callable[..., Result]) -> None:
    failed(run("-q"), "a loss needs a text's other side: give -t")


def test_gold_of_another_text(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(other="0-0\n")
    failed(run("-t", "target", "-g", "other", "-q"), "other has 1 sentence pair, the text 3")


def test_nothing_that_the_model_can_read(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(blank="\n\n\n")
    failed(run("-t", "blank", "-q"), "source and blank: there is no line that the model can read")


def test_a_hugging_face_model(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> None:
    write(source=SOURCE, target=TARGET)
    hugging.save_model("t5", tmp_path / "t5")
    arguments = ("-s", "source", "-t", "target", "--samples", 10, "--bleu-lines", 1, "--parts", "cross")
    result = run_main(program.main, "ablate", "-q", "-m", "t5", *arguments)
    assert result.code == 0
    assert result.out.decode().count("\ncross ") == 12 + 3 + 2
