"""fairseq's dictionaries: a piece and its count a line."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from align.core.errors import one_line

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""What each dictionary begins with, though no file has it."""

PAD, EOS, UNK = 1, 2, 3

SPECIAL_IDS = {n: SPECIAL[n] for n in (0, PAD, EOS)}
"""Pieces that are part of no word, with their names."""

_AGAIN = "#fairseq:overwrite"
"""What lets a line name a piece that is there already, so that a text may hold a word `<s>`."""


@dataclass(frozen=True)
class Dictionary:
    """Pieces and their counts in a text, by id; the four special symbols come first.

    Attributes:
        pieces: by id.
        counts: likewise.
    """

    pieces: list[str]
    counts: list[int]

    def __len__(self) -> int:
        return len(self.pieces)


class Vocabulary(dict[str, int]):
    """Piece to id. What looks like a special symbol is a user's word like any other, and unknown.

    Args:
        dictionary: whose pieces.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__((piece, n) for n, piece in enumerate(dictionary.pieces) if n >= len(SPECIAL))

    def __missing__(self, piece: str) -> int:
        return UNK


def parse_dictionary(lines: Iterable[str]) -> Dictionary:
    """Read a dictionary as fairseq does.

    Args:
        lines: `piece count`, perhaps with `#fairseq:overwrite` after it.

    Raises:
        ValueError: a line is none of these, or has a piece that another one has; says which line.
    """
    pieces, counts = [*SPECIAL], [1] * len(SPECIAL)
    known = set(pieces)
    for number, line in enumerate(lines, 1):
        entry = line.rstrip()
        again = entry.endswith(f" {_AGAIN}")
        piece, blank, count = entry.removesuffix(f" {_AGAIN}").rpartition(" ")
        try:
            counts.append(int(count))
        except ValueError:
            raise ValueError(f"line {number:,} is not a piece and its count") from None
        if not blank:
            raise ValueError(f"line {number:,} is not a piece and its count")
        if piece in known and not again:
            raise ValueError(f"line {number:,} has a piece that was there before")
        known.add(piece)
        pieces.append(piece)
    return Dictionary(pieces, counts)


def decode_dictionary(content: bytes, path: Path) -> Dictionary:
    """The dictionary in what was read of a file, whose lines end at line feeds and nowhere else.

    Raises:
        ValueError: it is not UTF-8, or no dictionary; names the file and, if one is to blame, the line.
    """
    try:
        return parse_dictionary(io.StringIO(content.decode()))
    except ValueError as error:  # a wrong encoding, a line that is no entry, an entry twice
        raise ValueError(f"{path}: not a fairseq dictionary ({one_line(error)})") from None


def read_dictionary(path: Path) -> Dictionary:
    """The dictionary in a file, all of which is read.

    Raises:
        ValueError: it is no dictionary; see `decode_dictionary`.
        OSError: the file cannot be read.
    """
    return decode_dictionary(path.read_bytes(), path)
