"""Read fairseq's dictionaries: one piece and its count per line."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from align.core.errors import ModelError, one_line

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""Symbols that each dictionary begins with, though no file contains them."""

PAD, EOS, UNK = 1, 2, 3

SPECIAL_IDS = {n: SPECIAL[n] for n in (0, PAD, EOS)}
"""Pieces that belong to no word, by id."""


@dataclass(frozen=True)
class Dictionary:
    """Pieces and their counts in a text, by id; the four special symbols come first."""

    pieces: list[str]
    counts: list[int]

    def __len__(self) -> int:
        return len(self.pieces)

    def ids(self) -> dict[str, int]:
        """Return the id of each piece. Words that look like special symbols are ordinary words, and unknown."""
        return {piece: n for n, piece in enumerate(self.pieces) if n >= len(SPECIAL)}


def parse_dictionary(lines: Iterable[str]) -> Dictionary:
    """Return the dictionary in a file's lines, read as fairseq does."""
    pieces, counts = [*SPECIAL], [1] * len(SPECIAL)
    known = set(pieces)
    for number, line in enumerate(lines, 1):
        entry = line.rstrip()
        again = entry.endswith(" #fairseq:overwrite")  # a piece may come twice: a text may hold a word `<s>`
        piece, blank, count = entry.removesuffix(" #fairseq:overwrite").rpartition(" ")
        try:
            counts.append(int(count if blank else ""))
        except ValueError:
            raise ValueError(f"line {number:,} is not a piece and its count") from None
        if piece in known and not again:
            raise ValueError(f"line {number:,} has a piece that was there before")
        known.add(piece)
        pieces.append(piece)
    return Dictionary(pieces, counts)


def read_dictionary(path: Path) -> Dictionary:
    """Read the dictionary in a file, whose lines end at line feeds only."""
    try:
        return parse_dictionary(io.StringIO(path.read_bytes().decode()))
    except ValueError as error:  # a wrong encoding, a line that is no entry, an entry twice
        raise ModelError(f"not a fairseq dictionary ({one_line(error)})", file=str(path)) from None
