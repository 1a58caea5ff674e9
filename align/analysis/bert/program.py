"""`extract-align analyse train-bert`: trains a small BERT on a text, and saves it as transformers does."""

from __future__ import annotations

import os
import shlex
import shutil
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.analysis.bert.settings import Settings
from align.cli.common import run, say
from align.cli.options import add_group, new_parser, read_group, whole_number
from align.cli.parser import Parser
from align.io.manifest import differences, dump_json, load_json, locked_folder
from align.io.output import open_output
from align.io.process import keep_freed_memory
from align.models.recorder import fingerprint
from align.training.folder import is_current, move_model, refuse_files

if TYPE_CHECKING:
    from align.analysis.bert.run import Point
    from align.analysis.bert.text import Text

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
    add_group(parser, Settings)
    running = parser.add_argument_group("running")
    help = "updates between two checkpoints (default: %(default)s)"
    running.add_argument("--every", type=whole_number(1), default=250, metavar="N", help=help)
    running.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    running.add_argument("--threads", type=whole_number(1), metavar="N", default=os.cpu_count(), help="CPU threads")
    return parser


FILES = (
    *("README.md", "training.tsv", "config.json", "tokenizer.json", "tokenizer_config.json"),
    "model.safetensors",
)
"""Files of a model; the folder is one once the last is there."""


def train(args: Namespace, settings: Settings, command: str) -> None:
    """Train a model on a text, and write the model folder.

    Args:
        command: the command line, for the model's README.
    """
    work = args.folder / "work"  # all files that do not belong to the model
    with locked_folder(args.folder):
        if not work.exists():
            refuse_files(args.folder, FILES)
        import torch
        from tokenizers import Tokenizer

        from align.analysis.bert import run
        from align.analysis.bert.text import split
        from align.models.load import pick_device

        keep_freed_memory()
        torch.set_num_threads(args.threads)
        device = pick_device(args.device)
        text = prepare(args.folder, args.text, settings)
        train, valid = split(text, settings.valid)
        tell(f"{len(train):,} lines of {len(train.ids):,} pieces to train on, {len(valid):,} lines to validate")
        model = run.build(settings, len(text.begins)).to(device)
        try:
            points = run.train(model, settings, train, valid, work / "checkpoint.pt", args.every, tell)
        except (KeyboardInterrupt, SystemExit):
            tell("stopped; the same command goes on from the last checkpoint")
            raise
        if not is_current(args.folder / FILES[-1], work / "checkpoint.pt"):
            size = f"{len(train):,} lines of {len(train.ids):,} pieces"
            tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
            finish(args.folder, settings, model, tokenizer, points, f"`{command}`: {size}")
    tell(f"{args.folder} is ready: extract-align analyse mixing -m {args.folder} -s TEXT")


def tell(message: str) -> None:
    """Report progress."""
    say(f"{PROGRAM}: {message}")


def prepare(folder: Path, texts: Sequence[Path], settings: Settings) -> Text:
    """Return the text in pieces; write it and its tokenizer to the work folder, unless they are there."""
    from align.analysis.bert.text import learn_tokenizer, load_text, number, read_texts, save_text

    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    made, pieces = work / "made-of.json", work / "pieces.npz"
    run = {**asdict(settings), "text": fingerprint(texts, "")}
    if made.is_file():
        if differences(load_json(made.read_bytes()), run):
            raise ValueError(f"{folder}: begun with another text or other settings; name another folder")
        return load_text(pieces)
    tell("learning pieces")
    tokenizer = learn_tokenizer(read_texts(texts), settings.pieces, not settings.cased)
    text = number(read_texts(texts), tokenizer)
    if len(text) <= settings.valid:
        raise ValueError(f"{len(text):,} lines of text, and {settings.valid:,} of them are to validate on")
    save_text(text, pieces)
    tokenizer.save(str(work / "tokenizer.json"))
    with open_output(str(made)) as out:
        out.write(dump_json(run))
    return text


def finish(folder: Path, settings: Settings, model: Any, tokenizer: Any, points: Sequence[Point], origin: str) -> None:
    """Write the model folder: weights last, since the folder is not a model without them."""
    from align.analysis.bert.text import CLS, MASK, PAD, SEP, UNK
    from align.analysis.models.native_transformers import import_transformers, silent

    hf = import_transformers("training a BERT")
    draft = folder / "work" / "model"
    shutil.rmtree(draft, ignore_errors=True)
    names = {"pad_token": PAD, "unk_token": UNK, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
    with silent(hf.logging):
        model.save_pretrained(draft)
        fast = hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=settings.longest, **names)
        fast.save_pretrained(draft)
    last = points[-1]
    rows = ["\t".join(last._fields), *("\t".join(f"{number:.6g}" for number in point) for point in points)]
    (draft / "training.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    (draft / "README.md").write_text(
        f"# A small BERT\n\n{origin}, {last.updates:,} updates of {settings.tokens:,} pieces.\n\n"
        f"On {settings.valid:,} other lines: {last.valid:.3f} nats a hidden piece, {last.told:.1%} of them told right; "
        f"whether the second segment follows the first: {last.follows:.1%}. `training.tsv` has the curve.\n",
        encoding="utf-8",
    )
    move_model(draft, folder, FILES[-1])


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
