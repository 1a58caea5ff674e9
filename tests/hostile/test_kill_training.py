"""A stop and one kill of `tests.hostile.kill_training`; the program itself does many kills at random moments."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from align import load
from align.cli.train import main
from tests.cli.conftest import Result, run_main
from tests.cli.test_current_folder import ALL, plant
from tests.conftest import example_pairs
from tests.hostile.kill_training import ARGUMENTS, attack, finish, kill, model_of, start, write_text

__all__ = ["run_main"]

UPDATES = 40
FILES = {"README.md", "checkpoint.pt", "model.toml", "training.tsv", "de.spm", "en.spm", "dict.de.txt", "dict.en.txt"}


def said(folder: Path) -> str:
    """Read all that the program has written to stderr so far."""
    path = folder / "said"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_a_training_that_is_stopped_and_whose_parent_is_killed_ends_as_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_main: Callable[..., Result]
) -> None:
    write_text(tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    plant(whole, ALL)  # modules in the current folder, which no process of a training may run
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    finish(whole, "average", UPDATES)
    assert not (whole / "RAN").exists()
    model = whole / "model"
    assert {path.name for path in model.iterdir()} == FILES | {"work", ".lock"}
    curve = (model / "training.tsv").read_text(encoding="utf-8").split("\n")
    validated = [row.split("\t")[0] for row in curve[1:-1]]
    assert {"3", "6", "39", "40"} <= set(validated)
    assert validated == sorted(set(validated), key=int)
    card = (model / "README.md").read_text(encoding="utf-8")
    for expected in ("seen before | 1 |", "a side is empty | 1 |", "has no piece, or 200 and more | 1 |", "40 updates"):
        assert expected in card
    pairs = example_pairs()
    aligner = load(str(model), device="cpu")
    assert len(list(aligner(pairs))) == len(pairs)
    assert aligner.forward.recorder.name.startswith("fairseq:de-en@")

    ignore = shutil.ignore_patterns("seed*")  # prepared already: stop and kill are for the training
    shutil.copytree(model / "work", killed / "model" / "work", ignore=ignore)
    process = start(killed, "average", UPDATES)
    while not said(killed).count("validation"):
        assert process.poll() is None
        time.sleep(0.01)
    kill(process, "group", signal.SIGINT)
    assert process.wait(60) == 130
    assert said(killed).endswith("extract-align train: interrupted; the same command goes on\n")
    assert "cleaning" not in said(killed)
    assert {path.name for path in (killed / "model").iterdir()} == {"work", ".lock"}

    before = said(killed).count("validation")
    result = attack(
        killed, model_of(whole), "average", "parent", UPDATES, lambda: said(killed).count("validation") > before
    )
    assert result is not None
    assert result.during.startswith("update ")
    assert result.differing == []
    assert result.gone < 30  # or else fairseq trained on by itself
    assert "going on from" in said(killed)
    log = (killed / "model" / "work" / "seed1" / "log").read_text(encoding="utf-8")
    assert log.count("done training") == 1

    rows = (killed / "model" / "training.tsv").read_bytes()
    monkeypatch.chdir(killed)
    repeated = run_main(main, *ARGUMENTS)
    assert repeated.code == 0, repeated.err
    assert "update" not in repeated.err  # it is trained already
    assert (killed / "model" / "training.tsv").read_bytes() == rows
