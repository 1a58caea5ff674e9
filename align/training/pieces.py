"""Learning a language's pieces: sentencepiece BPE on its training text."""

from __future__ import annotations

import io
from pathlib import Path

from align.training.recipe import TextRecipe


def learn_pieces(tokens: Path, path: Path, language: str, text: TextRecipe) -> None:
    """Train sentencepiece BPE.

    Args:
        tokens: the training text in tokens, a sentence a line.
        path: gets the sentencepiece model.
        language: for the error.
        text: how many pieces, and whether with a dummy prefix.

    Raises:
        ValueError: the text is too small for so many pieces.
        OSError: a file cannot be read or written.
    """
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()  # not a file, whose name would stay in the model for ever
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
