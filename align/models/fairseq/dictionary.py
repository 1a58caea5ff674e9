"""Read fairseq's dictionaries: one piece and its count per line."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

from align.core.errors import ModelError, one_line

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""Symbols that each dictionary begins with, though no file contains them."""

PAD, EOS, UNK = 1, 2, 3
SPECIAL_IDS = {n: SPECIAL[n] for n in (0, PAD, EOS)}  # pieces that belong to no word, by id


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


def read_dictionary(path: Path) -> Dictionary:
    """Read the dictionary in a file, whose lines end at line feeds only, as fairseq does."""
    pieces, counts = [*SPECIAL], [1] * len(SPECIAL)
    known = set(pieces)
    try:
        for number, line in enumerate(io.StringIO(path.read_bytes().decode()), 1):
            entry = line.rstrip()
            again = entry.endswith(" #fairseq:overwrite")  # a piece may come twice: a text may hold a word `<s>`
            piece, blank, count = entry.removesuffix(" #fairseq:overwrite").rpartition(" ")
            if not blank or not re.fullmatch(r"[+-]?\d+", count):
                raise ValueError(f"line {number:,} is not a piece and its count")
            if piece in known and not again:
                raise ValueError(f"line {number:,} has a piece that was there before")
            known.add(piece)
            pieces.append(piece)
            counts.append(int(count))
    except ValueError as error:  # a wrong encoding, too
        raise ModelError(f"not a fairseq dictionary ({one_line(error)})", file=str(path)) from None
    return Dictionary(pieces, counts)
