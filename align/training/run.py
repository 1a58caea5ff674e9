"""Runs fairseq-train on prepared text: starts or resumes, reports progress, and leaves checkpoints and a curve.

fairseq's schedules of the learning rate count updates, so a training of limited time has its number of updates fixed
before it starts: that of its recipe, or a half, a quarter and so on, by the time that the recipe says it takes.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from align.core.types import TextWarning
from align.io.manifest import differences, dump_json, load_json
from align.io.output import replace_file
from align.training.follow import lines_of
from align.training.plugin import FOLDER
from align.training.recipe import SCHEDULE, Recipe, Start, read_count

_RECORD = re.compile(r"\| (train_inner|valid) \| (\{.*\})$")
_PROGRESS = re.compile(r"\| progress \| (\{.*\})$")

GPU_SPEED = 20  # speed of a GPU, where that of two CPU cores is 1; the least that was measured
MAX_SPEED = 4  # speed of many CPU cores, which a small model does not use
HALVINGS = 6  # how often the length of a recipe may be halved
NEVER = 2**30  # an interval in epochs, of which a short text has many, that no training reaches


@dataclass(frozen=True)
class Machine:
    """Device for fairseq's programs."""

    device: str
    threads: int

    def flags(self, training: bool = False) -> list[str]:
        """Return the options of fairseq's programs for this machine.

        Training does the matrix products in bfloat16 (float16 on a GPU without bfloat16, float32 on such a
        CPU).
        """
        import torch

        if self.device != "cpu":
            precision = "--bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "--fp16"
            return [precision] if training else []
        try:  # whether oneDNN multiplies matrices of bfloat16 here: torch's own loops are many times slower
            fast = training and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        except (AttributeError, RuntimeError):  # a torch without oneDNN
            fast = False
        return ["--cpu", *(["--cpu-bf16"] if fast else [])]


@dataclass(frozen=True)
class Point:
    """One point of the training curve, in nats per target piece, `</s>` included, and target pieces per second.

    `valid` is the negative log likelihood of the validation text; a point has that, or training loss and speed.
    """

    updates: int
    loss: float | None
    valid: float | None
    speed: float | None


def fairseq(
    program: str, arguments: Sequence[object], machine: Machine, log: Path
) -> AbstractContextManager[Iterator[str]]:
    """Run one of fairseq's programs with the plugin, and read its lines; see `lines_of`."""
    plugin = ["--user-dir", FOLDER, "--task", "translation_align"]
    return lines_of(program, [*arguments, *plugin], machine.threads, log)


def train(
    binary: Path,
    languages: tuple[str, str],
    recipe: Recipe,
    seed: int,
    folder: Path,
    machine: Machine,
    say: Callable[[str], None],
    progress: Callable[[str], None],
    start: Start | None = None,
) -> None:
    """Train to the recipe's end; resume if there is a checkpoint_last.pt, and warn if another recipe has made it.

    `binary` is a folder written by fairseq-preprocess. Messages of `progress` replace each the one before.
    """
    from align.models.fairseq.checkpoint import load_checkpoint
    from align.training.begin import save_start

    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "start.pt"
    record, options = folder / "recipe.json", {**recipe.fairseq, **asdict(recipe.checkpoint)}
    if last := last_whole_checkpoint(folder):
        before = load_json(record.read_bytes(), str(record)) if record.exists() else options  # older runs have none
        if changes := differences(before, options):
            message = f"{folder}: begun with another recipe, number of threads or device ({changes})"
            warnings.warn(message, TextWarning, stacklevel=2)
        if is_finished(load_checkpoint(last), recipe):
            return
        say(f"going on from {last}")
    elif start:
        source, target = (binary / f"dict.{language}.txt" for language in languages)
        save_start(start, (source, target), seed, first, say)
    if not record.exists():
        with replace_file(str(record)) as file:
            file.write(dump_json(options))
    longest = recipe.text.max_pieces
    arguments: list[object] = [
        binary, "-s", languages[0], "-t", languages[1], "--save-dir", folder, "--seed", seed,
        "--max-source-positions", longest, "--max-target-positions", longest, "--skip-invalid-size-inputs-valid-test",
        "--log-format", "json", "--log-interval", 100, "--num-workers", 0 if machine.device == "cpu" else 2,
        "--distributed-world-size", 1, "--align-progress", *machine.flags(training=True), *recipe.flags(),
    ]  # fmt: skip
    if start:
        arguments += ["--finetune-from-model", first]
    total, begun = int(read_count(recipe.fairseq, "max-update")), (0, 0.0)
    with fairseq("train", arguments, machine, folder / "log") as lines:
        for line in lines:
            if report := _PROGRESS.search(line):
                updates, seconds = json.loads(report[1]).values()
                begun = begun if begun[1] else (updates, seconds)
                text = f"update {updates:,}" + (f" of {total:,}" if total else "")
                if total and updates > begun[0]:
                    left = (total - updates) * (seconds - begun[1]) / (updates - begun[0])
                    text += f", {timedelta(seconds=round(max(0, left)))} left"
                progress(text)
            elif not (point := read_point(line)):
                continue
            elif point.valid is None:
                say(f"update {point.updates:,}: loss {point.loss:.3f}, {point.speed:,.0f} target pieces/s")
            else:
                say(f"update {point.updates:,}: validation loss {point.valid:.3f} nats per piece")


def shorten_recipe(recipe: Recipe, minutes: int, machine: Machine) -> Recipe:
    """Return a recipe that takes N minutes with scoring: all updates, or a half of them, a quarter and so on.

    All counts of its schedule are in proportion, and so is the validation text, down to 100 lines. It validates
    and saves four times at least, and ends in time on a slower machine.
    """
    options = dict(recipe.fairseq)
    total = int(read_count(options, "max-update"))
    if not (total and recipe.minutes):
        raise ValueError(f"recipe {recipe.name}: --minutes needs a recipe with `minutes` and max-update")
    needed = recipe.minutes / (GPU_SPEED if machine.device == "cuda" else min(machine.threads / 2, MAX_SPEED))
    left = 0.9 * minutes - 1  # scoring takes the rest
    halvings = next((n for n in range(HALVINGS + 1) if needed / (1 << n) <= left), None)
    if halvings is None:
        least = math.ceil((needed / (1 << HALVINGS) + 1) / 0.9)
        shortest = f"the shortest training by recipe {recipe.name} takes {least} min here, scoring included"
        raise ValueError(f"--minutes {minutes} is too short: {shortest}")
    updates = math.ceil(total / (1 << halvings))
    for name in SCHEDULE:
        if (count := read_count(options, name)) > 0:
            options[name] = max(1, round(count * updates / total))
    hours = read_count(options, "stop-time-hours")
    interval = min(int(read_count(options, "save-interval-updates")) or updates, math.ceil(updates / 4))
    options |= {
        "stop-time-hours": min(hours or left / 60, left / 60),
        "save-interval-updates": interval,
        "validate-interval-updates": interval,
        "save-interval": NEVER,
        "validate-interval": NEVER,
    }
    data = replace(recipe.data, valid_lines=max(min(100, recipe.data.valid_lines), recipe.data.valid_lines >> halvings))
    return replace(recipe, fairseq=options, data=data)


def is_finished(state: Mapping[str, Any], recipe: Recipe) -> bool:
    """Tell whether the run that saved a checkpoint has reached its recipe's end.

    If resumed, fairseq would do one more update when the end is a number of updates or hours; it checks epochs and
    learning rates before it starts.
    """
    updates, hours = (read_count(recipe.fairseq, name) for name in ("max-update", "stop-time-hours"))
    done = int(state["optimizer_history"][-1]["num_updates"])
    spent = state["extra_state"].get("previous_training_time", 0) / 3600
    return bool((updates and done >= updates) or (hours and spent > hours))


def last_whole_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint to resume from, after repairing checkpoint_last.pt if it is incomplete."""
    last = folder / "checkpoint_last.pt"
    if not last.exists() or zipfile.is_zipfile(last):
        return last if last.exists() else None
    saved = sorted(folder.glob("checkpoint*.pt"), key=lambda path: path.stat().st_mtime, reverse=True)
    complete = next((path for path in saved if zipfile.is_zipfile(path)), None)
    if complete is None:
        last.unlink()
        return None
    with complete.open("rb") as whole, replace_file(str(last)) as out:
        shutil.copyfileobj(whole, out)
    return complete


def read_point(line: str) -> Point | None:
    """Return the point of the curve in a line of fairseq's log, if any."""
    match = _RECORD.search(line)
    if not match:
        return None
    record: Mapping[str, Any] = json.loads(match[2])
    nats = math.log(2)
    if match[1] == "valid":
        # a criterion without smoothing logs only one
        loss = record.get("valid_nll_loss", record.get("valid_loss", "nan"))
        return Point(int(record["valid_num_updates"]), None, float(loss) * nats, None)
    return Point(int(record["num_updates"]), float(record["loss"]) * nats, None, float(record["wps"].replace(",", "")))


def read_curve(log: Path) -> list[Point]:
    """Read the curve from a log; for points reached twice, after a resume, the last entry counts."""
    points: dict[tuple[int, bool], Point] = {}
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if point := read_point(line):
                points[point.updates, point.valid is not None] = point
    return [points[key] for key in sorted(points)]


def write_curve(points: Sequence[Point], path: Path) -> None:
    """Write the curve as TSV."""
    rows = ["updates\ttraining_loss\tvalidation_nll\ttarget_pieces_per_second"]
    for point in points:
        cells = (point.loss, point.valid, point.speed)
        texts = ["" if cell is None else f"{cell:.4f}" for cell in cells[:2]]
        rows.append("\t".join([str(point.updates), *texts, "" if point.speed is None else f"{point.speed:.0f}"]))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="\n")
