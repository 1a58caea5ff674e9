"""`extract-align analyse layers`: its tables, its file of examples, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands.program import main
from tests.cli.conftest import Result
from tests.hugging_encoders import save_encoder

pytest.importorskip("transformers")

WORDS = (("the", "DET", 2, "det"), ("old", "ADJ", 3, "amod"), ("house", "NOUN", 0, "root"), (".", "PUNCT", 3, "punct"))
CHUNKS = "the DT B-NP\nold JJ I-NP\nhouse NN I-NP\n. . O\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, a treebank and chunks, all tiny; the last sentence is too long for the encoder."""
    folder = tmp_path_factory.mktemp("layers")
    save_encoder(folder / "bert")
    sentence = "".join(
        f"{n}\t{word}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n"
        for n, (word, tag, head, relation) in enumerate(WORDS, 1)
    )
    long = "".join(f"{n}\thouse\t_\tNOUN\t_\t_\t{n - 1}\t{'dep' if n > 1 else 'root'}\t_\t_\n" for n in range(1, 60))
    (folder / "trees.conllu").write_text(f"# made\n{sentence}\n" * 4 + f"{long}\n")
    (folder / "train.txt").write_text(CHUNKS * 3)
    (folder / "test.txt").write_text(CHUNKS)
    return folder


def command(folder: Path, *more: str) -> list[str]:
    arguments = ["layers", "-m", str(folder / "bert"), "--threads", "1", "--epochs", "2", "--hidden", "4", *more]
    return [str(folder / word[1:]) if word.startswith("@") else word for word in arguments]


ALL = ("--treebank", "@trees.conllu", "--parts", "2", "--train", "@train.txt", "--test", "@test.txt")


def test_tables_and_examples(folder: Path, run_main: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    result = run_main(main, *command(folder, *ALL, "-f", "json", "--examples", str(file)))
    assert result.code == 0, result.err
    assert result.err.endswith("extract-align analyse: chunks: part 1 of 1 told, by 4 probes\n")
    found = json.loads(result.out)
    sign = "|data:trees.conllu+train.txt+test.txt|n:9|parts:2|hidden:4|epochs:2|seed:1|v:"
    assert found["signature"].startswith("analysis|layers|huggingface:bert@")
    assert sign in found["signature"]
    tasks = {row["task"]: (row["measure"], row["examples"], row["labels"]) for row in found["tasks"]}
    assert tasks == {
        "parts of speech": ("accuracy, %", 16, 4),
        "dependencies": ("accuracy, %", 12, 3),
        "chunks": ("F1, %", 4, 3),
    }
    assert [(row["task"], row["layer"]) for row in found["layers"]] == [(task, n) for task in tasks for n in range(4)]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [sum(line["task"] == task for line in lines) for task in tasks] == [16, 12, 4]
    assert [line["words"] for line in lines if line["task"] == "dependencies"][:2] == [["the", "old"], ["old", "house"]]
    assert {line["sentence"] for line in lines if line["task"] == "chunks"} == {4}

    again = run_main(main, *command(folder, *ALL, "-f", "json", "-q"))
    assert (again.code, again.out, again.err) == (0, result.out, "")


def test_one_file_is_enough(folder: Path, run_main: Callable[..., Result], tmp_path: Path) -> None:
    result = run_main(main, *command(folder, *ALL[4:], "-q", "--lines", "1", "--plots", str(tmp_path / "a")))
    assert (result.code, result.err) == (0, "")
    text = result.out.decode()
    assert text.startswith("task    measure  layer 0  all layers  expected layer ")
    assert "|data:train.txt+test.txt|n:2|" in text
    assert {path.name for path in tmp_path.iterdir()} == {
        f"a.{name}.{end}" for name in ("weights", "gains") for end in ("png", "pdf")
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "give --treebank, or --train and --test, or all of them"),
        ("--train @train.txt", "--train and --test go together"),
        ("--treebank - --train - --test @test.txt", "only one of the files can be stdin"),
        ("--treebank @trees.conllu --parts 1", "'1' is not a number from 2"),
        ("--train @train.txt --test @test.txt --parts 2", "--parts has no effect without --treebank"),
        ("--treebank @trees.conllu --examples -", "--examples needs the name of a file: stdout gets the tables"),
        ("--treebank @trees.conllu --examples @trees.conllu", "--examples would replace the input "),
        ("--treebank @trees.conllu --seed 4294967296", "'4294967296' is not a number from 0 to 4,294,967,295"),
    ],
)
def test_wrong_usage(folder: Path, run_main: Callable[..., Result], arguments: str, error: str) -> None:
    result = run_main(main, *command(folder, *arguments.split()))
    assert (result.code, result.out) == (2, b"")
    assert error in result.err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("--treebank @none", "none: No such file"),
        ("--treebank @train.txt", "train.txt, line 1: 1 columns between TABs, where CoNLL-U has 10"),
        ("--train @trees.conllu --test @test.txt", "trees.conllu, line 1: 2 fields, not 3"),
        ("--treebank @trees.conllu --lines 1", "trees.conllu: 5 parts need 5 sentences: the model can read 1\n"),
        ("--treebank @trees.conllu --lines 3", "5 sentences: the model can read 3: lower --parts"),
    ],
)
def test_bad_data(folder: Path, run_main: Callable[..., Result], arguments: str, error: str) -> None:
    result = run_main(main, *command(folder, *arguments.split()))
    assert (result.code, result.out) == (1, b"")
    assert error in result.err
    assert "Traceback" not in result.err
