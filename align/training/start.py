"""Training on from a model that is there, in place of random weights: with its pieces and its dictionaries."""

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
        dictionaries: of source and target.
        pieces: sentencepiece models of source and target.
    """

    checkpoint: Path
    dictionaries: tuple[Path, Path]
    pieces: tuple[Path, Path]

    def files(self) -> Iterator[Path]:
        """All of them."""
        yield from (self.checkpoint, *self.dictionaries, *self.pieces)


def find_start(model: str, languages: tuple[str, str], text: TextRecipe) -> Start:
    """The model to begin with, if its text is prepared as the recipe's is.

    Args:
        model: name of a bundled model, or the folder of a fairseq model with sentencepiece models of both languages.
        languages: source and target.
        text: the recipe's table.

    Raises:
        ValueError: there is no such model, it is of other languages, or its text is prepared in another way.
    """
    folder = find_model(model, ModelOptions())
    own = (folder.options.source_lang or languages[0], folder.options.target_lang or languages[1])
    if own != languages:
        raise ValueError(f"{model}: translates {own[0]} to {own[1]}, not {languages[0]} to {languages[1]}")
    pieces = []
    for language in languages:
        rules = folder.rules(language, None)
        wanted = TextRules(language, text.case, text.tokenizer, "sentencepiece", rules.subword_file)
        if rules != wanted or not rules.subword_file:
            raise ValueError(f"{model}: its text is {rules}; the recipe's is {wanted}")
        pieces.append(rules.subword_file)
    source, target = (folder.dictionary(language) for language in languages)
    return Start(folder.checkpoint, (source, target), (pieces[0], pieces[1]))
