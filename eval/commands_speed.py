"""The commands of eval/run.py that measure how fast something is, or break it, and the options of each."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from align.core.types import DTYPES

PEERS = (
    *("fast_align", "fast_align-training", "eflomal", "giza"),
    *("one-float32", "one-int8", "both-float32", "both-int8", "encoder-8", "encoder-12"),
)
"""What `benchmark-peers` measures by default; its module says what each is."""

SHAPES = ("marian", "nllb")
"""What `benchmark-huggingface` measures by default, likewise."""

ENGINES = ("local", "ray")
"""Of `extract-align --input`: what `kill-shards` kills."""


def text_options(parser: argparse.ArgumentParser, lines: int, rounds: int | None = 5) -> None:
    """A model, a text, and how often to measure, if that is to be said."""
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("-m", "--model", default="de-en")
    parser.add_argument("--lines", type=int, default=lines)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)


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


def benchmark_loading(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    default = ("opus-mt", "nllb-600M")
    parser.add_argument("--shapes", nargs="+", default=default, metavar="SHAPE", help=f"default: {' '.join(default)}")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES, metavar="DTYPE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pieces", type=int, metavar="N", help="of the vocabulary, in place of the published number")


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


def screenshots(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--sentences", type=int, nargs="+", default=[500, 2_000, 10_000], help="of the pages to open")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="where pictures go (default: none are taken)")


SPEED: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "benchmark": benchmark,
    "benchmark-peers": benchmark_peers,
    "benchmark-waiting": benchmark_waiting,
    "benchmark-huggingface": benchmark_huggingface,
    "benchmark-loading": benchmark_loading,
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
"""See `commands.COMMANDS`."""
