"""Translation models of any backend as `Inspected`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from align.analysis.maps import Reading, States, Tokens
from align.analysis.models.stream import Encoded, in_order, sentence_maps
from align.analysis.recording import Inside
from align.core.batching import BATCH_TOKENS
from align.core.merging import NULL, collate
from align.core.types import Pair, Part, Pieces
from align.models.recorder import ModelRecorder


class TranslationModel:
    """A translation model whose encoder, decoder and cross-attention are shown; see `Inspected`.

    The decoder's rows are its steps: the first reads what the model's decoder starts with, usually `</s>`.

    Args:
        recorder: the model.
        batch_tokens: pieces in a batch.

    Attributes:
        recorder: the same.
    """

    def __init__(self, recorder: ModelRecorder, batch_tokens: int = BATCH_TOKENS) -> None:
        self.recorder = recorder
        self.name = recorder.name
        self._inside = Inside(recorder.transformer)
        self.shape: Mapping[Part, tuple[int, int]] = self._inside.shape
        self._batch_tokens = batch_tokens

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """See `Inspected.read`."""
        decoded = bool({"decoder", "cross"} & set(parts))

        def run(batch: Sequence[Encoded[Pieces]]) -> Iterator[Reading]:
            source, steps = self.recorder.padded(collate([one.input for one in batch], self.recorder.pad))
            recorded = list(self._inside.record(source, steps if decoded else None, parts))
            layers = {part: [layer for layer in recorded if layer.part == part] for part in parts}
            for n, one in enumerate(batch):
                source_side, target_side = self._tokens(one.pair, one.input)
                sides = {
                    "encoder": (source_side, source_side),
                    "decoder": (target_side, target_side),
                    "cross": (target_side, source_side),
                }
                yield Reading(one.pair, {part: sentence_maps(found, n, *sides[part]) for part, found in layers.items()})

        def encode(pair: Pair) -> Encoded[Pieces] | None:
            return self._encode(pair, decoded)

        return in_order(pairs, encode, run, lambda pair: Reading(pair, {}), self._batch_tokens)

    def states(self, pairs: Iterable[Pair]) -> Iterator[States]:
        """See `Layered.states`."""

        def run(batch: Sequence[Encoded[Pieces]]) -> Iterator[States]:
            source, _ = self.recorder.padded(collate([one.input for one in batch], self.recorder.pad))
            states = self._inside.states(source).numpy(force=True)  # [B, L+1, S, D]
            for n, one in enumerate(batch):
                tokens, _ = self._tokens(one.pair, one.input)
                yield States(one.pair, tokens, states[n, :, : len(tokens)])

        return in_order(
            pairs,
            lambda pair: self._encode(pair, False),
            run,
            lambda pair: States(pair, None, None),
            self._batch_tokens,
        )

    def _encode(self, pair: Pair, decoded: bool) -> Encoded[Pieces] | None:
        """The pieces of a pair, if there are any and the model takes so many."""
        if not pair.source or (decoded and not pair.target):
            return None
        pieces = self.recorder.encode(pair)
        most = self.recorder.max_positions
        lengths = len(pieces.source), len(pieces.target)
        fits = lengths[0] <= most[0] and lengths[1] < most[1]
        return Encoded(pair, pieces, lengths) if fits and max(pieces.source_words) >= 0 else None

    def _tokens(self, pair: Pair, pieces: Pieces) -> tuple[Tokens, Tokens]:
        """What the encoder and what the decoder reads."""
        spelt = self.recorder.spell(pair)
        start = self.recorder.start
        ids: tuple[Sequence[int], ...] = (pieces.source, [*start, *pieces.target])
        words = (pieces.source_words, [*(NULL for _ in start), *pieces.target_words])
        source, target = (
            Tokens(_names(ids[side], words[side], spelt[side], self.recorder.special[side]), tuple(words[side]), text)
            for side, text in enumerate((pair.source, pair.target))
        )
        return source, target


def _names(
    ids: Sequence[int], words: Sequence[int], spelt: Sequence[Sequence[str]], special: Mapping[int, str]
) -> tuple[str, ...]:
    """How pieces are written, special ones by their names."""
    rest = [iter(pieces) for pieces in spelt]
    return tuple(special.get(n, f"<{n}>") if word < 0 else next(rest[word]) for n, word in zip(ids, words, strict=True))
