"""Trainings of limited time: this machine's speed is measured first, and sets the number of updates.

fairseq's schedules of the learning rate count updates. A limit by the clock alone (`stop-time-hours`) would stop a rate
that falls to nothing at the last update while it is still high. So a short run, which is thrown away, measures updates
and validation, and all counts of the recipe shrink in proportion: the training is then one that its own options
repeat, and a resumed one keeps them. The clock ends it, too, if the machine becomes slower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from align.core.errors import DataError
from align.io.manifest import dump_json, load_json
from align.io.output import open_output
from align.training.recipe import Recipe, read_count
from align.training.run import Machine, Pace, fairseq, last_whole_checkpoint, read_progress, training_options

PROBE = 10.0
"""Seconds of training that measure the speed."""

MARGIN = 0.93
"""Share of the measured speed that is counted on: saving takes time, and speeds vary."""

VALIDATING = 0.1
"""Share of the time for validations, the last one not included; but there are two at least."""

LEAST = 10
"""Least number of updates that is a training."""

NEVER = 2**30
"""An interval that no training reaches."""

SCHEDULE = (
    *("warmup-updates", "total-num-update", "warmup-steps", "hold-steps", "decay-steps", "lr-period-updates"),
    "validate-after-updates",
)
"""Options that count updates from the start; see also `shorten_recipe`."""


@dataclass(frozen=True)
class Measured:
    """What a short run has measured.

    Attributes:
        speed: updates per second.
        start: seconds before the first update.
        validation: seconds of a validation.
        spent: seconds of the whole run.
    """

    speed: float
    start: float
    validation: float
    spent: float


@dataclass(frozen=True)
class Plan:
    """The length of a training of limited time.

    Attributes:
        minutes: the limit.
        updates: number of updates.
        interval: updates between two validations.
        seconds: training time after which fairseq stops before the last update.
    """

    minutes: int
    updates: int
    interval: int
    seconds: float


def plan_updates(recipe: Recipe, minutes: int, measured: Measured) -> Plan:
    """Return the longest training of a recipe that fits into a time, which includes what measuring has taken.

    Raises:
        ValueError: the recipe does not set max-update, or the time is too short.
    """
    total = int(read_count(recipe.fairseq, "max-update"))
    if total < 1:
        raise ValueError(f"recipe {recipe.name}: --minutes needs one with max-update, in which its schedule ends")
    seconds = minutes * 60 - measured.spent - measured.start - measured.validation
    saves = total / (int(read_count(recipe.fairseq, "save-interval-updates")) or total)
    validations = max(2, min(int(saves), int(VALIDATING * seconds / max(measured.validation, 0.1))))
    updates = min(total, int(MARGIN * measured.speed * (seconds - validations * measured.validation)))
    if updates < min(total, LEAST):
        raise ValueError(
            f"--minutes {minutes} is too short here: {measured.spent:.0f} s to measure the speed, {measured.start:.0f} "
            f"s to start, {measured.validation:.0f} s to validate, and {measured.speed:.2f} updates/s"
        )
    return Plan(minutes, updates, math.ceil(updates / validations), seconds)


def shorten_recipe(recipe: Recipe, plan: Plan) -> Recipe:
    """Return a recipe whose schedule and training end with a plan, and which validates and saves at its intervals."""
    options = dict(recipe.fairseq)
    share = plan.updates / read_count(options, "max-update")
    for name in SCHEDULE:
        if (count := read_count(options, name)) > 0:
            options[name] = max(1, round(count * share))
    hours = round(plan.seconds / 3600, 6)
    options |= {
        "max-update": plan.updates,
        "stop-time-hours": min(hours, read_count(options, "stop-time-hours") or hours),
        "save-interval-updates": plan.interval,
        "validate-interval-updates": plan.interval,
        "save-interval": NEVER,  # in epochs, of which a short text has many
        "validate-interval": NEVER,
    }
    return replace(recipe, fairseq=options)


def limit_time(
    recipe: Recipe,
    minutes: int | None,
    folder: Path,
    measure_speed: Callable[[], Measured],
    say: Callable[[str], None],
) -> Recipe:
    """Return the recipe of a training of at most some minutes, as planned when it began; unchanged without a limit.

    Args:
        folder: folder of the run, which gets the plan.

    Raises:
        ValueError: the training began with another limit; for others see `plan_updates`.
        DataError: the plan is damaged.
    """
    path = folder / "time-limit.json"
    begun, plan = last_whole_checkpoint(folder) is not None, _read_plan(path)
    if begun and (plan.minutes if plan else None) != minutes:
        limit = f"with --minutes {plan.minutes}" if plan else "without --minutes"
        raise ValueError(f"{folder}: this training began {limit}; do the same now, or name another folder")
    if not minutes:
        return recipe
    if not plan or plan.minutes != minutes:
        folder.mkdir(parents=True, exist_ok=True)
        say("measuring the speed")
        plan = plan_updates(recipe, minutes, measure_speed())
        with open_output(str(path)) as out:
            out.write(dump_json(asdict(plan)))
    shortened = shorten_recipe(recipe, plan)
    say(f"{plan.updates:,} updates of {read_count(recipe.fairseq, 'max-update'):,.0f} fit into {minutes} min")
    return shortened


def _read_plan(path: Path) -> Plan | None:
    try:
        plan = Plan(**load_json(path.read_bytes()))
        if all(type(value) in (int, float) and value > 0 for value in vars(plan).values()):
            return plan
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        pass
    raise DataError("damaged", file=str(path), hint="remove the folder with it") from None


def measure(binary: Path, languages: tuple[str, str], recipe: Recipe, folder: Path, machine: Machine) -> Measured:
    """Train for some seconds, validate, and save nothing; for the arguments see `align.training.run.train`.

    Args:
        folder: of the run, without a checkpoint.

    Raises:
        TrainingError: fairseq failed.
    """
    options = {**recipe.fairseq, "stop-time-hours": PROBE / 3600, "validate-after-updates": 0}
    arguments = training_options(binary, languages, replace(recipe, fairseq=options), 1, folder, machine)
    pace, begun = Pace(), time.monotonic()
    first = stopped = finished = None
    with fairseq("train", [*arguments, "--no-save"], machine, folder / "speed.log") as lines:
        for line in lines:
            now = time.monotonic()
            if report := read_progress(line):
                first = first or now
                pace.add(*report)
            elif "| Stopping training due to " in line:
                stopped = now
            elif "| done training in " in line:
                finished = now
    ended = time.monotonic()
    first, stopped, finished = first or begun, stopped or ended, finished or ended
    speed = pace.speed or 1 / max(stopped - first, 0.1)  # a single update took all of the time
    return Measured(speed, first - begun, finished - stopped, ended - begun)
