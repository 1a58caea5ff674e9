"""Pieces of both languages: sentencepiece BPE, trained on the training text or copied from a model."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from align.training.recipe import TextRecipe


def make_pieces(
    folder: Path, languages: Sequence[str], text: TextRecipe, say: Callable[[str], None], given: Sequence[Path | None]
) -> None:
    """Write LANG.spm for each language.

    Args:
        folder: contains train.tokens.LANG; output folder for LANG.spm.
        given: sentencepiece model to copy, per language; None trains one.

    Raises:
        ValueError: the text is too small for this number of pieces.
    """
    for language, model in zip(languages, given, strict=True):
        path = folder / f"{language}.spm"
        if model:
            shutil.copyfile(model, path)
        else:
            say(f"learning {text.vocabulary:,} pieces of {language}")
            learn_pieces(folder / f"train.tokens.{language}", path, language, text)


def learn_pieces(tokens: Path, path: Path, language: str, text: TextRecipe) -> None:
    """Train sentencepiece BPE.

    Args:
        tokens: the training text in tokens, one sentence per line.
    """
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()  # not a file, whose name would be stored in the model
    try:
        with tokens.open(encoding="utf-8", newline="\n") as lines:
            SentencePieceTrainer.train(
                sentence_iterator=(line.removesuffix("\n") for line in lines),
                model_writer=model,
                model_type="bpe",
                vocab_size=text.vocabulary,
                add_dummy_prefix=text.dummy_prefix,
                max_sentence_length=1 << 16,
                input_sentence_size=5_000_000,
                shuffle_input_sentence=True,
                minloglevel=2,
            )
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().split("\n")[-1]
        raise ValueError(f"sentencepiece cannot learn {text.vocabulary:,} pieces of {language}: {reason}") from None
    path.write_bytes(model.getvalue())
