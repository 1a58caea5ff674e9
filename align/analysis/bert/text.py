"""Learns a tokenizer, and converts lines of text to pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from align.analysis.bert.segments import CLS, SEP, SPECIAL, UNK, Text
from align.core.stream import chunks
from align.io.output import replace_file
from align.io.reader import open_lines, read_lines

SENTENCE_ENDS = (".", "?", "!")
INSIDE = "##"
AT_ONCE = 10_000
"""Number of lines that are tokenised together."""


def read_texts(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the non-blank lines of files."""
    for path in paths:
        with open_lines(str(path)) as stream:
            for line in read_lines(stream, str(path)):
                if line.strip():
                    yield line


def learn_tokenizer(lines: Iterator[str], pieces: int, lower: bool) -> Any:
    """Learn WordPieces, and return a tokenizer that adds [CLS] and [SEP].

    The library orders equally frequent pieces arbitrarily: another run may learn some others.

    Args:
        pieces: maximum number of pieces, special pieces included.
        lower: whether to lower-case text and remove its accents.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=pieces, min_frequency=2, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(piece, SPECIAL.index(piece)) for piece in (CLS, SEP)],
    )
    return tokenizer


def number(lines: Iterator[str], tokenizer: Any) -> Text:
    """Convert a text to pieces; lines without a piece are skipped."""
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    if len(names) > 1 << 16:
        raise ValueError(f"{len(names):,} pieces are more than {1 << 16:,}")
    parts, lengths = [np.zeros(0, np.uint16)], [0]
    for chunk in chunks(lines, AT_ONCE):
        for encoding in tokenizer.encode_batch(chunk, add_special_tokens=False):
            if encoding.ids:
                parts.append(np.array(encoding.ids, np.uint16))
                lengths.append(len(encoding.ids))
    if len(lengths) == 1:
        raise ValueError("there is no text to train on")
    return Text(
        np.concatenate(parts),
        np.cumsum(lengths),
        np.array([not name.startswith(INSIDE) for name in names]),
        np.array([name in SENTENCE_ENDS for name in names]),
    )


def split(text: Text, valid: int) -> tuple[Text, Text]:
    """Split a text into all lines but the last `valid`, to train on, and these, to validate on."""
    place = len(text) - valid
    middle = text.starts[place]
    train = replace(text, ids=text.ids[:middle], starts=text.starts[: place + 1])
    return train, replace(text, ids=text.ids[middle:], starts=text.starts[place:] - middle)


def save_text(text: Text, path: Path) -> None:
    """Write a text in pieces, atomically."""
    with replace_file(str(path)) as out:
        np.savez(out, **vars(text))


def load_text(path: Path) -> Text:
    """Read a text that `save_text` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        return Text(**{field.name: arrays[field.name] for field in fields(Text)})
