"""`extract-align analyse train-bert` from text to a model: stopped and resumed, and refusing what makes no sense."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from align.analysis.commands.program import main
from tests.cli.conftest import Result
from tests.conftest import example_pairs

TINY = ("--layers", "1", "--heads", "2", "--width", "8", "--pieces", "200", "--longest", "32", "--tokens", "64")
MORE = ("--valid", "5", "--every", "2", "--threads", "1", "--device", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The English side of the examples, with an empty line."""
    lines = [" ".join(pair.target) for pair in example_pairs()]
    (tmp_path / "text.en").write_text("".join(line + "\n" for line in [*lines, ""]), encoding="utf-8")
    return tmp_path


def arguments(folder: Path, updates: int) -> list[str]:
    return ["train-bert", str(folder / "model"), str(folder / "text.en"), *TINY, *MORE, "--updates", str(updates)]


def start(folder: Path, updates: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "align", "analyse", *arguments(folder, updates)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def test_a_stopped_training_goes_on_and_ends_as_a_model(folder: Path, run_main: object) -> None:
    process = start(folder, 30)
    assert process.stderr is not None
    for line in process.stderr:
        if "update 2 of 30" in line:
            process.send_signal(signal.SIGTERM)
            break
    assert "stopped; the same command goes on" in process.stderr.read()
    assert process.wait() == 128 + signal.SIGTERM
    model = folder / "model"
    assert not (model / "model.safetensors").exists()

    result: Result = run_main(main, *arguments(folder, 30))  # type: ignore[operator]
    assert result.code == 0, result.err
    assert "learning pieces" not in result.err
    assert "going on from update " in result.err
    files = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "training.tsv"}
    assert {path.name for path in model.iterdir()} == files | {"work"}
    rows = (model / "training.tsv").read_text(encoding="utf-8").splitlines()
    assert [row.split("\t")[0] for row in rows] == ["updates", *map(str, range(2, 31, 2))]
    resumed = (model / "model.safetensors").read_bytes()

    model.rename(folder / "stopped")  # the text in pieces stays
    shutil.copytree(folder / "stopped" / "work", model / "work", ignore=shutil.ignore_patterns("checkpoint.pt"))
    whole: Result = run_main(main, *arguments(folder, 30))  # type: ignore[operator]
    assert whole.code == 0, whole.err
    assert (model / "model.safetensors").read_bytes() == resumed  # as if it had never been stopped

    from transformers import AutoTokenizer, BertForPreTraining

    from align.analysis.models.encoder import load_model

    tokenizer = AutoTokenizer.from_pretrained(model)
    pieces = tokenizer("the house", "is old")
    assert tokenizer.convert_ids_to_tokens(pieces.input_ids)[0] == "[CLS]"
    assert tokenizer.convert_ids_to_tokens(pieces.input_ids).count("[SEP]") == 2
    weights = BertForPreTraining.from_pretrained(model).bert.state_dict()
    own = load_model(model)[0].state_dict()
    assert all(np.array_equal(weight, weights[name]) for name, weight in own.items())

    other: Result = run_main(main, *arguments(folder, 32))  # type: ignore[operator]
    assert other.code == 1
    assert "begun with another text or other settings; name another folder" in other.err
