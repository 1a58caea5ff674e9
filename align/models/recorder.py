"""What a model of this package offers beyond `align.core.backend.Recorder`: the model itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from align.core.backend import Recorder
from align.core.types import Batch
from align.models.engine.forward import Padded, Transformer


class OpenRecorder(Recorder, Protocol):
    """A recorder whose model is at hand, as that of each backend here is: what more than cross-attention is read off.

    Attributes:
        transformer: the model.
        special: pieces that are part of no word, by id, of the (source, target) side.
        start: ids that the decoder reads before a target's pieces.
    """

    transformer: Transformer
    special: tuple[Mapping[int, str], Mapping[int, str]]
    start: Sequence[int]

    def padded(self, batch: Batch) -> tuple[Padded, Padded]:
        """What the encoder reads `[B, S]`, and what the decoder reads `[B, T]`, on the model's device."""
        ...

    def own_model(self) -> Any:
        """The same model as its framework's own module, which can be trained; loaded when it is first asked for.

        Raises:
            ValueError: the framework cannot build it.
            ModuleNotFoundError: the framework is not installed.
        """
        ...
