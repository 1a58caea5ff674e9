"""`extract-align analyse train-bert`: trains a small BERT on a text, and saves it as transformers does."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.cli.common import run, say
from align.cli.options import new_parser, whole_number
from align.cli.parser import Parser
from align.io.manifest import differences, dump_json, load_json, locked_folder
from align.io.output import open_output
from align.io.process import keep_freed_memory
from align.models.recorder import fingerprint
from align.training.folder import is_current, move_model, refuse_files

if TYPE_CHECKING:
    from align.analysis.bert.run import Run, Settings
    from align.analysis.bert.segments import Text

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

    def add(group: Any, name: str, default: int, help: str, least: int = 1) -> None:
        group.add_argument(f"--{name}", type=whole_number(least), default=default, metavar="N", help=help)

    model = parser.add_argument_group("model")
    add(model, "layers", 4, "layers (default: %(default)s)")
    add(model, "heads", 8, "attention heads of each (default: %(default)s)")
    add(model, "width", 256, "of the model (default: %(default)s)")
    add(model, "pieces", 8000, "of the tokenizer (default: %(default)s)", 100)
    add(model, "longest", 512, "pieces that the model takes at most (default: %(default)s)", 16)
    model.add_argument("--cased", action="store_true", help="keep capitals and accents")
    training = parser.add_argument_group("training")
    add(training, "updates", 8000, "how long to train (default: %(default)s, about an hour on two cores)")
    add(training, "tokens", 4096, "pieces in a batch at most (default: %(default)s)")
    add(training, "valid", 1000, "lines at the end of the text to validate on (default: %(default)s)")
    add(training, "every", 250, "updates between two checkpoints (default: %(default)s)")
    add(training, "seed", 1, "of all that is random (default: %(default)s)", 0)
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    machine.add_argument("--threads", type=whole_number(1), metavar="N", default=os.cpu_count(), help="CPU threads")
    return parser


FILES = (
    *("README.md", "training.tsv", "config.json", "tokenizer.json", "tokenizer_config.json"),
    "model.safetensors",
)
"""Files of a model; the folder is one once the last is there."""


@dataclass(frozen=True)
class Job:
    """Options of `extract-align analyse train-bert`.

    Attributes:
        folder: output folder of the model.
        texts: training texts.
        settings: settings of the training.
        every: updates between two checkpoints.
        device: "auto", "cpu" or "cuda".
        threads: number of CPU threads.
        command: the command line, for the model's README.
    """

    folder: Path
    texts: Sequence[Path]
    settings: Settings
    every: int
    device: str
    threads: int
    command: str

    @property
    def work(self) -> Path:
        """Folder of all files that do not belong to the model."""
        return self.folder / "work"


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Job:
    """Read and check the command line; options that exclude each other stop with exit code 2."""
    args = parser.parse_command(arguments)
    if args.width % args.heads:
        parser.error(f"--width {args.width} cannot be shared among {args.heads} heads")
    if args.tokens < args.longest:
        parser.error("--tokens must not be less than --longest: a batch has at least one example")
    from align.analysis.bert.run import Settings

    settings = Settings(**{name: getattr(args, name) for name in Settings.__dataclass_fields__})
    command = shlex.join([*PROGRAM.split(), *parser.words])
    return Job(args.folder, args.text, settings, args.every, args.device, args.threads, command)


def train(job: Job) -> None:
    """Train a model on a text, and write the model folder.

    Raises:
        ValueError: the text cannot be used, the folder contains work on another model, or the device does not exist.
        OSError: a file cannot be read or written.
        ModuleNotFoundError: transformers 5 or later is not installed.
    """

    def tell(message: str) -> None:
        say(f"{PROGRAM}: {message}")

    with locked_folder(job.folder):
        if not job.work.exists():
            refuse_files(job.folder, FILES)
        _train(job, tell)


def _train(job: Job, tell: Callable[[str], None]) -> None:
    import torch
    from tokenizers import Tokenizer

    from align.analysis.bert.run import Run, build
    from align.analysis.bert.text import split
    from align.models.load import pick_device

    keep_freed_memory()
    torch.set_num_threads(job.threads)
    device = pick_device(job.device)
    text = prepare(job, tell)
    train, valid = split(text, job.settings.valid)
    tell(f"{len(train):,} lines of {len(train.ids):,} pieces to train on, {len(valid):,} lines to validate")
    model = build(job.settings, len(text.begins)).to(device)
    trained = Run(model, job.settings, job.work)
    if trained.resume():
        tell(f"going on from update {trained.updates:,}")
    try:
        trained.train(train, valid, job.every, tell)
    except (KeyboardInterrupt, SystemExit):
        tell("stopped; the same command goes on from the last checkpoint")
        raise
    if not is_current(job.folder / FILES[-1], job.work / "checkpoint.pt"):
        finish(job, model, Tokenizer.from_file(str(job.work / "tokenizer.json")), trained, train)
    tell(f"{job.folder} is ready: extract-align analyse mixing -m {job.folder} -s TEXT")


def prepare(job: Job, tell: Callable[[str], None]) -> Text:
    """Return the text in pieces; write it and its tokenizer to the work folder, unless they are there.

    Raises:
        ValueError: the work folder contains another text or other settings, or the text is too short.
    """
    from align.analysis.bert.text import learn_tokenizer, load_text, number, read_texts, save_text

    job.work.mkdir(parents=True, exist_ok=True)
    made, pieces = job.work / "made-of.json", job.work / "pieces.npz"
    run = {**asdict(job.settings), "text": fingerprint(job.texts, "")}
    if made.is_file():
        if differences(load_json(made.read_bytes()), run):
            raise ValueError(f"{job.folder}: begun with another text or other settings; name another folder")
        return load_text(pieces)
    tell("learning pieces")
    tokenizer = learn_tokenizer(read_texts(job.texts), job.settings.pieces, not job.settings.cased)
    text = number(read_texts(job.texts), tokenizer)
    if len(text) <= job.settings.valid:
        raise ValueError(f"{len(text):,} lines of text, and {job.settings.valid:,} of them are to validate on")
    save_text(text, pieces)
    tokenizer.save(str(job.work / "tokenizer.json"))
    with open_output(str(made)) as out:
        out.write(dump_json(run))
    return text


def finish(job: Job, model: Any, tokenizer: Any, trained: Run, train: Text) -> None:
    """Write the model folder: weights last, since the folder is not a model without them."""
    from align.analysis.bert.run import Point
    from align.analysis.bert.segments import CLS, MASK, PAD, SEP, UNK
    from align.analysis.models.native_transformers import import_transformers, silent

    hf = import_transformers("training a BERT")
    draft = job.work / "model"
    shutil.rmtree(draft, ignore_errors=True)
    names = {"pad_token": PAD, "unk_token": UNK, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
    with silent(hf.logging):
        model.save_pretrained(draft)
        hf.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, model_max_length=job.settings.longest, **names
        ).save_pretrained(draft)
    rows = ["\t".join(Point._fields), *("\t".join(f"{number:.6g}" for number in point) for point in trained.points)]
    (draft / "training.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    last, settings = trained.points[-1], job.settings
    (draft / "README.md").write_text(
        f"# A small BERT\n\n`{job.command}`: {len(train):,} lines of {len(train.ids):,} pieces, {last.updates:,} "
        f"updates of {settings.tokens:,} pieces.\n\nOn {settings.valid:,} other lines: {last.valid:.3f} nats a "
        f"hidden piece, {last.told:.1%} of them told right; whether the second segment follows the first: "
        f"{last.follows:.1%}. `training.tsv` has the curve.\n",
        encoding="utf-8",
    )
    move_model(draft, job.folder, FILES[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align analyse train-bert`."""
    job = read_options(build_parser(), arguments)
    return run(PROGRAM, lambda: train(job))
