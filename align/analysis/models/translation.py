"""Translation models of any backend as `Inspected`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from align.analysis.maps import Encoded, Inspected, Maps, States, Tokens
from align.analysis.recording import Inside, sentence_maps
from align.core.scores import NULL, collate
from align.core.types import Pair, Part, Pieces
from align.models.recorder import ModelRecorder


class TranslationModel(Inspected):
    """A translation model that provides the attention of its encoder, decoder and cross-attention; see `Inspected`.

    The decoder's rows are its steps: the first reads the decoder's start, usually `</s>`.
    """

    def __init__(self, recorder: ModelRecorder) -> None:
        self.recorder, self.name = recorder, recorder.name
        self._inside = Inside(recorder.transformer)
        self.shape = self._inside.shape

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        """See `Inspected`."""
        if not pair.source or (decoded and not pair.target):
            return None
        pieces = self.recorder.encode(pair)
        limits = self.recorder.max_positions
        lengths = len(pieces.source), len(pieces.target)
        fits = lengths[0] <= limits[0] and lengths[1] < limits[1]
        self.too_long += not fits
        return Encoded(pair, pieces, lengths) if fits and max(pieces.source_words) >= 0 else None

    def read_batch(self, batch: Sequence[Encoded], parts: Collection[Part]) -> Iterator[Mapping[Part, Maps]]:
        """See `Inspected`."""
        source, steps = self.recorder.padded(collate([encoded.input for encoded in batch], self.recorder.pad))
        recorded = self._inside.record(source, steps if {"decoder", "cross"} & set(parts) else None, parts)
        layers = {part: [layer for layer in recorded if layer.part == part] for part in parts}
        for n, encoded in enumerate(batch):
            columns, rows = self._tokens(encoded.pair, encoded.input)
            sides = {"encoder": (columns, columns), "decoder": (rows, rows), "cross": (rows, columns)}
            yield {part: sentence_maps(of_part, n, *sides[part]) for part, of_part in layers.items()}

    def batch_states(self, batch: Sequence[Encoded]) -> Iterator[States]:
        """See `Inspected`."""
        source, _ = self.recorder.padded(collate([encoded.input for encoded in batch], self.recorder.pad))
        states = self._inside.states(source).numpy(force=True)  # [B, L+1, S, D]
        for encoded, layers in zip(batch, states, strict=True):
            tokens, _ = self._tokens(encoded.pair, encoded.input)
            yield tokens, layers[:, : len(tokens)]

    def _tokens(self, pair: Pair, pieces: Pieces) -> tuple[Tokens, Tokens]:
        """Return the inputs of the encoder and of the decoder."""
        spelt = self.recorder.spell(pair)
        start = self.recorder.start
        ids: tuple[Sequence[int], ...] = (pieces.source, [*start, *pieces.target])
        words = (pieces.source_words, [*(NULL for _ in start), *pieces.target_words])
        sides = []
        for side, text in enumerate((pair.source, pair.target)):
            special, rest = self.recorder.special[side], [iter(pieces) for pieces in spelt[side]]
            names = (  # the spelling of pieces, and the names of special ones
                special.get(n, f"<{n}>") if word < 0 else next(rest[word])
                for n, word in zip(ids[side], words[side], strict=True)
            )
            sides.append(Tokens(tuple(names), tuple(words[side]), text))
        return sides[0], sides[1]
