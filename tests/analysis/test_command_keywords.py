"""`extract-align analyse keywords`: tables of a toy model, wrong usage, files that are something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands.program import main
from tests import toy
from tests.analysis.keyphrase_files import made_documents, write_documents
from tests.cli.conftest import Result, failed


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A toy model, and a file of texts."""
    return toy.save_model(tmp_path / "toy"), write_documents(tmp_path / "texts.jsonl", made_documents())


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("", "the following arguments are required: --keyphrases"),
        ("--keyphrases a --epochs 0 --rate 0.1", "--rate has no effect without epochs"),
        ("--keyphrases a --epochs 0 --orders 5", "--orders has no effect without epochs"),
        ("--keyphrases a --epochs 0 --samples 0 --seed 5", "--seed has no effect without epochs and samples"),
        (f"--keyphrases a --seed {'9' * 5000}", f"--seed: '{'9' * 39}…' is not a number from 0 to 4,294,967,295"),
        ("--keyphrases a --rate 0", "argument --rate: '0' is not a number above 0, and at most 1"),
        ("--keyphrases a --rate nan", "argument --rate: 'nan' is not a number above 0"),
        ("--keyphrases a --documents 0", "argument --documents: '0' is not a number from 1"),
    ],
)
def test_wrong_usage(run_main: Callable[..., Result], command: str, error: str) -> None:
    result = run_main(main, "keywords", *command.split())
    assert (result.code, result.out) == (2, b"")
    assert error in result.err.partition("error: ")[2]


def test_tables_without_fine_tuning(run_main: Callable[..., Result], files: tuple[Path, Path]) -> None:
    result = run_main(
        main, "keywords", "-q", "-m", files[0], "--keyphrases", files[1], "--epochs", "0", "--documents", "3"
    )
    assert (result.code, result.err) == (0, "")
    data, heads, found = result.out.decode().split("\n\n")
    assert data.splitlines() == [
        "part   documents  sentences  words  unread  key words, %  phrases  found, %",
        "-----  ---------  ---------  -----  ------  ------------  -------  --------",
        "train          3          9     90       0          30.0       12      75.0",
        "dev            3          9     90       0          30.0       12      75.0",
        "test           3          9     90       0          30.0       12      75.0",
        "found: phrases whose words are adjacent in a sentence, in any case",
    ]
    assert len(heads.splitlines()) == 2 + 8 + 2
    assert max(map(len, heads.splitlines()[:-2])) <= 80
    gold = "gold words              100.0  100.0  100.0  100.0–100.0     69.2"  # key words that touch are one run
    assert found.splitlines()[2].startswith(gold)
    sign = found.splitlines()[-1]
    assert sign.startswith("analysis|keywords|fairseq:")
    assert "|data:texts.jsonl|train:3|dev:3|test:3|epochs:0|samples:1000|seed:1|v:" in sign


def test_tables_and_figures_with_fine_tuning(
    run_main: Callable[..., Result], files: tuple[Path, Path], tmp_path: Path
) -> None:
    arguments = ("--epochs", "2", "--orders", "1", "--samples", "10", "-f", "json", "--plots", tmp_path / "out" / "a")
    result = run_main(main, "keywords", "-q", "-m", files[0], "--keyphrases", files[1], *arguments)
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert list(found) == ["signature", "data", "heads", "found", "tuning", "ablation"]
    assert "|epochs:2|rate:0.0003|orders:1|samples:10|seed:1|v:" in found["signature"]
    assert [row["by"] for row in found["found"]][-1] == "fine-tuned"
    assert [row["epoch"] for row in found["tuning"]] == [1, 2]
    assert [row["removed"] for row in found["ablation"]] == [0, 1, 3, 4, 5, 7, 8]
    assert found["ablation"][0]["worst"] == found["found"][-1]["f1"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.ablation.pdf", "a.ablation.png", "a.heads.pdf", "a.heads.png",
    ]  # fmt: skip


def test_files_that_are_something_else(run_main: Callable[..., Result], files: tuple[Path, Path]) -> None:
    model, texts = files
    texts.write_text(texts.read_text() + '{"split": "tra')
    failed(run_main(main, "keywords", "-m", model, "--keyphrases", texts), "texts.jsonl, line 13: not JSON")
    for document in ({"sentences": [["a\ud800b", "house"]]}, {"keyphrases": ["a\udc00"]}):
        write_documents(texts, [*made_documents(each=1), {**made_documents(each=1)[0], **document}])
        said = "texts.jsonl, line 4: half a character, \\ud800 to \\udfff without its other half: 'a\\ud"
        failed(run_main(main, "keywords", "-m", model, "--keyphrases", texts), said)
    texts.write_bytes(b"\xff\n")
    failed(run_main(main, "keywords", "-m", model, "--keyphrases", texts), "texts.jsonl, line 1: not UTF-8")
    texts.write_text("")
    failed(run_main(main, "keywords", "-m", model, "--keyphrases", texts), "no document has the \"split\" 'train'")
    failed(run_main(main, "keywords", "-m", model, "--keyphrases", texts.with_name("none")), "No such file")
    documents = [{**document, "keyphrases": []} for document in made_documents(each=1)]
    write_documents(texts, documents)
    failed(
        run_main(main, "keywords", "-m", model, "--keyphrases", texts),
        "texts.jsonl: a part of the data has no sentence with key words",
    )
