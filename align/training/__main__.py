"""`scripts/train_model`: prepares a bitext, trains with fairseq, and writes a folder that `extract-align -m` takes."""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from align.cli.common import run, say
from align.cli.options import Help, positive
from align.training.prepare import Bitext, Prepared, prepare
from align.training.recipe import DEFAULT_RECIPE, Recipe, bundled_recipes, read_recipe
from align.training.run import Machine, read_curve, train, write_curve

PROGRAM = "train_model"

EXAMPLES = """examples:
  scripts/train_model my-model -s bitext.de -t bitext.en --source-lang de --target-lang en
  scripts/train_model big --recipe kobayashi2020 -s ep.de -t ep.en --source-lang de --target-lang en

Stopped, it goes on where it was when the same command is given again. FOLDER/work can be removed afterwards.
"""


def build_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = argparse.ArgumentParser(
        prog="scripts/train_model", description=__doc__, epilog=EXAMPLES, formatter_class=Help
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="gets the model; with several seeds FOLDER/SEED")
    parser.add_argument(
        "--recipe",
        metavar="RECIPE",
        default=DEFAULT_RECIPE,
        help=f"{' or '.join(sorted(bundled_recipes()))}, which are bundled, or a TOML file",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="only this seed (default: all of the recipe's)")
    text = parser.add_argument_group("text (UTF-8, a sentence a line; .gz and .xz are unpacked)")
    text.add_argument("-s", "--source", metavar="FILE", type=Path, required=True, help="source sentences")
    text.add_argument("-t", "--target", metavar="FILE", type=Path, required=True, help="their translations")
    text.add_argument("--source-lang", metavar="LANG", required=True, help="such as de")
    text.add_argument("--target-lang", metavar="LANG", required=True, help="such as en")
    text.add_argument(
        "--valid-source", metavar="FILE", type=Path, help="to validate on (default: the last pairs of the text)"
    )
    text.add_argument("--valid-target", metavar="FILE", type=Path, help="goes with --valid-source")
    text.add_argument(
        "--exclude",
        metavar=("SOURCE", "TARGET"),
        type=Path,
        nargs=2,
        action="append",
        help="do not train on pairs of this text, such as the test set; may be given again",
    )
    text.add_argument("--labels", metavar="FILE", type=Path, help="a word for each pair: where it is from")
    text.add_argument("--take", metavar="PATTERN", nargs="+", help="take pairs with such a label only")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    machine.add_argument("--threads", type=positive, metavar="N", default=os.cpu_count(), help="CPU threads")
    machine.add_argument("--float32", action="store_true", help="no bfloat16 in matrix products")
    return parser


def read_text(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Bitext:
    """The bitext that the options name; exit code 2 where they do not go together."""
    if (args.valid_source is None) != (args.valid_target is None):
        parser.error("--valid-source and --valid-target go together")
    if bool(args.take) != bool(args.labels):
        parser.error("--take and --labels go together")
    if args.source_lang == args.target_lang:
        parser.error("--source-lang and --target-lang are the same")
    return Bitext(
        languages=(args.source_lang, args.target_lang),
        train=(args.source, args.target),
        valid=(args.valid_source, args.valid_target) if args.valid_source else None,
        labels=args.labels,
        take=tuple(args.take or ()),
        exclude=tuple((source, target) for source, target in args.exclude or ()),
    )


def pick_machine(args: argparse.Namespace) -> Machine:
    """Where to train.

    Raises:
        ValueError: a GPU is asked for and there is none.
    """
    from align.loading import pick_device

    return Machine(pick_device(args.device), args.threads, not args.float32)


def finish(folder: Path, bitext: Bitext, recipe: Recipe, seed: int, prepared: Prepared, machine: Machine) -> None:
    """From a finished run to a model folder: weights, dictionaries, pieces, model.toml, curve, card."""
    from align.training.card import calibrate, write_card, write_toml
    from align.training.export import export
    from align.training.score import measure

    training = run_folder(prepared, seed)
    final, folder = folder, training / "model"  # where it is made, and moved from when it is whole
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    checkpoint = folder / "checkpoint.pt"
    taken = export(training, recipe.checkpoint, checkpoint)
    for language in bitext.languages:
        shutil.copyfile(prepared.folder / "bin" / f"dict.{language}.txt", folder / f"dict.{language}.txt")
        shutil.copyfile(prepared.folder / f"{language}.spm", folder / f"{language}.spm")
    points = read_curve(training / "log")
    write_curve(points, folder / "training.tsv")
    say(f"{PROGRAM}: validation loss and BLEU of {checkpoint}")
    quality = measure(prepared.folder, checkpoint, bitext.languages, "sentencepiece", machine, training / "score.log")
    say(f"{PROGRAM}: {quality.per_piece:.3f} nats per piece, {quality.per_word:.3f} per word, BLEU {quality.bleu:.1f}")
    write_toml(folder / "model.toml", bitext.languages, recipe, {})  # needed to load it
    choices = calibrate(folder, prepared.folder, bitext.languages)
    write_toml(folder / "model.toml", bitext.languages, recipe, choices)
    command = shlex.join(["scripts/train_model", *sys.argv[1:]])
    write_card(folder / "README.md", bitext.languages, recipe, seed, prepared, points, quality, taken, command)
    final.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path == checkpoint):  # without it the rest is no model
        path.replace(final / path.name)
    folder.rmdir()


def run_folder(prepared: Prepared, seed: int) -> Path:
    """Where a seed's checkpoints and logs are."""
    return prepared.folder / f"seed{seed}"


def train_all(bitext: Bitext, args: argparse.Namespace) -> None:
    """Every seed's model."""
    recipe = read_recipe(args.recipe)
    machine = pick_machine(args)
    seeds = [args.seed] if args.seed is not None else recipe.seeds

    def tell(message: str) -> None:
        say(f"{PROGRAM}: {message}")

    with locked(args.folder):
        prepare_and_train(bitext, args.folder, recipe, seeds, machine, tell)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others out of a folder; fairseq, which inherits the lock, does so until it too has ended.

    Raises:
        ValueError: another run is at work there; says which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+", encoding="ascii", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read(20).strip()
            known = f" (process {holder}, or what it has started)" if holder.isdecimal() else ""
            raise ValueError(f"{folder}: another run is still at work there{known}") from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        os.set_inheritable(lock.fileno(), True)
        yield


def prepare_and_train(
    bitext: Bitext, folder: Path, recipe: Recipe, seeds: Sequence[int], machine: Machine, tell: Callable[[str], None]
) -> None:
    """The text once, then a model for each seed."""
    prepared = prepare(bitext, recipe, folder / "work", tell)
    tell(
        f"{prepared.train:,} pairs to train on, {prepared.valid:,} to validate; left out: "
        + (", ".join(f"{count:,} ({reason})" for reason, count in sorted(prepared.dropped.items())) or "none")
    )
    for seed in seeds:
        try:
            train(prepared.folder / "bin", bitext.languages, recipe, seed, run_folder(prepared, seed), machine, tell)
        except (KeyboardInterrupt, SystemExit):
            tell("stopped; the same command goes on from the last checkpoint")
            raise
        model = folder / str(seed) if len(recipe.seeds) > 1 else folder
        finish(model, bitext, recipe, seed, prepared, machine)
        tell(f"{model} is ready: extract-align -m {model}")


def main() -> int:
    """Entry point of `scripts/train_model`."""
    parser = build_parser()
    args = parser.parse_args()
    bitext = read_text(parser, args)
    return run(PROGRAM, lambda: train_all(bitext, args))


if __name__ == "__main__":
    sys.exit(main())
