"""`extract-align train`: prepares a bitext, trains with fairseq, and writes a folder that `extract-align -m` takes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from align.cli.common import StatusLine, message_of, run, say
from align.cli.options import language_code, new_parser, read_group, seed_number, whole_number
from align.cli.parser import Parser
from align.io.manifest import locked_folder
from align.training.compat import check_installed
from align.training.folder import move_model, refuse_files
from align.training.prepare import Bitext, Prepared, prepare
from align.training.recipe import DEFAULT_RECIPE, Recipe, bundled_recipes, read_recipe
from align.training.run import Machine, Reports, read_curve, train, updates_of, write_curve
from align.training.time_limit import limit_time
from align.training.time_limit import measure as measure_speed

PROGRAM = "extract-align train"

EXAMPLES = """examples:
  extract-align train my-model -s bitext.de -t bitext.en --source-lang de --target-lang en
  extract-align train big --recipe kobayashi2020 -s ep.de -t ep.en --source-lang de --target-lang en

Stopped, it goes on where it was when the same command is given again. FOLDER has a usable model from the first
validation on. FOLDER/work can be removed afterwards.
"""

CHECKPOINT = "checkpoint.pt"
"""Weights in a model folder."""

NEEDED = (
    "align.models.fairseq.checkpoint",
    "align.training.begin",
    "align.training.card",
    "align.training.export",
)
"""Modules that are imported only once a training is asked for."""

STATUS_EVERY = 60.0
"""Seconds between two lines of progress where stderr is not a terminal."""


def build_parser() -> Parser:
    """Build the parser."""
    parser = new_parser(
        PROGRAM, "Trains a fairseq translation model on a bitext, and writes a folder for `extract-align -m`.", EXAMPLES
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        help="gets the model; with several seeds FOLDER/SEED; `extract-align train reader` trains something else, so a "
        "folder of this name is ./reader",
    )
    parser.add_argument(
        "--recipe",
        metavar="RECIPE",
        default=DEFAULT_RECIPE,
        help=f"{' or '.join(sorted(bundled_recipes()))}, which are bundled, or a TOML file",
    )
    parser.add_argument(
        "--finetune-from",
        metavar="MODEL",
        help="begin with the weights and pieces of this model, a folder or a bundled one's name; one side may be of "
        "another language, and gets new pieces",
    )
    parser.add_argument(
        "--minutes",
        type=whole_number(1),
        metavar="N",
        help="train each model for at most N minutes: all counts of updates in the recipe shrink to what this machine "
        "can do; preparing the text and scoring the model come on top",
    )
    parser.add_argument("--seed", type=seed_number, metavar="N", help="only this seed (default: all of the recipe's)")
    text = parser.add_argument_group("text (UTF-8, a sentence a line; .gz, .xz and .zst are unpacked)")
    text.add_argument("-s", "--source", metavar="FILE", type=Path, required=True, help="source sentences")
    text.add_argument("-t", "--target", metavar="FILE", type=Path, required=True, help="their translations")
    text.add_argument("--source-lang", metavar="LANG", type=language_code, required=True, help="such as de")
    text.add_argument("--target-lang", metavar="LANG", type=language_code, required=True, help="such as en")
    text.add_argument(
        "--valid-source", metavar="FILE", type=Path, help="to validate on (default: the last pairs of the text)"
    )
    text.add_argument("--valid-target", metavar="FILE", type=Path, help="requires --valid-source")
    text.add_argument(
        "--exclude",
        metavar=("SOURCE", "TARGET"),
        type=Path,
        nargs=2,
        action="append",
        help="do not train on pairs of this text, such as the test set; may be given again",
    )
    text.add_argument("--labels", metavar="FILE", type=Path, help="a word for each pair: where it is from")
    text.add_argument("--take", metavar="PATTERN", nargs="+", help="take only pairs with one of these labels")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    machine.add_argument("--threads", type=whole_number(1), metavar="N", default=os.cpu_count(), help="CPU threads")
    machine.add_argument(
        "--float32", action="store_true", help="no bfloat16 in matrix products, even where the CPU has it"
    )
    return parser


COMMANDS = ("reader",)


def build_command(name: str) -> Parser:
    """Return the parser of `reader`."""
    parser: Parser = import_module(f"align.cli.train_{name}").build_parser()
    return parser


@dataclass(frozen=True)
class Options:
    """Options of `extract-align train`.

    Attributes:
        folder: output folder of the model; with several seeds it has a folder for each.
        recipe: name of a bundled recipe, or a file.
        start: the initial model; None for random weights.
        minutes: limit of each training; None for the recipe's length.
        seed: the only seed to train with; None for all of the recipe's.
    """

    folder: Path
    recipe: str
    start: str | None
    minutes: int | None
    seed: int | None
    bitext: Bitext
    device: str
    threads: int
    bf16: bool
    command: str


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Parse and check the command line; invalid combinations of options exit with code 2."""
    args = parser.parse_command(arguments)
    if (args.valid_source is None) != (args.valid_target is None):
        parser.error("--valid-source and --valid-target go together")
    if bool(args.take) != bool(args.labels):
        parser.error("--take and --labels go together")
    if args.source_lang == args.target_lang:
        parser.error("--source-lang and --target-lang are the same")
    bitext = Bitext(
        languages=(args.source_lang, args.target_lang),
        train=(args.source, args.target),
        valid=(args.valid_source, args.valid_target) if args.valid_source else None,
        labels=args.labels,
        take=tuple(args.take or ()),
        exclude=tuple((source, target) for source, target in args.exclude or ()),
    )
    return read_group(
        Options,
        args,
        start=args.finetune_from,
        bitext=bitext,
        bf16=not args.float32,
        command=shlex.join([*PROGRAM.split(), *parser.words]),
    )


@dataclass(frozen=True)
class TrainingJob:
    """Settings that all models of one command share.

    Attributes:
        start: description of the initial model, for the card; "" for random weights.
    """

    recipe: Recipe
    machine: Machine
    prepared: Prepared
    languages: tuple[str, str]
    command: str
    start: str

    def run_folder(self, seed: int) -> Path:
        """Return the folder of a seed's checkpoints and logs."""
        return self.prepared.folder / f"seed{seed}"


Stamps: TypeAlias = Mapping[Path, tuple[int, int]]
"""Time of change in nanoseconds and size in bytes of checkpoints."""


@dataclass
class Course:
    """How far a command has come, for its last message.

    Attributes:
        folder: gets the model.
        updates: of the training so far; None before it begins and after it has ended.
        saved: updates of the last checkpoint; None for none.
        usable: updates of the model in the folder; None for no model.
        stamps: of the checkpoints that it was made of.
    """

    folder: Path
    updates: int | None = None
    saved: int | None = None
    usable: int | None = None
    stamps: Stamps | None = None

    def so_far(self, reason: BaseException) -> str:
        """Return what follows `interrupted` in a message: how to resume, and how to use what is there."""
        if isinstance(reason, Exception):
            return ""
        text = "; the same command goes on"
        if self.updates is not None:
            text = f" at update {self.updates:,}; the same command "
            text += f"goes on from update {self.saved:,}" if self.saved else "begins this training again"
        if self.usable is not None:
            text += f"\n{PROGRAM}: {self.folder} has a model of update {self.usable:,}: extract-align -m {self.folder}"
        return text


def write_parts(job: TrainingJob, seed: int, draft: Path) -> list[Path]:
    """Write the parts of a model folder that are read off a run: weights, dictionaries, pieces, curve.

    Returns:
        The checkpoints whose weights were taken.
    """
    from align.training.export import export

    trained, prepared = job.run_folder(seed), job.prepared
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    sources = export(trained, job.recipe.checkpoint, draft / CHECKPOINT)
    for language in job.languages:
        shutil.copyfile(prepared.folder / "bin" / f"dict.{language}.txt", draft / f"dict.{language}.txt")
        shutil.copyfile(prepared.folder / f"{language}.spm", draft / f"{language}.spm")
    write_curve(read_curve(trained / "log"), draft / "training.tsv")
    return sources


def publish(job: TrainingJob, seed: int, folder: Path, course: Course) -> None:
    """Bring the model folder up to date while the training goes on, without measuring anything.

    Of the files that a model is read from only the checkpoint changes, and it is replaced in one step. Nothing is done
    if the checkpoints are those of the last call, or if fairseq replaces them in the meantime: the next ones follow.
    """
    from align.models.fairseq.checkpoint import load_checkpoint
    from align.training.card import write_toml, write_unfinished_card

    trained, stamps = job.run_folder(seed), stamps_of(job, seed)
    if stamps is None or stamps == course.stamps:
        return
    draft = trained / "unfinished"
    try:
        write_parts(job, seed, draft)
        updates = updates_of(load_checkpoint(draft / CHECKPOINT))
        write_toml(draft / "model.toml", job.languages, job.recipe, {})
        write_unfinished_card(draft / "README.md", job.languages, updates)
        if stamps == stamps_of(job, seed):
            move_model(draft, folder, trained, CHECKPOINT, lambda _: None)
            course.stamps, course.usable = stamps, updates
    except (OSError, ValueError) as error:
        if stamps == stamps_of(job, seed):
            tell(f"warning: {folder} has not the newest model: {message_of(error, '')}")


def stamps_of(job: TrainingJob, seed: int) -> Stamps | None:
    """Return the stamps of the checkpoints that make the model; None if there are none, or if one is replaced."""
    from align.training.export import select

    try:
        status = {path: path.stat() for path in select(job.run_folder(seed), job.recipe.checkpoint)}
    except (OSError, ValueError):
        return None
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in status.items()}


def finish(job: TrainingJob, seed: int, folder: Path) -> None:
    """Convert a finished run to a model folder: weights, dictionaries, pieces, model.toml, curve, card.

    Args:
        folder: output folder; the model is moved there from the run's folder when complete.
    """
    from align.training.card import Card, choose_cells, measure, write_card, write_toml

    trained, prepared = job.run_folder(seed), job.prepared
    draft = trained / "model"
    sources = write_parts(job, seed, draft)
    checkpoint = draft / CHECKPOINT
    points = read_curve(trained / "log")
    tell(f"validation loss and BLEU of {checkpoint}")
    quality = measure(prepared.folder, checkpoint, job.languages, "sentencepiece", job.machine, trained / "score.log")
    tell(f"{quality.per_piece:.3f} nats per piece, {quality.per_word:.3f} per word, BLEU {quality.bleu:.1f}")
    write_toml(draft / "model.toml", job.languages, job.recipe, {})  # needed to load it
    cells = choose_cells(draft, prepared.folder, job.languages)
    write_toml(draft / "model.toml", job.languages, job.recipe, cells)
    card = Card(job.languages, job.recipe, seed, prepared, points, quality, sources, job.command, job.start)
    write_card(draft / "README.md", card)
    move_model(draft, folder, trained, checkpoint.name, tell)


def train_all(options: Options, course: Course) -> None:
    """Train a model for each seed."""
    from align.models.load import pick_device

    for module in NEEDED:  # before there is anything to say: a signal during an import ends the program at once
        import_module(module)
    check_installed()
    recipe = read_recipe(options.recipe)
    machine = Machine(pick_device(options.device), options.threads, options.bf16)
    with locked_folder(options.folder):
        refuse_other_files(options, recipe)
        prepare_and_train(options, recipe, machine, course)


def tell(message: str) -> None:
    """Write a line of this program to stderr."""
    say(f"{PROGRAM}: {message}")


def refuse_other_files(options: Options, recipe: Recipe) -> None:
    """Refuse a folder that has files of the model's names, unless this program prepares a text or trains there.

    Raises:
        ValueError: names one of them.
    """
    if (options.folder / "work").exists():
        return
    names = ["README.md", "checkpoint.pt", "model.toml", "training.tsv"]
    names += [name for language in options.bitext.languages for name in (f"dict.{language}.txt", f"{language}.spm")]
    seeds = recipe.seeds if options.seed is None else [options.seed]
    for folder in [options.folder / str(seed) for seed in seeds] if len(recipe.seeds) > 1 else [options.folder]:
        refuse_files(folder, names)


def prepare_and_train(options: Options, recipe: Recipe, machine: Machine, course: Course) -> None:
    """Prepare the text once, then train a model for each seed."""
    from align.training.begin import find_start

    languages = options.bitext.languages
    start = find_start(options.start, languages, recipe.text) if options.start else None
    for old, language in zip(start.languages if start else languages, languages, strict=True):
        if old != language:
            tell(f"{options.start} has {old}, not {language}, which gets new pieces and word vectors")
    prepared = prepare(options.bitext, recipe, options.folder / "work", tell, start)
    tell(
        f"{prepared.train:,} pairs to train on, {prepared.valid:,} to validate; left out: "
        + (", ".join(f"{count:,} ({reason})" for reason, count in sorted(prepared.dropped.items())) or "none")
    )
    job = TrainingJob(recipe, machine, prepared, languages, options.command, start.describe() if start else "")
    for seed in recipe.seeds if options.seed is None else [options.seed]:
        run_folder, binary = job.run_folder(seed), prepared.folder / "bin"
        measured = partial(measure_speed, binary, languages, recipe, run_folder, machine)
        seed_job = replace(job, recipe=limit_time(recipe, options.minutes, run_folder, measured, tell))
        course.folder = options.folder / str(seed) if len(recipe.seeds) > 1 else options.folder
        with followed(seed_job, seed, course) as reports:
            train(binary, languages, seed_job.recipe, seed, run_folder, machine, reports, start)
        finish(seed_job, seed, course.folder)
        tell(f"{course.folder} is ready: extract-align -m {course.folder}")


@contextmanager
def followed(job: TrainingJob, seed: int, course: Course) -> Iterator[Reports]:
    """Show the progress of a training, and publish its model at each of its checkpoints."""
    course.updates, course.saved, course.usable, course.stamps = 0, None, None, None

    def progress(updates: int, text: str) -> None:
        course.updates = updates
        status.show(text)

    def saved(updates: int) -> None:
        course.updates = course.saved = updates
        publish(job, seed, course.folder, course)

    with closing(StatusLine(PROGRAM, STATUS_EVERY)) as status:
        yield Reports(tell, progress, saved)
    course.updates = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align train`, or `extract-align train reader`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["reader"]:
        code: int = import_module("align.cli.train_reader").main(words[1:])
        return code
    options = read_options(build_parser(), words)
    course = Course(options.folder)
    return run(PROGRAM, lambda: train_all(options, course), so_far=course.so_far)
