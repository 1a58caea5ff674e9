"""`extract-align train`: prepares a bitext, trains with fairseq, and writes a folder that `extract-align -m` takes."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from align.cli.args import RunArgs
from align.cli.common import Progress, run, say
from align.cli.options import (
    add_group,
    argument,
    language_code,
    new_parser,
    option,
    read_group,
    seed_number,
    whole_number,
)
from align.cli.parser import Parser
from align.io.output import locked_folder
from align.training.compat import check_installed
from align.training.folder import is_current, move_model, refuse_files
from align.training.prepare import Bitext, prepare
from align.training.recipe import DEFAULT_RECIPE, bundled_recipes, read_count, read_recipe
from align.training.run import Machine, read_curve, shorten_recipe, train, write_curve

PROGRAM = "extract-align train"

EXAMPLES = """examples:
  extract-align train my-model -s bitext.de -t bitext.en --source-lang de --target-lang en
  extract-align train big --recipe kobayashi2020 -s ep.de -t ep.en --source-lang de --target-lang en

The same command resumes an interrupted training. FOLDER/work can be removed afterwards.
"""

CHECKPOINT = "checkpoint.pt"  # weights in a model folder
STATUS_EVERY = 60.0  # seconds between two lines of progress where stderr is not a terminal


@dataclass(frozen=True)
class TrainArgs:
    """The model to train."""

    TITLE: ClassVar = "model"

    folder: Path = argument(
        metavar="FOLDER",
        type=Path,
        help="folder to write the model to; with several seeds FOLDER/SEED. A folder named `scorer` is given as "
        "./scorer",
    )
    recipe: str = option(
        default=DEFAULT_RECIPE,
        metavar="RECIPE",
        help=f"{' or '.join(sorted(bundled_recipes()))}, which are bundled, or a TOML file",
    )
    finetune_from: str | None = option(
        metavar="MODEL",
        help="start from the weights and pieces of this model, a folder or a bundled one's name; one side may be of "
        "another language, and gets new pieces",
    )
    minutes: int | None = option(
        type=whole_number(1),
        metavar="N",
        help="train and score each model in about N minutes: halve the updates of the recipe until its estimate "
        "fits; preparing the text takes additional time",
    )
    seed: int | None = option(type=seed_number, help="only this seed (default: all of the recipe's)")


@dataclass(frozen=True)
class BitextArgs:
    """The text to train on."""

    TITLE: ClassVar = "text (UTF-8, a sentence a line; .gz, .xz and .zst are decompressed)"

    source: Path = option("-s", metavar="FILE", type=Path, required=True, help="source sentences")
    target: Path = option("-t", metavar="FILE", type=Path, required=True, help="their translations")
    source_lang: str = option(metavar="LANG", type=language_code, required=True, help="such as de")
    target_lang: str = option(metavar="LANG", type=language_code, required=True, help="such as en")
    valid_source: Path | None = option(
        metavar="FILE", type=Path, help="source sentences to validate on (default: the last pairs of the text)"
    )
    valid_target: Path | None = option(metavar="FILE", type=Path, help="their translations; requires --valid-source")


def build_parser() -> Parser:
    """Build the parser."""
    description = "Train a fairseq translation model on a bitext, and write a folder for `extract-align -m`."
    parser = new_parser(PROGRAM, description, EXAMPLES)
    add_group(parser, TrainArgs)
    add_group(parser, BitextArgs)
    add_group(parser, RunArgs, only=("device", "threads"), device={"help": "where to train"})
    return parser


def tell(message: str) -> None:
    """Write a line of this program to stderr."""
    say(f"{PROGRAM}: {message}")


def train_all(args: TrainArgs, bitext: Bitext, run_args: RunArgs, command: str) -> None:
    """Prepare the text once, then train a model for each seed."""
    # Now, before there is anything to say: a signal during an import ends the program at once.
    from align.models.load import pick_device
    from align.models.model_toml import ModelOptions, format_model_toml
    from align.training.begin import find_start
    from align.training.card import choose_cells, measure, write_card
    from align.training.export import export

    check_installed()
    recipe = read_recipe(args.recipe)
    machine = Machine(pick_device(run_args.device), run_args.threads or os.cpu_count() or 1)
    seeds = recipe.seeds if args.seed is None else (args.seed,)
    folders = {seed: args.folder / str(seed) if len(recipe.seeds) > 1 else args.folder for seed in seeds}
    languages, text, work = bitext.languages, recipe.text, args.folder / "work"
    options = ModelOptions(*languages, case=text.case, tokenizer=text.tokenizer, subwords="sentencepiece")
    with locked_folder(args.folder):
        if not work.exists():
            names = [CHECKPOINT, "README.md", "model.toml", "training.tsv"]
            names += [name for lang in languages for name in (f"dict.{lang}.txt", f"{lang}.spm")]
            for folder in folders.values():
                refuse_files(folder, names)
        if args.minutes:
            total = read_count(recipe.fairseq, "max-update")
            recipe = shorten_recipe(recipe, args.minutes, machine)
            updates = recipe.fairseq["max-update"]
            tell(f"{args.minutes} min: {updates:,} of {total:,.0f} updates of recipe {recipe.name}")
        start = find_start(args.finetune_from, languages, recipe.text) if args.finetune_from else None
        for old, language in zip(start.languages if start else languages, languages, strict=True):
            if old != language:
                tell(f"{args.finetune_from} has {old}, not {language}, which gets new pieces and word vectors")
        prepared = prepare(bitext, recipe, work, tell, start)
        dropped = ", ".join(f"{count:,} ({reason})" for reason, count in sorted(prepared.dropped.items()))
        tell(f"{prepared.train:,} pairs to train on, {prepared.valid:,} to validate; left out: {dropped or 'none'}")
        for seed, folder in folders.items():
            run_folder = work / f"seed{seed}"
            with closing(Progress(PROGRAM, every=STATUS_EVERY)) as status:
                train(work / "bin", languages, recipe, seed, run_folder, machine, tell, status.show, start)
            if not is_current(folder / CHECKPOINT, run_folder / "checkpoint_last.pt"):
                # Convert the run to a model folder: weights, dictionaries, pieces, model.toml, curve, card.
                draft = run_folder / "model"
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir()
                checkpoints = export(run_folder, recipe.checkpoint, draft / CHECKPOINT)
                for language in languages:
                    shutil.copyfile(work / "bin" / f"dict.{language}.txt", draft / f"dict.{language}.txt")
                    shutil.copyfile(work / f"{language}.spm", draft / f"{language}.spm")
                points = read_curve(run_folder / "log")
                write_curve(points, draft / "training.tsv")
                tell(f"validation loss and BLEU of {draft / CHECKPOINT}")
                quality = measure(work, draft / CHECKPOINT, languages, machine, run_folder / "score.log")
                nats = f"{quality.per_piece:.3f} nats per piece, {quality.per_word:.3f} per word"
                tell(f"{nats}, BLEU {quality.bleu:.1f}")
                toml = draft / "model.toml"
                toml.write_text(format_model_toml(options, {"": {}}), encoding="utf-8")  # needed to load it
                cells = choose_cells(draft, work, languages)
                toml.write_text(format_model_toml(options, {"": cells}), encoding="utf-8")
                about, made = start.describe() if start else "", (recipe, seed, prepared, points, quality)
                write_card(draft / "README.md", languages, *made, checkpoints, command, about)
                move_model(draft, folder, CHECKPOINT)
            tell(f"{folder} is ready: extract-align -m {folder}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align train`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    parser.require_both(args, "--valid-source", "--valid-target")
    if args.source_lang == args.target_lang:
        parser.error("--source-lang and --target-lang are the same")
    bitext = Bitext(
        languages=(args.source_lang, args.target_lang),
        train=(args.source, args.target),
        valid=(args.valid_source, args.valid_target) if args.valid_source else None,
    )
    groups = read_group(TrainArgs, args), bitext, read_group(RunArgs, args)
    command = shlex.join([*PROGRAM.split(), *parser.words])  # for the card
    return run(
        PROGRAM,
        lambda: train_all(*groups, command),
        so_far=lambda error: "" if isinstance(error, Exception) else "; the same command goes on",
    )
