"""Translation models of any backend as `Inspected`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from align.analysis.maps import Reading, States, Tokens
from align.analysis.models.stream import Encoded, in_order, sentence_maps
from align.analysis.recording import Inside
from align.core.scores import NULL, collate
from align.core.stream import BATCH_TOKENS
from align.core.types import Pair, Part, Pieces
from align.models.recorder import ModelRecorder


class TranslationModel:
    """A translation model that provides the attention of its encoder, decoder and cross-attention; see `Inspected`.

    The decoder's rows are its steps: the first reads the decoder's start, usually `</s>`.

    Args:
        recorder: the model.
        batch_tokens: pieces in a batch.

    Attributes:
        recorder: the model.
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
            source, steps = self.recorder.padded(collate([encoded.input for encoded in batch], self.recorder.pad))
            recorded = list(self._inside.record(source, steps if decoded else None, parts))
            layers = {part: [layer for layer in recorded if layer.part == part] for part in parts}
            for n, encoded in enumerate(batch):
                source_side, target_side = self._tokens(encoded.pair, encoded.input)
                sides = {
                    "encoder": (source_side, source_side),
                    "decoder": (target_side, target_side),
                    "cross": (target_side, source_side),
                }
                yield Reading(
                    encoded.pair,
                    {part: sentence_maps(recorded_layers, n, *sides[part]) for part, recorded_layers in layers.items()},
                )

        def encode(pair: Pair) -> Encoded[Pieces] | None:
            return self._encode(pair, decoded)

        return in_order(pairs, encode, run, lambda pair: Reading(pair, {}), self._batch_tokens)

    def states(self, pairs: Iterable[Pair]) -> Iterator[States]:
        """See `Layered.states`."""

        def run(batch: Sequence[Encoded[Pieces]]) -> Iterator[States]:
            source, _ = self.recorder.padded(collate([encoded.input for encoded in batch], self.recorder.pad))
            states = self._inside.states(source).numpy(force=True)  # [B, L+1, S, D]
            for n, encoded in enumerate(batch):
                tokens, _ = self._tokens(encoded.pair, encoded.input)
                yield States(encoded.pair, tokens, states[n, :, : len(tokens)])

        return in_order(
            pairs,
            lambda pair: self._encode(pair, False),
            run,
            lambda pair: States(pair, None, None),
            self._batch_tokens,
        )

    def _encode(self, pair: Pair, decoded: bool) -> Encoded[Pieces] | None:
        """Return the pieces of a pair; None if there are none or too many for the model."""
        if not pair.source or (decoded and not pair.target):
            return None
        pieces = self.recorder.encode(pair)
        limits = self.recorder.max_positions
        lengths = len(pieces.source), len(pieces.target)
        fits = lengths[0] <= limits[0] and lengths[1] < limits[1]
        return Encoded(pair, pieces, lengths) if fits and max(pieces.source_words) >= 0 else None

    def _tokens(self, pair: Pair, pieces: Pieces) -> tuple[Tokens, Tokens]:
        """Return the inputs of the encoder and of the decoder."""
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
    """Return the spelling of pieces, and the names of special ones."""
    rest = [iter(pieces) for pieces in spelt]
    return tuple(special.get(n, f"<{n}>") if word < 0 else next(rest[word]) for n, word in zip(ids, words, strict=True))
