"""Options that several commands share, and their values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import align
from align.cli.about import add_answers, add_list_models
from align.cli.parser import Idle, Parser
from align.core.batching import BATCH_TOKENS, BUFFER, GPU_BATCH_TOKENS, SHARED_BUFFER
from align.core.errors import shorten
from align.core.settings import Null
from align.core.types import DTYPES
from align.models.folder import DEFAULT_MODEL
from align.models.model_toml import check_language
from align.models.preprocess import CASES, SUBWORDS, TOKENIZERS

T = TypeVar("T")

MAX_THREADS = 1024
"""More than any machine has cores; with very many torch ends the process without a message of ours."""

BATCH_ADVICE = "a smaller --batch-tokens needs less"
"""What helps where memory runs out once a model is loaded."""


SIGNATURE_IDLE = Idle(("output",), lambda args: args.signature, "has no effect with --signature, which stdout gets")
MODEL_IDLE = Idle(("subword_files",), lambda args: args.subwords == "none", "has no effect with --subwords none")


def number_or(*words: str) -> Callable[[str], int | str]:
    """Return a parser of arguments that are a number from 1 or one of some words."""

    def parse(text: str) -> int | str:
        if text in words:
            return text
        if text.isascii() and text.isdigit() and int(text) >= 1:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 nor {' or '.join(words)}")

    return parse


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least`, up to `most` if there is one."""

    def parse(text: str) -> int:
        highest = sys.maxsize if most is None else most
        if text.isascii() and text.isdigit() and len(text) <= len(str(highest)) and least <= int(text) <= highest:
            return int(text)
        limit = "" if most is None else f" to {most:,}"
        raise argparse.ArgumentTypeError(f"{shorten(text, 40)!r} is not a number from {least}{limit}")

    return parse


seed_number = whole_number(0, 2**32 - 1)
"""An argument that is the seed of random numbers, of which scikit-learn takes 32 bits."""


def language_code(text: str) -> str:
    """Parse a language code."""
    try:
        return check_language(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def file_prefix(text: str) -> Path:
    """Parse the beginning of file names."""
    if text.endswith(os.sep) or not Path(text).name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is a folder, not the beginning of file names, such as figures/model"
        )
    return Path(text)


def one_or_two(parse_one: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Return a parser of one value, or of two separated by a comma."""

    def parse(text: str) -> tuple[T, ...]:
        parts = text.split(",")
        if len(parts) > 2:
            raise argparse.ArgumentTypeError(f"{text!r} is neither one nor two with a comma between")
        return tuple(map(parse_one, parts))

    return parse


def number_up_to(most: int, nothing: str | None = None) -> Callable[[str], float | None]:
    """Return a parser of numbers from 0 to `most`, or of the word that stands for None."""

    def parse(text: str) -> float | None:
        if text == nothing:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 <= number <= most:
            return number
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from 0 to {most}" + (f" or {nothing}" if nothing else "")
        )

    return parse


class _OnceOrTwice(argparse.Action):
    """Gathers the values of an option that is given for both sides, or for either."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        gathered = [*(getattr(namespace, self.dest) or ()), values]
        if len(gathered) > 2:
            raise argparse.ArgumentError(self, "given once for both sides, or twice: for the source, for the target")
        setattr(namespace, self.dest, gathered)


def new_parser(program: str, description: str, examples: str) -> Parser:
    """Return the parser of a program, with --help, examples at its end, and --version."""
    parser = Parser(prog=program, description=description, epilog=examples)
    parser.add_argument("--version", action="version", version=f"{program} {align.__version__}")
    add_answers(parser)
    return parser


def add_quiet_option(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet`."""
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but warnings and errors")


def add_signature_option(parser: argparse.ArgumentParser) -> None:
    """Add `--signature`."""
    parser.add_argument(
        "--signature", action="store_true", help="print the signature of these settings, and read no text"
    )


def add_output_option(group: Any) -> None:
    """Add `--output`."""
    group.add_argument(
        "-o", "--output", metavar="FILE", help="written whole or not at all; .gz and .xz are packed (default: stdout)"
    )


def add_model_options(parser: argparse.ArgumentParser, default: str = DEFAULT_MODEL, use: str = "") -> None:
    """Add the model, and the options for what its files do not contain.

    Args:
        parser: whose options these are.
        default: what is taken where no model is named.
        use: what the model is for, if that is not the program's purpose.
    """
    group = parser.add_argument_group(f"model{use}")
    group.add_argument(
        "-m",
        "--model",
        metavar="MODEL",
        help=f"a bundled model, a folder, a fairseq checkpoint, or a Hugging Face name (default: {default})",
    )
    add_list_models(group)
    group.add_argument("--case", choices=CASES, help="of the model's text (default: what model.toml says, else keep)")
    add_text_options(group)
    group.add_argument(
        "--source-prefix",
        metavar="TEXT",
        help="what a Hugging Face model reads before each source, such as T5's `translate English to German: `; its "
        "words count as NULL (default: model.toml's, or T5's own for --source-lang and --target-lang)",
    )


def add_text_options(group: Any) -> None:
    """Add the options for languages and text that a model's files may not contain, except the case."""
    group.add_argument(
        "--source-lang",
        metavar="LANG",
        type=language_code,
        help="source language, as in dict.LANG.txt, or the Hugging Face model's own code, such as deu_Latn",
    )
    group.add_argument("--target-lang", metavar="LANG", type=language_code, help="target language")
    group.add_argument(
        "--dictionaries", metavar="DIR", type=Path, help="folder of dict.LANG.txt (default: the model's)"
    )
    group.add_argument(
        "--tokenizer",
        choices=tuple(TOKENIZERS),
        metavar="NAME",
        help=f"of the model's text: {', '.join(TOKENIZERS)} (default: by model.toml, else none)",
    )
    group.add_argument(
        "--subwords",
        choices=tuple(SUBWORDS),
        help="how words are cut; subword-nmt-vocabulary: pieces that the dictionary lacks are cut further, as with "
        "subword-nmt's --vocabulary; none: lines hold the model's pieces already (default: by the files found)",
    )
    group.add_argument(
        "--subwords-file",
        dest="subword_files",
        action=_OnceOrTwice,
        metavar="FILE",
        type=Path,
        help="sentencepiece model or BPE codes of both sides; given twice: the source's, then the target's",
    )


def add_null_option(group: Any) -> None:
    """Add the option for the source's `</s>`."""
    group.add_argument(
        "--null",
        choices=get_args(Null),
        default="eos",
        help="eos: words that attend to the source's </s> most stay unaligned; mask: hide </s> from attention; "
        "none: leave </s> out of the choice",
    )


def add_speed_options(parser: argparse.ArgumentParser, buffer_help: str | None) -> Any:
    """Add device, precision and sizes; return the group.

    Args:
        parser: whose options these are.
        buffer_help: what --buffer does; None where nothing is read ahead.
    """
    group = parser.add_argument_group("speed")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run the model")
    group.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="precision of matrix products; bfloat16 and, on a CPU, int8 are faster and change a few links",
    )
    group.add_argument(
        "--threads",
        type=whole_number(1, MAX_THREADS),
        metavar="N",
        help="CPU threads in all (default: all cores, or as many as a container's CPU quota allows)",
    )
    group.add_argument(
        "--batch-tokens",
        type=whole_number(1),
        metavar="N",
        help=f"pieces in a batch, padding included (default: {BATCH_TOKENS}, on a GPU {GPU_BATCH_TOKENS})",
    )
    if buffer_help is not None:
        group.add_argument("--buffer", type=whole_number(1), default=BUFFER, metavar="N", help=buffer_help)
    return group


def add_workers_option(group: Any) -> None:
    """Add the number of processes."""
    group.add_argument(
        "--workers",
        type=whole_number(1, MAX_THREADS),
        metavar="N",
        help="processes that share the text, each with one of the threads; 1: one process with all of them (default: "
        f"as many as threads; 1 on a GPU, at a keyboard, and with a --buffer under {SHARED_BUFFER})",
    )


def _shares_nothing(args: argparse.Namespace) -> bool:
    return (args.workers or 1) > 1 and args.buffer < SHARED_BUFFER


WORKERS_IDLE = (
    Idle(("workers",), _shares_nothing, f"requires a --buffer of {SHARED_BUFFER} or more: smaller ones are not shared"),
    Idle(
        ("workers",),
        lambda args: args.threads and args.workers > args.threads,
        "has no effect beyond --threads: each worker takes one",
    ),
    Idle(("workers",), lambda args: args.workers > 1 and args.device == "cuda", "has no effect on a GPU"),
)
"""Where workers would do nothing."""
