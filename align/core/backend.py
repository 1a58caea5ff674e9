"""What a backend is: a model that can show its encoder-decoder attention. Read this to add one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from align.core.pieces import IdPair
from align.core.settings import Search
from align.core.types import Batch, CrossAttention, Pair, Pieces


class AttentionRecorder(Protocol):
    """A trained encoder-decoder Transformer that shows its attention.

    Attributes:
        name: for messages.
        layers: number of decoder layers.
        heads: attention heads in each of them.
        pad: dictionary id of padding.
    """

    name: str
    layers: int
    heads: int
    pad: int

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention of the given layers (from 1), lowest first, in one pass under teacher forcing, no gradient.

        The batch is on the CPU; attention may be on any device, and pads get none of it. The decoder reads `</s>` and
        the target's pieces, so that there are T+1 rows.
        """
        ...


class Recorder(AttentionRecorder, Protocol):
    """The same, model and text processing together; aligners are pickled with theirs, see `FairseqRecorder.__reduce__`.

    Attributes:
        languages: codes of the (source, target) language.
        name: for the signature, such as "fairseq:de-en@1f3c9a2": its key in `align.models.load.BACKENDS`, languages,
            fingerprint.
        max_positions: the most pieces that the model takes on the (source, target) side, `</s>` included.
        unk: dictionary id of pieces that the model does not know.
        text: how either side's text is prepared, for messages.
        dtype: of the model's arithmetic, such as "float32".
        device: where its tensors live, for messages.
    """

    languages: tuple[str, str]
    max_positions: tuple[int, int]
    unk: int
    text: str
    dtype: str
    device: str

    def encode(self, pair: Pair) -> Pieces:
        """The model's pieces of one pair; either side may come out empty of pieces but for `</s>`.

        A word that the model does not know becomes `unk`: whatever the words are, this raises nothing.
        """
        ...

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        """How the pieces are written that `encode` gives for each source and each target word."""
        ...

    def given(self, pair: IdPair) -> Pieces:
        """The pieces of a pair that is given as this model's ids; see `IdPair.pieces`."""
        ...

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """What translates with this model, in batches of so many source pieces."""
        ...


class Translator(Protocol):
    """A recorder's model that translates.

    Attributes:
        search: how.
        longest: the most pieces of a source that it takes, `</s>` included.
    """

    search: Search
    longest: int

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Translate sentences, given as the pieces of `Recorder.encode`: the words of each, in order.

        No word tears a line `translation ||| links`; a translation may have no word at all. UNKNOWN of
        `align.models.detokenize` stands for each unknown piece.
        """
        ...
