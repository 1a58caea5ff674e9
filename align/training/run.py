"""Runs fairseq-train on prepared text: starts or resumes, reports progress, and leaves checkpoints and a curve."""

from __future__ import annotations

import json
import math
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align.io.output import replace_file
from align.training.follow import lines_of
from align.training.plugin import FOLDER
from align.training.recipe import Recipe, Start

_RECORD = re.compile(r"\| (train_inner|valid) \| (\{.*\})$")


@dataclass(frozen=True)
class Machine:
    """Device and precision for fairseq's programs.

    Attributes:
        bf16: whether to use bfloat16 in matrix products (float16 on a GPU without bfloat16, float32 on such a CPU).
    """

    device: str
    threads: int
    bf16: bool = True

    def flags(self, training: bool = False) -> list[str]:
        """Return the options of fairseq's programs for this machine; set `training` for fairseq-train."""
        if self.device == "cpu":
            return ["--cpu", *(["--cpu-bf16"] if training and self.bf16 and cpu_has_bf16() else [])]
        if not (training and self.bf16):
            return []
        import torch

        return ["--bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "--fp16"]


def cpu_has_bf16() -> bool:
    """Tell whether oneDNN multiplies matrices of bfloat16 on this CPU; torch's own loops are many times slower."""
    import torch

    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # a torch without oneDNN
        return False


@dataclass(frozen=True)
class Point:
    """One point of the training curve; losses in nats per target piece, `</s>` included.

    Attributes:
        updates: number of updates so far.
        loss: training loss, label smoothing included, over the last updates; None at a validation.
        valid: negative log likelihood of the validation text; None between validations.
        speed: target pieces per second; None at a validation.
    """

    updates: int
    loss: float | None
    valid: float | None
    speed: float | None


@contextmanager
def fairseq(program: str, arguments: Sequence[object], machine: Machine, log: Path) -> Iterator[Iterator[str]]:
    """Run one of fairseq's programs with the plugin, and read its lines; see `lines_of`."""
    plugin = ["--user-dir", FOLDER, "--task", "translation_align"]
    with lines_of(program, [*arguments, *plugin], machine.threads, log) as lines:
        yield lines


def train(
    binary: Path,
    languages: tuple[str, str],
    recipe: Recipe,
    seed: int,
    folder: Path,
    machine: Machine,
    say: Callable[[str], None],
    start: Start | None = None,
) -> None:
    """Train to the recipe's end; resume if there is a checkpoint_last.pt.

    Args:
        binary: folder written by fairseq-preprocess.
        recipe: the [fairseq] table, and the maximum number of pieces.

    Raises:
        TrainingError: fairseq failed.
        ValueError: the initial model cannot be used.
    """
    from align.models.fairseq.checkpoint import load_checkpoint
    from align.training.begin import save_start

    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "start.pt"
    if last := last_whole_checkpoint(folder):
        if is_finished(load_checkpoint(last), recipe):
            return
        say(f"going on from {last}")
    elif start:
        source, target = (binary / f"dict.{language}.txt" for language in languages)
        save_start(start, (source, target), seed, first, say)
    longest = recipe.text.max_pieces
    arguments: list[object] = [
        binary, "-s", languages[0], "-t", languages[1], "--save-dir", folder, "--seed", seed,
        "--max-source-positions", longest, "--max-target-positions", longest, "--skip-invalid-size-inputs-valid-test",
        "--log-format", "json", "--log-interval", 100, "--num-workers", 0 if machine.device == "cpu" else 2,
        "--distributed-world-size", 1,
        *machine.flags(training=True), *recipe.flags(), *(["--finetune-from-model", first] if start else []),
    ]  # fmt: skip
    with fairseq("train", arguments, machine, folder / "log") as lines:
        for line in lines:
            if point := read_point(line):
                say(describe_point(point))


def is_finished(state: Mapping[str, Any], recipe: Recipe) -> bool:
    """Tell whether the run that saved a checkpoint has reached its recipe's end.

    If resumed, fairseq would do one more update when the end is a number of updates or hours; it checks epochs and
    learning rates before it starts.
    """
    updates, hours = (float(recipe.fairseq.get(name, 0)) for name in ("max-update", "stop-time-hours"))
    done = state["optimizer_history"][-1]["num_updates"]
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
        loss = record.get(
            "valid_nll_loss", record.get("valid_loss", "nan")
        )  # a criterion without smoothing logs only one
        return Point(int(record["valid_num_updates"]), None, float(loss) * nats, None)
    return Point(int(record["num_updates"]), float(record["loss"]) * nats, None, float(record["wps"].replace(",", "")))


def describe_point(point: Point) -> str:
    """Return a progress message for a point."""
    if point.valid is not None:
        return f"update {point.updates:,}: validation loss {point.valid:.3f} nats per piece"
    return f"update {point.updates:,}: loss {point.loss:.3f}, {point.speed:,.0f} target pieces/s"


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
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
