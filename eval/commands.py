"""The commands of eval/run.py, and the options of each."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from align.types import DTYPES
from align.view.tables import TABLES

DATA = "EXTRACT_ALIGN_DATA"
EXPERIMENTS = Path(__file__).parent / "experiments.toml"

PEERS = (
    *("fast_align", "fast_align-training", "eflomal", "giza"),
    *("one-float32", "one-int8", "both-float32", "both-int8", "encoder-8", "encoder-12"),
)
"""What `benchmark-peers` measures by default; its module says what each is."""

SHAPES = ("marian", "nllb")
"""What `benchmark-huggingface` measures by default, likewise."""


ENGINES = ("local", "ray")
"""Of `extract-align --input`: what `kill-shards` kills."""


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


def text_options(parser: argparse.ArgumentParser, lines: int, rounds: int | None = 5) -> None:
    """A model, a text, and how often to measure, if that is to be said."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("-m", "--model", default="de-en")
    parser.add_argument("--lines", type=int, default=lines)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)


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


def benchmark(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=20_000)
    parser.add_argument("--reverse-model", default="en-de")
    parser.add_argument("--naive-lines", type=int, default=2_000, help="for the naive method, which is slow")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--against", metavar="REV", help="whole programs, beside those of this commit")
    parser.add_argument(
        "--dtypes", nargs="+", default=DTYPES, metavar="DTYPE", help="with --against: arithmetic of this tree"
    )


def benchmark_peers(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("-m", "--model", default="de-en")
    parser.add_argument("--reverse-model", default="en-de")
    parser.add_argument("--systems", nargs="+", default=PEERS, metavar="SYSTEM", help=f"default: {' '.join(PEERS)}")
    parser.add_argument("--pairs", type=int, nargs="+", default=[2_000, 20_000, 200_000], help="of the text's first")
    parser.add_argument("--sample", type=int, default=300, help="pairs for the encoders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--resume", action="store_true", help="keep runs of the same versions, and add what lacks")


def benchmark_waiting(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=3_000, rounds=3)
    parser.add_argument("--load", type=int, default=2, help="busy processes to run beside it, too")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def benchmark_huggingface(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="SHAPE", help=f"default: {' '.join(SHAPES)}")
    parser.add_argument("--vocabulary", type=int, metavar="PIECES", help="at most so many, where memory is short")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def kill_shards(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("-m", "--model", default="de-en")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--rows", type=int, default=5_000, help="of each file")
    parser.add_argument("--kills", type=int, default=20, help="with each engine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES, metavar="ENGINE")


def xml_mt(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("source", type=Path, metavar="SOURCE.json")
    parser.add_argument("target", type=Path, metavar="TARGET.json")
    parser.add_argument("--model", required=True, help="from the one language to the other")
    parser.add_argument("--reverse-model", help="back again")


def benchmark_markup(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=4_000)
    parser.add_argument("--reverse-model", default="en-de")
    parser.add_argument("--threads", type=int, default=1)


def benchmark_recording(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=400)
    parser.add_argument("--threads", type=int, default=1)


def benchmark_encoder(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument(
        "-m", "--model", type=Path, required=True, help="folder of an encoder, as saved by transformers"
    )
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)


def benchmark_memory(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=2_000, rounds=3)
    parser.add_argument(
        "--whole-lines", type=int, nargs="*", default=[5_000, 50_000], help="texts for extract-align itself"
    )
    parser.add_argument("--only", metavar="METHOD", help="score with this method and print nothing: what is measured")


def benchmark_shards(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=5_000)
    parser.add_argument("--files", type=int, default=16, help="of so many lines each")
    parser.add_argument("--memory-files", type=int, nargs="*", default=[4, 16], help="of jobs whose memory is measured")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)


def benchmark_evaluator(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=2_000)


def benchmark_training(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("binary", type=Path, help="what fairseq-preprocess wrote")
    parser.add_argument("-s", "--source-lang", default="de")
    parser.add_argument("-t", "--target-lang", default="en")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def analysis(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    data_option(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the results (default: all that can be made)")
    parser.add_argument("--bert", type=Path, metavar="FOLDER", help="an encoder like BERT, as saved by transformers")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def serve_load(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    text_options(parser, lines=2_000, rounds=None)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--threads", type=int, default=1, help="of the service; its clients need a core, too")


def planning(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("--lines", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)


def screenshots(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--sentences", type=int, nargs="+", default=[500, 2_000, 10_000], help="of the pages to open")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where pictures go (default: none are taken)")


COMMANDS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "reproduce": reproduce,
    "defaults": defaults,
    "doubts": doubts,
    "dtypes": dtypes,
    "variants": variants,
    "calibration": calibration,
    "positions": positions,
    "choosing": choosing,
    "worth": baseline_options,
    "marian": marian,
    "quality": quality,
    "markup": baseline_options,
    "xml-mt": xml_mt,
    "analysis": analysis,
    "benchmark": benchmark,
    "benchmark-peers": benchmark_peers,
    "benchmark-waiting": benchmark_waiting,
    "benchmark-huggingface": benchmark_huggingface,
    "benchmark-markup": benchmark_markup,
    "benchmark-recording": benchmark_recording,
    "benchmark-encoder": benchmark_encoder,
    "benchmark-memory": benchmark_memory,
    "benchmark-shards": benchmark_shards,
    "benchmark-evaluator": benchmark_evaluator,
    "benchmark-training": benchmark_training,
    "serve-load": serve_load,
    "planning": planning,
    "kill-shards": kill_shards,
    "screenshots": screenshots,
}
"""The options of each command; its work is `run` in the module of its name, which takes them as arguments."""
