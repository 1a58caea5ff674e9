"""What is read from a log of training, whether a run is finished, and what fairseq is told of the machine."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from align.training.recipe import read_recipe
from align.training.run import Machine, is_finished, read_curve, read_point, shorten_recipe, write_curve

LOG = """2026-01-01 00:00:00 | INFO | fairseq_cli.train | Namespace(...)
2026-01-01 00:00:01 | INFO | train_inner | {"epoch": 1, "loss": "10", "wps": "1,234.5", "num_updates": "100"}
2026-01-01 00:00:02 | INFO | valid | {"epoch": 1, "valid_nll_loss": "2", "valid_num_updates": "100"}
2026-01-01 00:00:03 | INFO | train_inner | {"epoch": 1, "loss": "9", "wps": "1000", "num_updates": "200"}
2026-01-01 00:00:03 | INFO | train_inner | {"epoch": 1, "loss": "8", "wps": "1000", "num_updates": "200"}
"""


def test_a_curve_is_in_nats_and_counts_what_was_done_again_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG, encoding="utf-8")
    points = read_curve(log)
    assert [(point.updates, point.loss is None) for point in points] == [(100, False), (100, True), (200, False)]
    assert points[0].loss == pytest.approx(6.931472)
    assert points[1].valid == pytest.approx(1.386294)
    assert points[2].loss == pytest.approx(5.545177)
    write_curve(points, tmp_path / "curve.tsv")
    rows = (tmp_path / "curve.tsv").read_text(encoding="utf-8").split("\n")
    assert rows[1:3] == ["100\t6.9315\t\t1234", "100\t\t1.3863\t"]
    assert read_point("no json | train_inner | {") is None
    assert read_point(LOG.split("\n")[0]) is None


@pytest.mark.parametrize(
    ("options", "updates", "hours", "finished"),
    [
        ({"max-update": 300}, 299, 0, False),
        ({"max-update": 300}, 300, 0, True),
        ({"max-epoch": 3}, 300, 99, False),  # fairseq looks at these before it begins
        ({"stop-time-hours": 1.5, "max-update": 500}, 300, 1.6, True),
    ],
)
def test_the_checkpoint_says_whether_its_run_is_finished(
    options: dict[str, object], updates: int, hours: float, finished: bool
) -> None:
    recipe = replace(read_recipe(), fairseq=options)
    state = {
        "optimizer_history": [{"num_updates": 7}, {"num_updates": updates}],
        "extra_state": {"previous_training_time": hours * 3600},
    }
    assert is_finished(state, recipe) is finished


@pytest.mark.parametrize("supported", [True, False])
def test_a_cpu_is_told_so_and_bfloat16_is_for_training_only(supported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.ops.mkldnn._is_mkldnn_bf16_supported", lambda: supported)
    assert Machine("cpu", 2).flags(training=True) == ["--cpu", *(["--cpu-bf16"] if supported else [])]
    assert Machine("cpu", 2).flags() == ["--cpu"]
    assert Machine("cuda", 2).flags() == []


def test_the_time_and_the_machine_say_how_many_updates_there_are() -> None:
    recipe = replace(read_recipe(), fairseq={"max-update": 3001}, minutes=100)

    def updates(minutes: int, device: str = "cpu", threads: int = 2) -> object:
        return shorten_recipe(recipe, minutes, Machine(device, threads)).fairseq["max-update"]

    # nine tenths of the time but for a minute: the model is scored in the rest
    assert [updates(minutes) for minutes in (113, 112, 57, 9, 3)] == [3001, 1501, 1501, 188, 47]
    assert [updates(29, threads=threads) for threads in (1, 8, 64)] == [376, 3001, 3001]
    assert updates(7, "cuda") == 3001
    shortest = "the shortest training by recipe small takes 3 min here, scoring included"
    with pytest.raises(ValueError, match=f"--minutes 2 is too short: {shortest}"):
        updates(2)


@pytest.mark.parametrize("recipe", ["small", "further", "new-language"])
def test_a_schedule_ends_with_the_updates(recipe: str) -> None:
    whole = read_recipe(recipe)
    assert whole.minutes > 0
    minutes = math.ceil((whole.minutes / 16 + 1) / 0.9)
    short = shorten_recipe(whole, minutes, Machine("cpu", 2))
    assert short.data == replace(whole.data, valid_lines=100)
    options = short.fairseq
    updates = math.ceil(whole.fairseq["max-update"] / 16)
    share = updates / whole.fairseq["max-update"]
    assert options["max-update"] == options["total-num-update"] == updates
    assert options["warmup-updates"] == round(whole.fairseq["warmup-updates"] * share) > 0
    assert options["stop-time-hours"] == pytest.approx((0.9 * minutes - 1) / 60)
    assert options["save-interval-updates"] == options["validate-interval-updates"] == math.ceil(updates / 4)
    new = {"stop-time-hours", "validate-interval-updates", "save-interval", "validate-interval"}
    assert options.keys() - whole.fairseq.keys() == new
    unshortened = shorten_recipe(whole, 2 * int(whole.minutes), Machine("cpu", 2))
    assert unshortened.data == whole.data
    full = unshortened.fairseq
    for name in ("max-update", "total-num-update", "warmup-updates", "save-interval-updates", "lr"):
        assert full[name] == whole.fairseq[name]
