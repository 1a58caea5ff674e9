"""The files of a model that training begins with, of both languages or one, in place of random weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Start:
    """A model to begin with.

    Attributes:
        name: for signatures.
        languages: its source and target.
        checkpoint: its weights.
        dictionaries: of its source and target.
        pieces: sentencepiece models of source and target; None for a side that is to be of another language, which gets
            pieces and a dictionary of its own.
    """

    name: str
    languages: tuple[str, str]
    checkpoint: Path
    dictionaries: tuple[Path, Path]
    pieces: tuple[Path | None, Path | None]

    @property
    def kept(self) -> tuple[Path | None, Path | None]:
        """The dictionaries that stay: those of the sides that keep their language."""
        (source, target), pieces = self.dictionaries, self.pieces
        return source if pieces[0] else None, target if pieces[1] else None

    def describe(self) -> str:
        """The model and what is kept of it, in Markdown."""
        kept = [language for language, pieces in zip(self.languages, self.pieces, strict=True) if pieces]
        return f"`{self.name}`, its weights and " + ("pieces" if len(kept) == 2 else f"{kept[0]} pieces")

    def files(self) -> Iterator[Path]:
        """All of them."""
        yield from (self.checkpoint, *self.dictionaries, *filter(None, self.pieces))
