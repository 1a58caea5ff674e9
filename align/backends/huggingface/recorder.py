"""Hugging Face models that show their encoder-decoder attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from align.attention.merging import NULL
from align.attention.merging import PAD as PAD_WORD
from align.backends.again import load_again
from align.backends.transformer.forward import Padded, Transformer
from align.errors import ModelError
from align.text.preprocess import Preprocessor
from align.types import Batch, CrossAttention, Dtype, Pair, Pieces, Search

if TYPE_CHECKING:
    from align.backends.base import Translator
    from align.backends.model_folder import ModelFolder


class HuggingFaceRecorder:
    """An encoder-decoder Transformer with its text processing; see `Recorder` for the attributes.

    The decoder is run only up to the cross-attention of the last layer asked for. Threads may share it.

    Args:
        transformer: the model.
        sides: preprocessing of the source and of the target.
        surroundings: ids before and after a source's pieces; at least one in all.
        start: ids that the decoder reads before a target's pieces; one or more.
        pad: the id of padding.
        unk: the id of pieces that the model does not know.
        max_positions: the most pieces that the model takes on either side, what surrounds them included.
        name: for the signature.
        languages: codes of the source's and the target's language.
        origin: the folder, device and dtype that the same is loaded from again.
    """

    def __init__(
        self,
        transformer: Transformer,
        sides: tuple[Preprocessor, Preprocessor],
        surroundings: tuple[Sequence[int], Sequence[int]],
        start: Sequence[int],
        *,
        pad: int,
        unk: int,
        max_positions: tuple[int, int],
        name: str,
        languages: tuple[str, str],
        origin: tuple[ModelFolder, str, Dtype],
    ) -> None:
        self._transformer = transformer
        self._sides, self._surroundings = sides, surroundings
        self._start = torch.tensor([start])
        self._origin = origin
        self.name = name
        self.layers = len(transformer.decoder.layers)
        self.heads = transformer.heads
        self.device = str(transformer.device)
        self.dtype: str = origin[2]
        self.pad, self.unk = pad, unk
        self.languages = languages
        self.text = ", ".join(str(side.rules) for side in sides)
        self.max_positions = (max_positions[0], max_positions[1] - len(start) + 1)  # counted with one start

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled is where the model was loaded from, and not its weights."""
        from align.backends.huggingface.model import load_huggingface  # which makes recorders

        return load_again, (load_huggingface, self.name, *self._origin)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention of the given layers (from 1), lowest first; see `Recorder.record`.

        Of several ids that the decoder begins with, the last one takes the part of `</s>`: the row that reads it
        predicts the first piece.
        """
        start = self._start.expand(len(batch.target), -1)
        steps = torch.cat((start, batch.target), 1)
        kept = torch.cat((torch.ones_like(start, dtype=torch.bool), batch.target_words != PAD_WORD), 1)
        source = Padded(batch.source.to(self.device), (batch.source_words != PAD_WORD).to(self.device))
        first = start.shape[1] - 1
        for found in self._transformer.record(
            source, Padded(steps.to(self.device), kept.to(self.device)), sorted(layers)
        ):
            yield replace(found, weights=found.weights[:, :, first:]) if first else found

    def encode(self, pair: Pair) -> Pieces:
        """The model's pieces of one pair; what surrounds the source's is no word."""
        before, after = self._surroundings
        source, source_words = self._sides[0](pair.source)
        target, target_words = self._sides[1](pair.target)
        words = len(pair.source), len(pair.target)
        source_words = [*(NULL for _ in before), *source_words, *(NULL for _ in after)]
        return Pieces([*before, *source, *after], source_words, target, target_words, words)

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """Hugging Face models do not translate here."""
        raise ModelError(f"{self.name} cannot translate here; translate with transformers, and align what comes out")
