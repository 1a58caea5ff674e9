"""Word alignments of fairseq's inputs and outputs: from padded pieces to links of words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from align.core.aligner import align_encoded
from align.core.choice import known_choice
from align.core.scores import NULL, AttentionReader
from align.core.stream import Encoded
from align.core.types import Alignment, Pair, Pieces, Settings, TextWarning
from align.models.fairseq.architecture import attention_of

_BLANK = "\u2581"

SUBWORDS: dict[str, Callable[[str], str]] = {
    "sentencepiece": lambda piece: piece.replace(_BLANK, " "),
    "subword_nmt": lambda piece: piece[:-2] if piece.endswith("@@") else f"{piece} ",
    "@@ ": lambda piece: SUBWORDS["subword_nmt"](piece),
    "none": lambda piece: f"{piece} ",
}
"""Values of fairseq's `--remove-bpe`, with the text that a piece adds to a sentence; words are separated by spaces."""


def join_pieces(pieces: Sequence[str], subwords: str) -> tuple[list[int], list[str]]:
    """Join pieces to words as fairseq's `--remove-bpe` does; return the word of each piece, from 0, and the words.

    A piece without text, e.g. a lone U+2581, belongs to the next word, at the end to the last; -1 if there is
    no word.
    """
    owners: list[int] = []
    words: list[str] = []
    inside = False  # whether the next text continues the last word
    for piece in pieces:
        owner = None
        for position, text in enumerate(SUBWORDS[subwords](piece).split(" ")):
            inside = inside and position == 0
            if text and inside:
                words[-1] += text
            elif text:
                words.append(text)
                inside = True
            if text and owner is None:
                owner = len(words) - 1
        owners.append(len(words) - inside if owner is None else owner)
    return [min(owner, len(words) - 1) for owner in owners], words


class WordAligner:
    """Aligns the words of batches that a fairseq model reads or has generated.

    The model is a Transformer in eval mode, and not changed; `subwords` is the value of `--remove-bpe`, None
    if unset, so that each piece is a word; layer and head of the settings must be fixed.
    """

    def __init__(
        self, model: Any, dictionaries: tuple[Any, Any], subwords: str | None, settings: Settings, name: str
    ) -> None:
        if subwords not in (None, *SUBWORDS):
            known = ", ".join(map(repr, SUBWORDS))
            raise ValueError(f"words are aligned with --remove-bpe {known}, or without it; not with {subwords!r}")
        layers = list(getattr(getattr(model, "decoder", None), "layers", []))
        if not layers or any(getattr(layer, "encoder_attn", None) is None for layer in layers):
            raise ValueError(f"{name} has no encoder-decoder attention in its decoder's layers, so nothing to align by")
        # each piece will count as a word although the dictionaries seem to contain parts of words
        symbols = [symbol for dictionary in dictionaries for symbol in dictionary.symbols] if subwords is None else []
        for joining, present in (
            ("sentencepiece", any(symbol.startswith(_BLANK) for symbol in symbols)),
            ("subword_nmt", any(symbol.endswith("@@") for symbol in symbols)),
        ):
            if present:
                message = f"each piece counts as a word; --remove-bpe {joining} joins them"
                warnings.warn(message, TextWarning, stacklevel=2)
        self._subwords = subwords or "none"
        self._dictionaries = dictionaries
        recorder = attention_of(model, name=name)
        choice = known_choice(recorder, settings, {})
        if choice is None:
            raise ValueError("layer and head must be fixed: fairseq shows one batch at a time, too little to choose by")
        self._place = choice.place
        self._reader = AttentionReader(recorder, settings.score, settings.null, settings.threshold)

    def __call__(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Alignment]:
        """Return the alignments of B pairs, in order."""
        pairs = enumerate(zip(sources, targets, strict=True), 1)
        items = [self._encode(number, *pair) for number, pair in pairs]
        return list(align_encoded(self._reader, items, self._place))

    def _encode(self, number: int, source_ids: Tensor, target_ids: Tensor) -> Encoded:
        """Return the aligner's input for a pair: words joined, no padding, no `</s>` in the target."""
        source, source_words, words = self._read(source_ids, self._dictionaries[0])
        target, target_words, written = self._read(target_ids, self._dictionaries[1])
        if target and target[-1] == self._dictionaries[1].eos():
            del target[-1], target_words[-1]
        pair = Pair(tuple(words), tuple(written), number)
        if pair.blank:
            return Encoded(pair, None)
        return Encoded(pair, Pieces(source, source_words, target, target_words, (len(words), len(written))))

    def _read(self, row: Tensor, dictionary: Any) -> tuple[list[int], list[int], list[str]]:
        """Return the ids of a row without padding, the word of each (NULL for special symbols), and the words."""
        ids = [number for number in row.tolist() if number != dictionary.pad()]
        special = {dictionary.bos(), dictionary.eos()}  # which fairseq does not print
        owners, words = join_pieces([dictionary[number] for number in ids if number not in special], self._subwords)
        owner = iter(owners)
        return ids, [NULL if number in special else next(owner) for number in ids], words
