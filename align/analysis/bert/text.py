"""Learns a tokenizer, converts text to pieces, and makes training examples of a BERT (Devlin et al. 2019, section 3.1).

An example has one or two segments, with some pieces hidden. Lines may be in any order. Two segments are a line cut in
two, after a sentence if it has several; in half of these pairs the second part comes from another line. Most texts that
are analysed with these models are one segment, and some are long: so half of all examples are an unchanged line, and a
few are consecutive lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.core.stream import batches, chunks
from align.io.output import replace_file
from align.io.reader import open_lines, read_lines

Ids = NDArray[np.int64]
Random = np.random.Generator

PAD, UNK, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Special pieces; the id of each is its index here."""

JOINED, SINGLE = 0.03, 0.5
"""Shares of examples: consecutive lines, and single lines. The rest are pairs of segments."""

HIDDEN, KEPT, REPLACED = 0.15, 0.1, 0.1
"""Share of pieces to predict, and shares of these that stay visible or are replaced by a random piece."""

NOT_ASKED = -100
"""Label of positions without a prediction, which torch's cross-entropy ignores."""

READ_AHEAD = 8000
"""Number of lines that are sorted by length together."""


@dataclass(frozen=True)
class Text:
    """A text in pieces."""

    ids: NDArray[np.uint16]  # ids of all lines, one after another `[N]`
    starts: Ids  # start of each line in `ids`, and the end of the last `[lines + 1]`
    begins: NDArray[np.bool_]  # by id, whether a piece begins a word `[V]`
    ends: NDArray[np.bool_]  # by id, whether a piece ends a sentence `[V]`

    def __len__(self) -> int:
        return len(self.starts) - 1

    def line(self, number: int) -> Ids:
        """Return the pieces of a line."""
        return self.ids[self.starts[number] : self.starts[number + 1]].astype(np.int64)


class Example(NamedTuple):
    """A training example: pieces `[S]`, the segment of each, and whether the second segment follows the first.

    `second` is 0 if it does, 1 if it comes from another line, NOT_ASKED if there is no second segment.
    """

    ids: Ids
    segments: Ids
    second: int


class Batch(NamedTuple):
    """A batch of padded examples."""

    ids: Ids  # input ids, hidden pieces replaced `[B, S]`
    segments: Ids  # segment of each piece `[B, S]`
    unpadded: NDArray[np.bool_]  # mask of pieces that are not padding `[B, S]`
    pieces: Ids  # ids of the hidden pieces, NOT_ASKED elsewhere `[B, S]`
    second: Ids  # see `Example` `[B]`


def cut(line: Ids, text: Text, random: Random) -> int:
    """Return where to cut a line between words: after a sentence if it has several, else near the middle."""
    begins = np.flatnonzero(text.begins[line])
    places = begins[begins > 0]
    after_sentences = places[text.ends[line[places - 1]]]
    if len(after_sentences):
        return int(random.choice(after_sentences))
    return int(random.choice(places[len(places) // 4 : len(places) - len(places) // 4]))


def example(text: Text, number: int, longest: int, random: Random) -> Example:
    """Make a random example from a line, of at most `longest` pieces, special pieces included."""
    room = longest - len(SPECIAL[2:])
    line = text.line(number)[:room]
    kind = random.random()
    if kind < JOINED:
        start, length = text.starts[number], int(random.integers(room // 4, room + 1))
        line = text.ids[start : start + length].astype(np.int64)
    segments, follows = [line], NOT_ASKED
    if kind >= JOINED + SINGLE and text.begins[line].sum() >= 4:
        place = cut(line, text, random)
        segments, follows = [line[:place], line[place:]], int(random.integers(2))
        if follows:  # 1: not the rest of the line, but part of another
            random_line = text.line(int(random.integers(len(text))))[: room - place]
            if text.begins[random_line].sum() >= 2:
                segments[1] = random_line[cut(random_line, text, random) :]
            else:
                follows = 0
    end = [SPECIAL.index(SEP)]
    ids = np.concatenate([[SPECIAL.index(CLS)], *(part for segment in segments for part in (segment, end))])
    return Example(ids, (np.arange(len(ids)) >= len(segments[0]) + 2).astype(np.int64), follows)


def collate(examples: list[Example], vocabulary: int, random: Random) -> Batch:
    """Pad examples to a batch, and hide some of their pieces; the vocabulary is so large, special pieces included."""
    shape = len(examples), max(len(item.ids) for item in examples)
    ids, segments = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, item in enumerate(examples):
        ids[row, : len(item.ids)] = item.ids
        segments[row, : len(item.ids)] = item.segments
    hidden = (random.random(shape) < HIDDEN) & (ids >= len(SPECIAL))
    pieces = np.where(hidden, ids, NOT_ASKED)
    draws = random.random(shape)
    replacements = random.integers(len(SPECIAL), vocabulary, shape)
    visible = np.where(draws < KEPT, ids, np.where(draws < KEPT + REPLACED, replacements, SPECIAL.index(MASK)))
    mask = np.arange(shape[1]) < np.array([[len(item.ids)] for item in examples])
    return Batch(np.where(hidden, visible, ids), segments, mask, pieces, np.array([item.second for item in examples]))


def training_batches(text: Text, longest: int, tokens: int, seed: int) -> Iterator[Batch]:
    """Yield batches without end, the same for the same seed; each pass reads every line once, in a new order.

    Args:
        text: text in which every line has at least one piece.
        longest: maximum number of pieces of an example.
        tokens: maximum number of pieces of a batch, padding included.
    """
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(len(text))
        for start in range(0, len(order), READ_AHEAD):
            examples = [example(text, n, longest, random) for n in order[start : start + READ_AHEAD]]
            groups = list(batches([(len(item.ids), 0) for item in examples], tokens))
            for n in random.permutation(len(groups)):
                yield collate([examples[m] for m in groups[n]], len(text.begins), random)


# Pieces of a text.

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
