"""`extract-align --translate`: source sentences in, `translation ||| links` out."""

from __future__ import annotations

import argparse
from typing import BinaryIO

from align.cli.common import write_links
from align.cli.options import whole_number
from align.core.formats import FORMATS, WITH_WORDS
from align.core.settings import Search
from align.core.types import Alignment

MAX_BEAM = 1000
"""Each step scores beam times vocabulary; translations get worse, not better, long before a beam so wide."""

SEARCH = ("beam", "allow_unk")


def add_translate_options(parser: argparse.ArgumentParser, written: str = "`translation ||| links`") -> None:
    """Translating, and how to search.

    Args:
        parser: of the program.
        written: what the program writes for each sentence.
    """
    group = parser.add_argument_group("translation (by the model itself, which then aligns what it has written)")
    group.add_argument(
        "--translate",
        action="store_true",
        help=f"lines of the input, or of -s FILE, are source sentences; write {written} for each",
    )
    group.add_argument(
        "--beam", type=whole_number(1, MAX_BEAM), default=Search().beam, metavar="N", help="width of the beam search"
    )
    group.add_argument(
        "--allow-unk",
        action="store_true",
        help="leave <unk> in translations; without this, the aligned source word takes the place of an unknown one",
    )


def check_translate(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse formats that make no sense, with exit code 2."""
    if args.translate and args.format not in ("pharaoh", "talp", *WITH_WORDS):
        parser.error(f"-f {args.format} has no room for translations: take pharaoh, talp, offsets, jsonl or giza")


def requested_search(args: argparse.Namespace) -> Search:
    """The search that the options ask for."""
    return Search(**{name: getattr(args, name) for name in SEARCH})


def write_translation(out: BinaryIO, alignment: Alignment, format: str, scores: bool) -> None:
    """Write one sentence's translation and links: `translation ||| 0-0 1-2`, or what another format has.

    A blank line is a blank line, and so is a sentence that was too long. A translation without a word is ` ||| `.
    """
    pair = alignment.pair
    if format not in ("pharaoh", "talp", "offsets"):
        write_links(out, alignment, format, scores)
    elif not pair.source or (alignment.skipped and not pair.target):
        out.write(b"\n")
    else:
        out.write(f"{' '.join(pair.target)} ||| {FORMATS[format](alignment, scores)}\n".encode())
