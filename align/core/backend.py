"""The protocol of a model that shows its encoder-decoder attention; implement it to add a model format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from align.core.types import Batch, CrossAttention, Pair, Pieces, Search

if TYPE_CHECKING:
    from torch import Tensor


class AttentionRecorder(Protocol):
    """A trained encoder-decoder Transformer that shows its attention."""

    name: str  # for the signature: backend, languages and fingerprint, such as "fairseq:de-en@1f3c9a2"
    layers: int
    heads: int
    pad: int

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Yield the attention of some layers (from 1), lowest first, in one pass under teacher forcing.

        The batch is on the CPU; attention may be on any device, and pads get none. The decoder reads `</s>` and the
        pieces of the target: T+1 rows.
        """
        ...


class Recorder(AttentionRecorder, Protocol):
    """A model with its text processing, pickled with its aligner; see `align.models.recorder.FolderRecorder`."""

    languages: tuple[str, str]  # codes of source and target
    max_positions: tuple[int, int]  # limit of source and target pieces, </s> included
    unk: int  # id of unknown pieces
    text: str  # how the text of each side is prepared, for messages
    dtype: str  # precision of matrix products, such as "float32"
    device: str  # where the tensors are, for messages
    raw: bool  # whether it was trained on text that is not tokenised, as far as known
    multilingual: bool  # between several pairs of languages, of which options name one
    prompted: bool  # whether it is decoder-only: pieces of a source are those of prompt and translation, and no beam

    def encode(self, pair: Pair) -> Pieces:
        """Return the model's pieces of a pair; a side may have no pieces except `</s>`.

        Unknown words become `unk`; no words raise an error. A pair given as ids keeps them; see
        `align.models.ids.pieces_of`.
        """
        ...

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        """Return the written form of the pieces of each source and each target word that `encode` returns."""
        ...

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """Return a translator with this model, for batches of a number of source pieces."""
        ...


class Translator(Protocol):
    """A model that translates."""

    search: Search
    longest: int  # limit of source pieces, </s> included

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Translate sentences, given as the source pieces of `Recorder.encode`; return the words of each, in order.

        Words contain no line ends and no `|||`; a translation may be empty. UNKNOWN of `align.models.detokenize` stands
        for each unknown piece.
        """
        ...


@runtime_checkable
class StateRecorder(AttentionRecorder, Protocol):
    """An encoder, which reads both sides by themselves and shows its states; its `record` raises a ModelError."""

    def states(self, batch: Batch, layers: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the states after some layers (from 1), lowest first: of sources `[B, S, D]` and targets `[B, T, D]`."""
        ...
