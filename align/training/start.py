"""Files of an initial model for training, used instead of random weights; it shares one or both languages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Start:
    """An initial model.

    Attributes:
        pieces: sentencepiece models of source and target; None for a side whose language changes, which gets new pieces
            and a new dictionary.
    """

    name: str
    languages: tuple[str, str]
    checkpoint: Path
    dictionaries: tuple[Path, Path]
    pieces: tuple[Path | None, Path | None]

    @property
    def kept(self) -> tuple[Path | None, Path | None]:
        """The dictionaries of the sides that keep their language; None for the others."""
        (source, target), pieces = self.dictionaries, self.pieces
        return source if pieces[0] else None, target if pieces[1] else None

    def describe(self) -> str:
        """Return the model's name and the parts of it that are used, in Markdown."""
        shared = [language for language, pieces in zip(self.languages, self.pieces, strict=True) if pieces]
        return f"`{self.name}`, its weights and " + ("pieces" if len(shared) == 2 else f"{shared[0]} pieces")

    def files(self) -> Iterator[Path]:
        """Yield all files."""
        yield from (self.checkpoint, *self.dictionaries, *filter(None, self.pieces))
