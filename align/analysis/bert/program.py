"""`extract-align analyse train-bert`: trains a small BERT on a text, and saves it as transformers does."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from align.analysis.bert.settings import Settings
from align.cli.common import run, say
from align.cli.options import add_group, new_parser, read_group, whole_number
from align.cli.parser import Parser
from align.io.manifest import differences, dump_json
from align.io.output import locked_folder, open_output
from align.io.process import keep_freed_memory
from align.io.reader import open_lines, read_lines
from align.models.recorder import fingerprint
from align.training.folder import is_current, move_model, refuse_files

PROGRAM = "extract-align analyse train-bert"

EXAMPLES = """examples:
  extract-align analyse train-bert my-bert text.en
  extract-align analyse train-bert my-bert news.en.gz wiki.en --layers 6 --updates 20000
  extract-align analyse mixing -m my-bert -s text.en

Stopped, it goes on where it was when the same command is given again. FOLDER/work can be removed afterwards.
"""


def build_parser() -> Parser:
    """Return a parser for all options."""
    parser = new_parser(PROGRAM, "Trains a small BERT on a text, and saves it as transformers does.", EXAMPLES)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="gets the model")
    help = "UTF-8, a sentence or a paragraph a line, in any order; .gz, .xz and .zst are unpacked"
    parser.add_argument("text", metavar="TEXT", type=Path, nargs="+", help=help)
    parser.reads.append("text")
    add_group(parser, Settings)
    running = parser.add_argument_group("running")
    help = "updates between two checkpoints (default: %(default)s)"
    running.add_argument("--every", type=whole_number(1), default=250, metavar="N", help=help)
    running.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    running.add_argument("--threads", type=whole_number(1), metavar="N", default=os.cpu_count(), help="CPU threads")
    return parser


FILES = ("README.md", "training.tsv", "config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
"""Files of a model; the folder is one once the last is there."""


def train(args: Namespace, settings: Settings, command: str) -> None:
    """Train a model on a text, and write the model folder.

    Args:
        command: the command line, for the model's README.
    """
    folder, work = args.folder, args.folder / "work"  # all files that do not belong to the model
    with locked_folder(folder):
        if not work.exists():
            refuse_files(folder, FILES)
        import torch

        from align.analysis.bert import run
        from align.analysis.models.native import import_transformers, silent
        from align.models.load import pick_device

        hf = import_transformers("training a BERT")
        keep_freed_memory()
        torch.set_num_threads(args.threads)
        lines = [line for path in args.text for line in read_text(path)]
        if len(lines) <= settings.valid:
            raise ValueError(f"{len(lines):,} lines of text, and {settings.valid:,} of them are to validate on")
        made, pieces, made_of = work / "made-of.json", work / "tokenizer", asdict(settings)
        made_of["text"] = fingerprint(args.text, "")
        if not made.is_file():
            tell("learning pieces")
            run.learn_tokenizer(iter(lines), settings).save_pretrained(pieces)
            with open_output(str(made)) as out:
                out.write(dump_json(made_of))
        elif differences(json.loads(made.read_bytes()), made_of):
            raise ValueError(f"{folder}: begun with another text or other settings; name another folder")
        tokenizer = hf.BertTokenizer.from_pretrained(pieces)
        size = f"{len(lines) - settings.valid:,} lines"
        tell(f"{size} to train on, {settings.valid:,} lines to validate")
        model = run.build(settings, tokenizer).to(pick_device(args.device))
        try:
            points = run.train(model, tokenizer, settings, lines, work / "checkpoint.pt", args.every, tell)
        except (KeyboardInterrupt, SystemExit):
            tell("stopped; the same command goes on from the last checkpoint")
            raise
        if not is_current(folder / FILES[-1], work / "checkpoint.pt"):
            draft = work / "model"
            shutil.rmtree(draft, ignore_errors=True)
            with silent(hf.logging):
                model.save_pretrained(draft)
                tokenizer.save_pretrained(draft)
            last = points[-1]
            rows = ["\t".join(last._fields), *("\t".join(f"{number:.6g}" for number in point) for point in points)]
            (draft / "training.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            readme = (
                f"# A small BERT\n\n`{command}`: {size}, {last.updates:,} updates of {settings.tokens:,} pieces.\n\n"
                f"On {settings.valid:,} other lines: {last.valid:.3f} nats a hidden piece, {last.told:.1%} of them "
                f"told right; whether the second segment follows the first: {last.follows:.1%}. `training.tsv` has "
                "the curve.\n"
            )
            (draft / "README.md").write_text(readme, encoding="utf-8")
            move_model(draft, folder, FILES[-1])
    tell(f"{folder} is ready: extract-align analyse mixing -m {folder} -s TEXT")


def read_text(path: Path) -> Iterator[str]:
    """Yield the lines of a file that are not blank."""
    with open_lines(str(path)) as stream:
        yield from filter(str.strip, read_lines(stream, str(path)))


def tell(message: str) -> None:
    """Report progress."""
    say(f"{PROGRAM}: {message}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align analyse train-bert`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    settings = read_group(Settings, args)
    if settings.width % settings.heads:
        parser.error(f"--width {settings.width} cannot be shared among {settings.heads} heads")
    if settings.tokens < settings.longest:
        parser.error("--tokens must not be less than --longest: a batch has at least one example")
    command = shlex.join([*PROGRAM.split(), *parser.words])
    return run(PROGRAM, lambda: train(args, settings, command))
