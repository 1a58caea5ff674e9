"""Trainings of limited time: how many updates fit, what the recipe's counts become, and what a resumed one keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from align.core.errors import DataError
from align.training.recipe import Recipe, read_recipe
from align.training.time_limit import MARGIN, Measured, Plan, limit_time, plan_updates, shorten_recipe
from tests import toy

MEASURED = Measured(speed=2.0, start=10.0, validation=5.0, spent=30.0)


def recipe_with(**options: object) -> Recipe:
    return replace(read_recipe(), fairseq={name.replace("_", "-"): value for name, value in options.items()})


def test_updates_fill_what_measuring_starting_and_validating_leave() -> None:
    plan = plan_updates(read_recipe(), 10, MEASURED)
    seconds = 600 - 30 - 10 - 5
    validations = seconds // 50  # a tenth of the time
    assert plan == Plan(10, int(MARGIN * 2 * (seconds - validations * 5)), plan.interval, seconds)
    assert plan.interval * (validations - 1) < plan.updates <= plan.interval * validations


def test_a_long_time_is_no_more_than_the_recipe() -> None:
    recipe = read_recipe()
    plan = plan_updates(recipe, 100_000, MEASURED)
    assert (plan.updates, plan.interval) == (14000, 500)
    options = shorten_recipe(recipe, plan).fairseq
    for name in ("max-update", "total-num-update", "warmup-updates", "save-interval-updates", "lr"):
        assert options[name] == recipe.fairseq[name]


@pytest.mark.parametrize("recipe", ["small", "further", "new-language", "kobayashi2020"])
def test_a_schedule_ends_with_the_updates(recipe: str) -> None:
    whole = read_recipe(recipe)
    options = shorten_recipe(whole, Plan(3, 280, 70, 120.0)).fairseq
    share = 280 / whole.fairseq["max-update"]
    assert options["max-update"] == 280
    assert options.get("total-num-update", 280) == 280
    assert options["warmup-updates"] == round(whole.fairseq["warmup-updates"] * share) > 0
    assert options["stop-time-hours"] == pytest.approx(120 / 3600, abs=1e-5)
    assert options["save-interval-updates"] == options["validate-interval-updates"] == 70
    others = {"save-interval", "validate-interval"}
    assert options.keys() - whole.fairseq.keys() - others == {"stop-time-hours", "validate-interval-updates"} | (
        {"save-interval-updates"} - whole.fairseq.keys()
    )


def test_an_earlier_end_of_the_recipe_stays() -> None:
    recipe = recipe_with(max_update=100, stop_time_hours=0.01, warmup_updates=0, hold_steps=30)
    options = shorten_recipe(recipe, Plan(3, 50, 10, 120.0)).fairseq
    assert (options["stop-time-hours"], options["warmup-updates"], options["hold-steps"]) == (0.01, 0, 15)


@pytest.mark.parametrize(
    ("options", "minutes", "message"),
    [
        ({"max_epoch": 3}, 5, "recipe small: --minutes needs one with max-update"),
        (
            {"max_update": 9000},
            1,
            "--minutes 1 is too short here: 30 s to measure the speed, 10 s to start, 50 s to val",
        ),
    ],
)
def test_a_time_that_sets_no_updates_is_refused(options: dict[str, object], minutes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_updates(recipe_with(**options), minutes, replace(MEASURED, validation=50.0))


def test_a_training_keeps_its_plan(tmp_path: Path) -> None:
    recipe, run, said = read_recipe(), tmp_path / "seed1", list[str]()

    def limited(minutes: int | None, speed: float) -> Recipe:
        return limit_time(recipe, minutes, run, lambda: replace(MEASURED, speed=speed), said.append)

    first = limited(3, 2.0)
    assert said == ["measuring the speed", f"{first.fairseq['max-update']:,} updates of 14,000 fit into 3 min"]
    assert limited(3, 50.0) == first
    assert limited(4, 2.0).fairseq["max-update"] > first.fairseq["max-update"]  # nothing was trained
    assert limited(None, 2.0) is recipe
    toy.save_model(tmp_path).rename(run / "checkpoint_last.pt")
    for minutes in (None, 3):
        with pytest.raises(ValueError, match="seed1: this training began with --minutes 4; do the same now, or name"):
            limited(minutes, 2.0)
    plan = run / "time-limit.json"
    for damage in ("", "[]", "{}", plan.read_text().replace("4", '"4"')):
        plan.write_text(damage)
        with pytest.raises(DataError, match=r"time-limit.json: damaged"):
            limited(4, 2.0)
    plan.unlink()
    with pytest.raises(ValueError, match="this training began without --minutes"):
        limited(4, 2.0)
