"""Training that begins with a model that is there, of both languages or one, in place of random weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from align.backends.model_folder import find_model
from align.backends.model_toml import ModelOptions
from align.text.preprocess import TextRules
from align.training.recipe import TextRecipe


@dataclass(frozen=True)
class Start:
    """The files of a model to begin with.

    Attributes:
        checkpoint: its weights.
        dictionaries: of its source and target.
        pieces: sentencepiece models of source and target; None for a side of another language, which gets pieces and a
            dictionary of its own.
    """

    checkpoint: Path
    dictionaries: tuple[Path, Path]
    pieces: tuple[Path | None, Path | None]

    @property
    def kept(self) -> tuple[Path | None, Path | None]:
        """The dictionaries that stay: those of the sides that keep their language."""
        (source, target), pieces = self.dictionaries, self.pieces
        return source if pieces[0] else None, target if pieces[1] else None

    def describe(self, name: str, languages: tuple[str, str]) -> str:
        """The model and what is kept of it, in Markdown; `name` is that of its signatures."""
        kept = [language for language, pieces in zip(languages, self.pieces, strict=True) if pieces]
        return f"`{name}`, its weights and pieces" if len(kept) == 2 else f"`{name}`, its weights and {kept[0]} pieces"

    def files(self) -> Iterator[Path]:
        """All of them."""
        yield from (self.checkpoint, *self.dictionaries, *filter(None, self.pieces))


def find_start(model: str, languages: tuple[str, str], text: TextRecipe) -> Start:
    """The model to begin with, if its text is prepared as the recipe's is.

    Args:
        model: name of a bundled model, or the folder of a fairseq model with sentencepiece models of both languages.
        languages: source and target; one of them at least is the model's, on the same side.
        text: the recipe's table.

    Raises:
        ValueError: there is no such model, it is of other languages, or its text is prepared in another way.
    """
    folder = find_model(model, ModelOptions())
    own = (folder.options.source_lang or languages[0], folder.options.target_lang or languages[1])
    if own[0] != languages[0] and own[1] != languages[1]:
        raise ValueError(f"{model}: translates {own[0]} to {own[1]}, not {languages[0]} to {languages[1]}")
    pieces: list[Path | None] = []
    for language, its in zip(languages, own, strict=True):
        rules = folder.rules(its, None)
        wanted = TextRules(its, text.case, text.tokenizer, "sentencepiece", rules.subword_file)
        if rules != wanted or not rules.subword_file:
            raise ValueError(f"{model}: its text is {rules}; the recipe's is {wanted}")
        pieces.append(rules.subword_file if its == language else None)
    source, target = (folder.dictionary(its) for its in own)
    return Start(folder.checkpoint, (source, target), (pieces[0], pieces[1]))
