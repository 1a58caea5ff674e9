"""The commands of eval/run.py, and the options of each."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from commands_speed import SPEED

from align.evaluation.tables import TABLES

DATA = "EXTRACT_ALIGN_DATA"
EXPERIMENTS = Path(__file__).parent / "experiments.toml"


def data_option(parser: argparse.ArgumentParser) -> None:
    """Where the data is."""
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get(DATA),
        required=DATA not in os.environ,
        help=f"folder of the data (default: ${DATA})",
    )


def experiment_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Where the data is, and which of the experiments to run."""
    data_option(parser)
    parser.add_argument(
        "--config", type=Path, default=Path(__file__).parent / "experiments.toml", help="experiments and their files"
    )
    if several:
        parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="default: all whose files are there")
    else:
        parser.add_argument("--experiment", default="bundled", help="whose first models, gold and text are used")


def baseline_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Those of `experiment_options`, and where links of statistical aligners are kept."""
    experiment_options(parser, several)
    parser.add_argument(
        "--baseline-links", type=Path, metavar="DIR", help="keep those of statistical aligners, and use what is kept"
    )


def reproduce(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    baseline_options(parser, several=True)
    parser.add_argument("-f", "--format", choices=tuple(TABLES), default="text", help="of what is printed")


def defaults(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)


def dtypes(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--lines", type=int, default=3_000, help="of the training text, to count links that change")


def doubts(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)


def variants(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--pairs", type=int, default=100_000, help="of the training text, for the lexicon; 0: none")


def learnt(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser, several=True)
    parser.add_argument("--pairs", type=int, default=80_000, help="of the training text, to learn from")
    parser.add_argument("--seeds", type=int, default=3, help="how many networks are trained of a kind")


def calibration(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--lines", type=int, default=12_000, help="to draw from")


def positions(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--models", nargs="*", default=[], metavar="FOLDER", help="more fairseq models to choose for")
    parser.add_argument("--pairs", type=int, default=2_000, help="of the training text's last, to train a head")


def choosing(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--models", nargs="*", default=[], metavar="FOLDER", help="more models to choose for")


def recipes(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--folder", type=Path, required=True, help="of the models, which are kept")
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="to train first (default: none, only measure)")


def marian(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    experiment_options(parser)
    parser.add_argument("--folder", type=Path, required=True, help="of the models, which are kept and trained on")
    parser.add_argument("--minutes", type=float, default=20, help="to train for in all")
    parser.add_argument(
        "--beside", nargs="+", default=[], metavar="MODEL", help="more models to align with, as for extract-align -m"
    )


def quality(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("prefix", type=Path)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="as for extract-align -m")
    parser.add_argument("--source-lang", help="for models that do not say it, as are the next three")
    parser.add_argument("--target-lang")
    parser.add_argument("--case")
    parser.add_argument("--tokenizer")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def xml_mt(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("source", type=Path, metavar="SOURCE.json")
    parser.add_argument("target", type=Path, metavar="TARGET.json")
    parser.add_argument("--model", required=True, help="from the one language to the other")
    parser.add_argument("--reverse-model", help="back again")


def analysis(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    data_option(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the results (default: all that can be made)")
    parser.add_argument("--bert", type=Path, metavar="FOLDER", help="an encoder like BERT, as saved by transformers")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


COMMANDS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "reproduce": reproduce,
    "defaults": defaults,
    "doubts": doubts,
    "dtypes": dtypes,
    "variants": variants,
    "learnt": learnt,
    "calibration": calibration,
    "positions": positions,
    "choosing": choosing,
    "worth": baseline_options,
    "recipes": recipes,
    "marian": marian,
    "quality": quality,
    "markup": baseline_options,
    "xml-mt": xml_mt,
    "analysis": analysis,
    **SPEED,
}
"""The options of each command; its work is `run` in the module of its name, which takes them as arguments."""
