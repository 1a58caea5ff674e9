"""Kinds of pieces: special ones by name, full stops and commas, and the rest (Kobayashi et al. 2020, section 4)."""

from __future__ import annotations

from align.analysis.maps import SPECIAL, Tokens
from align.models.ids import BEGINNINGS, CONTINUED, ENDING

INSIDE = "##"
"""What BERT's WordPiece puts before each piece but a word's first."""

STOPS = (".", ",")

PUNCTUATION, REST = ". and ,", "rest"


def bare(piece: str) -> str:
    """A piece without the marks of where a word begins or ends."""
    for mark in (*BEGINNINGS, INSIDE):
        piece = piece.removeprefix(mark) or piece
    for mark in (CONTINUED, ENDING):
        piece = piece.removesuffix(mark) or piece
    return piece


def categories(tokens: Tokens) -> list[str]:
    """The kind of each piece: a special one's own name, PUNCTUATION, or REST."""
    return [
        piece if word == SPECIAL else PUNCTUATION if bare(piece) in STOPS else REST
        for piece, word in zip(tokens.pieces, tokens.words, strict=True)
    ]
