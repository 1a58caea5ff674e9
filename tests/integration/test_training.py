"""Training's parts: texts prepared, logs read along, checkpoints averaged and made small."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from align.models.fairseq.checkpoint import load_checkpoint
from align.training.export import average, export, select
from align.training.follow import TrainingError, lines_of
from align.training.prepare import Bitext, prepare
from align.training.recipe import CheckpointRecipe, TextRecipe, read_recipe
from align.training.run import last_whole_checkpoint, read_curve
from tests.corpora import pair_files
from tests.toy import save_model

LOG = b'2026-01-01 | INFO | train_inner | {"epoch": 1, "loss": "10", "wps": "1", "num_updates": "100"}\n'


def saved_run(folder: Path, *updates: int) -> list[Path]:
    """A run with checkpoints whose weights are the toy's times a factor of their own."""
    paths = []
    for factor, number in enumerate(updates, 1):
        path = save_model(folder / f"made{number}")
        state = torch.load(path, weights_only=False)
        state["model"] = {name: weight * factor for name, weight in state["model"].items()}
        state["cfg"]["task"] = {**state["cfg"].get("task", {}), "data": "/home/me", "cpu_bf16": True}
        state["cfg"]["criterion"] = {"_name": "blockwise_label_smoothed_cross_entropy"}
        state["cfg"]["model"].cpu_bf16 = True
        state["cfg"]["model"].data = "/home/me"
        state["optimizer_history"] = [{"num_updates": number}]
        state["last_optimizer_state"] = {"huge": torch.zeros(10)}
        paths.append(folder / f"checkpoint_1_{number}.pt")
        torch.save(state, paths[-1])
    return paths


def test_the_last_checkpoints_are_averaged(tmp_path: Path) -> None:
    saved_run(tmp_path, 500, 1000, 9500, 10000)
    found = select(tmp_path, CheckpointRecipe("average", 3))
    assert [path.name for path in found] == ["checkpoint_1_1000.pt", "checkpoint_1_9500.pt", "checkpoint_1_10000.pt"]
    mean = average(found)["model"]
    for name, weight in load_checkpoint(tmp_path / "checkpoint_1_500.pt")["model"].items():
        if weight.numel() > 1:  # the others are fairseq's, and mean nothing
            torch.testing.assert_close(mean[name], weight * 3)


def test_what_is_exported_is_small_plain_and_without_paths(tmp_path: Path) -> None:
    saved_run(tmp_path, 500)
    assert export(tmp_path, CheckpointRecipe("average"), tmp_path / "out.pt") == [tmp_path / "checkpoint_1_500.pt"]
    state = load_checkpoint(tmp_path / "out.pt")
    assert {weight.dtype for weight in state["model"].values()} == {torch.float16}
    assert not any("in_proj" in name for name in state["model"])
    assert state["last_optimizer_state"] is None
    assert state["cfg"]["model"].arch == state["cfg"]["model"]._name == "transformer"
    assert (state["cfg"]["task"]["_name"], state["cfg"]["task"]["data"]) == ("translation", ".")
    assert state["cfg"]["criterion"]["_name"] == "label_smoothed_cross_entropy"
    assert "/home/me" not in repr(state["cfg"])
    assert "cpu_bf16" not in repr(state["cfg"])
    assert not list(tmp_path.glob(".*.part"))


def test_a_log_is_followed_and_a_line_cut_by_a_kill_damages_no_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(LOG + b'2026-01-01 | INFO | valid | {"epoch": 1, "valid_n\xc3')
    with lines_of("preprocess", ["--help"], 1, log) as lines:
        said = list(lines)
    assert said[0].startswith("usage: ")
    assert len(read_curve(log)) == 1
    with (
        pytest.raises(TrainingError, match=r"exit code 2.*its whole output is in .*log"),
        lines_of("x", [], 1, log) as _,
    ):
        pass


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\n\n", "\ny\n", "no pairs left to train on; 2 left out: a side is empty"),
        ("a b c\nd e f\n", "x y z\nu v w\n", "cannot learn 4,000 pieces of de: .*[Vv]ocab"),
        ("a\n", "x\ny\n", "has 1 line, .* has 2: line 2 has"),
    ],
)
def test_text_that_cannot_be_trained_on_is_refused(tmp_path: Path, source: str, target: str, message: str) -> None:
    (tmp_path / "valid").mkdir()
    valid = pair_files(tmp_path / "valid", "g h\n", "r s\n")
    bitext = Bitext(("de", "en"), pair_files(tmp_path, source, target), valid)
    with pytest.raises(ValueError, match=message):
        prepare(bitext, read_recipe(), tmp_path / "w", print)


def test_a_last_checkpoint_that_was_cut_short_is_put_right(tmp_path: Path) -> None:
    (older, newer) = saved_run(tmp_path, 500, 1000)
    os.utime(older, (1, 1))
    last = tmp_path / "checkpoint_last.pt"
    assert last_whole_checkpoint(tmp_path) is None
    last.write_bytes(newer.read_bytes())
    assert last_whole_checkpoint(tmp_path) == last
    last.write_bytes(newer.read_bytes()[:-100])
    assert last_whole_checkpoint(tmp_path) == newer
    assert last.read_bytes() == newer.read_bytes()
    for path in (last, older, newer):
        path.write_bytes(b"cut")
    assert last_whole_checkpoint(tmp_path) is None
    assert not last.exists()


def test_text_that_is_the_same_elsewhere_is_not_prepared_again(tmp_path: Path) -> None:
    recipe = replace(read_recipe(), text=TextRecipe(vocabulary=40, min_count=1))
    bitexts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files = pair_files(tmp_path / name, "das haus ist alt\nder hund\n", "the house is old\nthe dog\n")
        bitexts.append(Bitext(("de", "en"), files, pair_files(tmp_path, "ein haus\n\n", "a house\n\n")))
    said: list[str] = []
    first = prepare(bitexts[0], recipe, tmp_path / "work", said.append)
    assert (first.train, first.valid, len(said)) == (2, 1, 5)
    (tmp_path / "work.preparing").mkdir()  # as a kill leaves it
    assert prepare(bitexts[1], recipe, tmp_path / "work", said.append) == first
    assert len(said) == 5
    bitexts[0].train[0].write_text("das haus ist neu\nder hund\n", encoding="utf-8")
    with pytest.raises(ValueError, match="work: was prepared from another text, recipe or model; name another folder"):
        prepare(bitexts[0], recipe, tmp_path / "work", said.append)
