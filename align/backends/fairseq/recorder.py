"""Encoder-decoder attention of any fairseq Transformer checkpoint, through hooks on its own modules."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from torch import Tensor

from align.attention.merging import NULL
from align.text.preprocess import Preprocessor
from align.types import Batch, CrossAttention, Pair, Pieces, Search

if TYPE_CHECKING:
    from align.backends.base import Translator
    from align.backends.model_folder import ModelFolder

_recorders: WeakSet[FairseqAttention] = WeakSet()
"""All recorders of the process, for a fork to find."""


class _Recorded(Exception):
    """The attention of the last layer asked for has been recorded; the decoder need not compute any more."""


class FairseqAttention:
    """A fairseq Transformer that shows its encoder-decoder attention; see `AttentionRecorder` for the attributes.

    The decoder is run only up to the cross-attention of the last layer asked for: no later layer, no projection onto
    the vocabulary.

    Threads may share it: they take turns, because hooks, masks and beam sizes are kept in the model's modules. A forked
    child has one CPU thread: OpenMP's other threads stay in the parent, and torch would wait for them for ever.

    Args:
        model: a fairseq encoder-decoder Transformer.
        dictionary: either side's, for the ids of its special symbols.
        name: for messages.

    Attributes:
        model: the same.
    """

    def __init__(self, model: Any, *, dictionary: Any, name: str) -> None:
        model.eval()  # which returns nothing where fairseq has made the model ready for its beam search
        self.model = model
        # only now: in training fairseq's LayerDrop leaves some layers out of this list
        self._attentions = [layer.encoder_attn for layer in model.decoder.layers]
        self._eos = dictionary.eos()
        self.pad = dictionary.pad()
        self.name = name
        self.layers = len(self._attentions)
        self.heads = self._attentions[0].num_heads
        self.device = str(next(model.parameters()).device)
        self._turn = threading.RLock()
        _recorders.add(self)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other threads from using the model until the context ends."""
        with self._turn:
            yield

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention of the given layers (from 1), lowest first; see `Recorder.record`."""
        return iter(self._record(batch, sorted(layers)))

    @torch.no_grad()
    def _record(self, batch: Batch, layers: Sequence[int]) -> list[CrossAttention]:
        source = batch.source.to(self.device)
        # Pads at the end of the target are hidden from all before them by the causal mask. Read as </s> they
        # need no mask of their own, which would cost [B, H, T, T] in each layer.
        target = batch.target.masked_fill(batch.target == self.pad, self._eos)
        steps = torch.nn.functional.pad(target, (1, 0), value=self._eos).to(self.device)  # [B, T+1]
        recorded: list[CrossAttention] = []
        with self.alone(), self._hooked(layers, recorded), _one_beam(self._attentions), suppress(_Recorded):
            encoded = self.model.encoder(source, src_lengths=(source != self.pad).sum(1))
            self.model.decoder(steps, encoder_out=encoded, features_only=True)
        return recorded

    @contextmanager
    def _hooked(self, layers: Sequence[int], recorded: list[CrossAttention]) -> Iterator[None]:
        """Let a forward pass append the attention of these layers to `recorded`, and end after the last of them."""
        handles: list[Any] = []
        try:
            for layer in layers:
                handles += self._hook(layer, layer == layers[-1], recorded)
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, layer: int, last: bool, recorded: list[CrossAttention]) -> list[Any]:
        """Hook one layer so that a forward pass appends its attention to `recorded`."""
        attention = self._attentions[layer - 1]
        heads = attention.num_heads
        value: list[Tensor] = []

        def ask_for_weights(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**kwargs, "need_weights": True, "need_head_weights": True}

        def keep_value(module: Any, args: Any, output: Tensor) -> None:
            value.append(output)  # [S, B, D]

        def keep_all(module: Any, args: Any, output: tuple[Tensor, Tensor]) -> None:
            weights = output[1].transpose(0, 1)  # [B, H, T+1, S]
            flat, size = value.pop(), module.head_dim  # [S, B, D]
            values = flat.view(*flat.shape[:2], heads, size).permute(1, 2, 0, 3)  # [B, H, S, d]
            out_proj = module.out_proj.weight.view(-1, heads, size).permute(1, 2, 0)  # [H, d, D]
            recorded.append(CrossAttention(layer, weights, values, out_proj))
            if last:
                raise _Recorded

        return [
            attention.register_forward_pre_hook(ask_for_weights, with_kwargs=True),
            attention.v_proj.register_forward_hook(keep_value),
            attention.register_forward_hook(keep_all),
        ]


class FairseqRecorder(FairseqAttention):
    """A fairseq Transformer with its text processing; see `Recorder` for the attributes.

    Args:
        model: a fairseq encoder-decoder Transformer.
        source: the source side's preprocessing.
        target: the target side's.
        dictionary: either side's, for the ids of its special symbols.
        name: for the signature.
        text: how either side's text is prepared, for messages.
        origin: what `align.backends.fairseq.model.load_again` loads the same from, so that it can be pickled.

    Attributes:
        rules: how the (source, target) side's text is prepared.
    """

    def __init__(
        self,
        model: Any,
        source: Preprocessor,
        target: Preprocessor,
        *,
        dictionary: Any,
        name: str,
        text: str,
        origin: tuple[ModelFolder, str, str] | None = None,
    ) -> None:
        super().__init__(model, dictionary=dictionary, name=name)
        self._origin = origin
        self._source, self._target = source, target
        self.rules = (source.rules, target.rules)
        self.languages = (source.rules.language, target.rules.language)
        self.unk = dictionary.unk()
        self.text = text
        self.max_positions = (int(model.encoder.max_positions()), int(model.decoder.max_positions()))
        self.dtype = str(next(model.parameters()).dtype).removeprefix("torch.")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled is where the model was loaded from, and not its weights.

        Raises:
            TypeError: it was not loaded, but made of a model.
        """
        from align.backends.fairseq.model import load_again  # which makes recorders

        if self._origin is None:
            raise TypeError(f"{self.name} cannot be pickled: only what align.load has loaded can be loaded again")
        return load_again, (self.name, *self._origin)

    def encode(self, pair: Pair) -> Pieces:
        """The model's pieces of one pair; `</s>` ends the source."""
        source, source_words = self._source(pair.source)
        target, target_words = self._target(pair.target)
        words = len(pair.source), len(pair.target)
        return Pieces([*source, self._eos], [*source_words, NULL], target, target_words, words)

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """What translates with this model, by fairseq's beam search."""
        from align.backends.fairseq.translator import FairseqTranslator  # which is made of a recorder

        return FairseqTranslator(self, search, batch_tokens)


@contextmanager
def _one_beam(attentions: Sequence[Any]) -> Iterator[None]:
    """Read one row for each source: after a beam search, BART's attention expects each source once for each beam."""
    beams = [(attention, attention.beam_size) for attention in attentions if hasattr(attention, "beam_size")]
    try:
        for attention, _ in beams:
            attention.beam_size = 1
        yield
    finally:
        for attention, size in beams:
            attention.beam_size = size


def _before_fork() -> None:
    """Wait for calls that are under way: a child's copy of the model would keep their hooks for ever."""
    for recorder in _recorders:
        _held.append(recorder)
        recorder._turn.acquire()


def _after_fork() -> None:
    while _held:
        _held.pop()._turn.release()


def _after_fork_in_child() -> None:
    """Go on without OpenMP's threads, which stay in the parent."""
    if _held:
        torch.set_num_threads(1)
    _after_fork()


_held: list[FairseqAttention] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
