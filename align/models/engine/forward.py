"""The parts of an encoder-decoder Transformer and its forced pass, on the pieces of a batch in a row, without pads.

Letters: B batch, N rows (the pieces in all, and a few more: see `Layout`), S source pieces and T decoder steps of the
longest pair, H heads, D model size, d = D/H.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from align.core import types
from align.core.scores import head_products
from align.core.types import Dtype
from align.models.engine.linear import Linear, Projection


def round_up(rows: int) -> int:
    """Return the next round number: a multiple of 32, at most 16 between two powers of two."""
    step = max(32, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


@dataclass(frozen=True)
class Layout:
    """The places of pieces in a padded batch.

    After the last piece the batch's first place is repeated until N is a round number: torch prepares a product for
    each new number of rows, which takes as long as multiplying some hundred rows, and caches it.
    """

    size: tuple[int, int]  # (B, L) with the length L of the longest row
    positions: Tensor  # of each piece in its row, from 0 [N]
    places: Tensor | None = None  # of the pieces in the flattened batch [N]; None if they are the same
    pieces: Tensor | None = None  # number of the piece at each place [B L]; pads repeat the previous one
    mask: Tensor | None = None  # added to scores of columns [B, 1, 1, L]: -inf for pads; None without any

    @classmethod
    def of(cls, kept: Tensor) -> Layout:
        """Return the layout of a batch from a mask `[B, L]` that is true for pieces; each row begins with one."""
        batch, length = kept.shape
        places = kept.flatten().nonzero()[:, 0]
        count = len(places)
        padded = count < batch * length
        if count < round_up(count):
            places = functional.pad(places, (0, round_up(count) - count))
        elif not padded:
            return cls((batch, length), places % length)
        pieces = kept.flatten().cumsum(0).sub_(1)
        mask = torch.zeros(kept.shape, device=kept.device).masked_fill_(~kept, float("-inf"))
        return cls((batch, length), places % length, places, pieces, mask[:, None, None] if padded else None)

    def pad(self, flat: Tensor) -> Tensor:
        """Return `[B, L, C]` for `[N, C]`; pads repeat the numbers of the previous piece."""
        padded = flat if self.pieces is None else flat.index_select(0, self.pieces)
        return padded.view(*self.size, -1)

    def flatten(self, padded: Tensor) -> Tensor:
        """Return `[N, C]` for `[B, L, C]`."""
        flat = padded.reshape(-1, padded.shape[-1])
        return flat if self.places is None else flat.index_select(0, self.places)


@dataclass(frozen=True)
class Norm:
    """Layer normalisation."""

    weight: Tensor
    bias: Tensor
    epsilon: float = 1e-5

    def __call__(self, x: Tensor) -> Tensor:
        """Return the normalised `[N, D]`."""
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True)
class RootNorm:
    """Layer normalisation by the root of the mean square alone (Zhang and Sennrich 2019)."""

    weight: Tensor
    epsilon: float = 1e-6

    def __call__(self, x: Tensor) -> Tensor:
        """Return the normalised `[..., D]`."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


@dataclass(frozen=True)
class Embedding:
    """Embedding of pieces and their positions."""

    pieces: Tensor  # a vector for each id [V, E], in any number format; see compact_table
    positions: Callable[[int], Tensor] | None  # returns vectors of at least so many positions, from 0 [P, D]
    projections: Sequence[Linear] = ()  # of the vectors of pieces, before their positions are added
    norm: Norm | None = None  # of the sum
    last: Linear | None = None
    scale: float = 1.0  # of the vectors of pieces

    def vectors(self, ids: Tensor) -> Tensor:
        """Return the scaled vectors of ids `[N]`, in float32 `[N, E]`."""
        vectors = self.pieces.index_select(0, ids).float()
        return vectors if self.scale == 1.0 else vectors.mul_(self.scale)

    def __call__(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return vectors `[N, D]` for ids `[N]`."""
        return self._add(ids, layout.size[1], layout.positions)

    def at(self, ids: Tensor, position: int) -> Tensor:
        """Return vectors `[N, D]` for ids `[N]` that are all at one position."""
        return self._add(ids, position + 1, ids.new_full(ids.shape, position))

    def _add(self, ids: Tensor, length: int, positions: Tensor) -> Tensor:
        x = self.vectors(ids)
        for projection in self.projections:
            x = projection(x)
        if self.positions is not None:
            x = x.add_(self.positions(length).index_select(0, positions))
        if self.norm:
            x = self.norm(x)
        return self.last(x) if self.last else x


def compact_table(table: Tensor, dtype: Dtype) -> Tensor:
    """Copy an embedding table, in the smallest number format that the model's `dtype` allows.

    In a multilingual model the table is nearly half of all parameters. 16-bit numbers of a file stay as they are, since
    float32 would add no precision; longer ones become float32, or bfloat16 if products are in bfloat16 or int8.
    """
    if table.dtype in (torch.float16, torch.bfloat16):
        return table.clone()
    return table.to(torch.float32 if dtype == "float32" else torch.bfloat16, copy=True)


class Sinusoids:
    """Positions as sines and cosines, counted from `first`; the table grows on demand.

    Vaswani et al. (2017), section 3.5, with all sines before all cosines. The wavelengths are a geometric progression
    from 2 pi to 10,000 times as much: in tensor2tensor and fairseq, the last sine has the longest; in the paper, and in
    Marian, the next one would have it.
    """

    def __init__(self, size: int, first: int, device: str, beyond: bool = False) -> None:
        self._size, self._first, self._device = size, first, device
        self._steps = size // 2 - (0 if beyond else 1)
        self._table = self._make(256)

    def __call__(self, length: int) -> Tensor:
        """Return a table of at least that many positions `[P, D]`."""
        table = self._table
        if len(table) < length:
            table = self._table = self._make(2 * length)
        return table

    def _make(self, length: int) -> Tensor:
        half = self._size // 2
        speeds = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / self._steps))
        angles = torch.arange(self._first, self._first + length, dtype=torch.float)[:, None] * speeds
        table = torch.cat([angles.sin(), angles.cos()], 1)
        return functional.pad(table, (0, self._size % 2)).to(self._device)


TABLED = 8_000_000  # largest number of values in a table of the first layer's queries, keys and values: 32 MB
FIRST_POSITIONS = 128  # positions whose part of these is computed once

State = tuple[Tensor, ...]
"""What a decoder layer keeps of the pieces so far; the first dimension of each tensor is that of the rows."""


@dataclass(frozen=True)
class SelfAttention:
    """Attention of a sequence to itself, up to the output projection; queries are already scaled by 1/sqrt(d).

    `bias` returns biases of the scores by position `[1, H, L, L]` for a number L of pieces; with a second
    number, of the rows from that one on.
    """

    query_key_value: Linear  # the three projections in one
    heads: int
    causal: bool  # whether each step attends only to itself and those before it
    bias: Callable[..., Tensor] | None = None

    def __call__(self, x: Tensor, layout: Layout, projected: Tensor | None = None) -> Tensor:
        """Return the heads' outputs `[N, D]`; `projected` is `query_key_value(x)`, if known, padded `[B, L, 3 D]`."""
        query, key, value = self._split(layout.pad(self.query_key_value(x)) if projected is None else projected)
        mask = self._mask(layout)
        context = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=self.causal and mask is None, scale=1.0
        )
        return _joined(context, layout)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the heads' outputs `[N, D]` for the next piece of each of N rows, and the new state.

        It holds keys and values of the pieces so far `[N, H, L, d]`, and is empty before the first one.
        """
        projected = self.query_key_value(x).view(len(x), 3, self.heads, 1, -1)
        query, key, value = projected.unbind(1)
        if state:
            key, value = torch.cat((state[0], key), 2), torch.cat((state[1], value), 2)
        length = key.shape[2]
        bias = self.bias(length, length - 1) if self.bias else None  # [1, H, 1, L]
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=1.0)
        return context.reshape(len(x), -1), (key, value)

    def weights(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Return attention weights `[B, H, L, L]` and value vectors `[B, H, L, d]`."""
        query, key, value = self._split(layout.pad(self.query_key_value(x)))
        scores = query @ key.transpose(2, 3)  # [B, H, L, L]
        mask = self._mask(layout)
        if mask is None and self.causal:
            mask = _later(layout.size[1], x.device)
        return (scores if mask is None else scores.add_(mask)).softmax(-1), value

    def context(self, weights: Tensor, values: Tensor, layout: Layout) -> Tensor:
        """Return the weighted sums of values, up to the output projection `[N, D]`."""
        return _joined(weights @ values, layout)

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values `[B, H, L, d]` each, of `[B, L, 3 D]`."""
        query, key, value = projected.view(*projected.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return query, key, value

    def _mask(self, layout: Layout) -> Tensor | None:
        """Return what to add to scores; None if nothing, or only the causal mask."""
        length = layout.size[1]
        if self.bias is None:
            return None if self.causal else layout.mask
        bias = self.bias(length)
        if self.causal:
            return bias + _later(length, bias.device)
        return bias if layout.mask is None else bias + layout.mask


@dataclass(frozen=True)
class SimpleRecurrence:
    """Simpler simple recurrent unit (Kim et al. 2019) in the place of a decoder's self-attention."""

    input_forget: Linear  # the projections of the input and of the forget gate in one
    heads: int  # of the layer's attention to the source

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        """Return the outputs `[N, D]` for `[N, D]`."""
        padded = layout.pad(self.input_forget(x))
        cells: list[Tensor] = []
        cell = padded.new_zeros(len(padded), padded.shape[2] // 2)
        for step in range(layout.size[1]):
            cell = self._advance(padded[:, step], cell)
            cells.append(cell)
        return layout.flatten(torch.stack(cells, 1).relu_())

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the outputs `[N, D]` for the next piece of each of N rows, and the new state, a cell `[N, D]`."""
        cell = self._advance(self.input_forget(x), state[0] if state else torch.zeros_like(x))
        return cell.relu(), (cell,)

    @staticmethod
    def _advance(projected: Tensor, cell: Tensor) -> Tensor:
        """Return `f c + (1 - f) x W` for the projections `[N, 2 D]` of an input and the cell before it `[N, D]`."""
        new, forget = projected.chunk(2, -1)
        return torch.lerp(new, cell, forget.sigmoid())


def _later(length: int, device: torch.device) -> Tensor:
    """Return the causal mask `[L, L]`: negative infinity for later steps."""
    return torch.full((length, length), float("-inf"), device=device).triu(1)


def _joined(context: Tensor, layout: Layout) -> Tensor:
    """Return the heads' sums of values `[B, H, L, d]` side by side `[N, D]`."""
    return layout.flatten(context.transpose(1, 2).reshape(*layout.size, -1))


@dataclass(frozen=True)
class CrossAttention:
    """Attention of decoder steps to the encoder's output; queries are already scaled by 1/sqrt(d)."""

    query: Linear
    key_value: Linear  # both projections of the encoder's output in one
    heads: int
    out_proj: Tensor  # each head's share of the output projection, without its bias [H, d, D]

    @cached_property
    def products(self) -> list[Tensor]:
        """The products of its heads' output projections; see `align.core.scores.head_products`."""
        return head_products(self.out_proj)

    def weights(self, x: Tensor, steps: Layout, source: Tensor, columns: Layout) -> tuple[Tensor, Tensor]:
        """Return attention weights `[B, H, T, S]` and value vectors `[B, H, S, d]`.

        `x` are the decoder's steps `[N, D]`, `source` is the encoder's output `[M, E]`; each has its layout.
        """
        query = steps.pad(self.query(x)).view(*steps.size, self.heads, -1).transpose(1, 2)
        key, value = self.project(source, columns)
        scores = query @ key.transpose(2, 3)  # [B, H, T, S]
        if columns.mask is not None:
            scores += columns.mask
        return scores.softmax(-1), value

    def context(self, weights: Tensor, values: Tensor, steps: Layout) -> Tensor:
        """Return the weighted sums of values, up to the output projection `[N, D]`."""
        return _joined(weights @ values, steps)

    def project(self, source: Tensor, columns: Layout) -> tuple[Tensor, Tensor]:
        """Return keys and values `[B, H, S, d]` of the encoder's output `[M, E]`."""
        padded = columns.pad(self.key_value(source)).view(*columns.size, 2, self.heads, -1)
        key, value = padded.permute(2, 0, 3, 1, 4)
        return key, value

    def step(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return the heads' outputs `[B K, D]` for K rows of each of B sources, which follow each other `[B K, D]`."""
        query = self.query(x).view(len(keys), -1, self.heads, keys.shape[-1]).transpose(1, 2)  # [B, H, K, d]
        context = functional.scaled_dot_product_attention(query, keys, values, scale=1.0)
        return context.transpose(1, 2).reshape(len(x), -1)


@dataclass(frozen=True)
class Block:
    """What surrounds attention or a feed-forward network: norm before or after, projection, residual."""

    norm: Norm | RootNorm
    before: bool  # whether the norm comes before (pre-norm) or after the sum (post-norm)
    out: Projection  # its output is added to the residual
    inner_norm: Norm | None = None  # before the projection (fairseq's scale_fc)
    outer_norm: Norm | RootNorm | None = None  # after the projection (fairseq's scale_attn, Gemma)
    residual_scale: Tensor | None = None  # factor of the residual (fairseq's scale_resids)

    def enter(self, x: Tensor) -> Tensor:
        """Return the input of the attention or network `[N, D]`."""
        return self.norm(x) if self.before else x

    def leave(self, inner: Tensor, x: Tensor) -> Tensor:
        """Return the block's output `[N, D]`."""
        if self.inner_norm:
            inner = self.inner_norm(inner)
        if self.residual_scale is not None:
            x = x * self.residual_scale
        total = self.outer_norm(self.out(inner)).add_(x) if self.outer_norm else self.out(inner, x)
        return total if self.before else self.norm(total)


# OpenMP's threads stay in the parent of a fork, and torch would wait for them forever.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class Padded(NamedTuple):
    """Ids of a batch `[B, L]`, and a mask that is true for pieces; pads are at the end of each row."""

    ids: Tensor
    kept: Tensor


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder, or with `cross` one of the decoder."""

    attention: SelfAttention | SimpleRecurrence
    attention_block: Block
    feed_forward: Linear
    feed_forward_block: Block
    cross: CrossAttention | None = None
    cross_block: Block | None = None

    def attend(self, x: Tensor, layout: Layout, projected: Tensor | None = None) -> Tensor:
        """Return the output of self-attention `[N, D]`; `projected` is for a layer without a norm before."""
        block = self.attention_block
        if projected is not None and isinstance(self.attention, SelfAttention):
            return block.leave(self.attention(x, layout, projected), x)
        return block.leave(self.attention(block.enter(x), layout), x)

    def feed(self, x: Tensor) -> Tensor:
        """Return the output of the layer's feed-forward network `[N, D]`."""
        block = self.feed_forward_block
        return block.leave(self.feed_forward(block.enter(x)), x)

    def step(self, x: Tensor, state: State, keys: Tensor, values: Tensor) -> tuple[Tensor, State]:
        """Return the output of a decoder layer for the next piece of each row `[N, D]`, and the new state."""
        assert self.cross
        assert self.cross_block
        block = self.attention_block
        inner, state = self.attention.step(block.enter(x), state)
        x = block.leave(inner, x)
        context = self.cross.step(self.cross_block.enter(x), keys, values)
        return self.feed(self.cross_block.leave(context, x)), state


@dataclass(frozen=True)
class Stack:
    """An encoder, or a decoder without its output layer.

    If `tabled`, the first layer's queries, keys and values may come from a table: they are the sum of a
    vector for the piece and one for the position, if nothing but a sum comes before.
    """

    embedding: Embedding
    layers: Sequence[Layer]
    norm: Norm | RootNorm | None
    tabled: bool = False

    def outputs(self, ids: Tensor, layout: Layout) -> Iterator[Tensor]:
        """Yield an encoder's vectors of ids `[N]` before its first layer, then after each layer `[N, D]`."""
        x, projected = self.begin(ids, layout)
        yield x
        for number, layer in enumerate(self.layers):
            x = layer.feed(layer.attend(x, layout, None if number else projected))
            yield x

    def begin(self, ids: Tensor, layout: Layout) -> tuple[Tensor, Tensor | None]:
        """Return vectors `[N, D]` for ids `[N]`, and the first layer's queries, keys, values by table `[B, L, 3 D]`."""
        x = self.embedding(ids, layout)
        if self._of_pieces is None or self.embedding.positions is None:
            return x, None
        length = layout.size[1]
        of_positions = self._of_first_positions if length <= FIRST_POSITIONS else self._of_positions(length)
        padded = layout.pad(ids[:, None]).flatten()
        return x, self._of_pieces.index_select(0, padded).view(*layout.size, -1).add_(of_positions[:length])

    @cached_property
    def _of_pieces(self) -> Tensor | None:
        """Queries, keys and values of each piece without its position `[V, 3 D]`; None if there is no table."""
        embedding, layer = self.embedding, self.layers[0]
        further = embedding.positions is None or embedding.projections or embedding.norm or embedding.last
        if not self.tabled or further or layer.attention_block.before or not isinstance(layer.attention, SelfAttention):
            return None
        if 3 * embedding.pieces.numel() > TABLED:
            return None
        return self._project(embedding.vectors(torch.arange(len(embedding.pieces), device=embedding.pieces.device)))

    @cached_property
    def _of_first_positions(self) -> Tensor:
        return self._of_positions(FIRST_POSITIONS)

    def _of_positions(self, length: int) -> Tensor:
        """Return what each position adds to queries, keys and values `[length, 3 D]`."""
        assert self.embedding.positions
        positions = self.embedding.positions(length)[:length]
        return self._project(positions) - self._project(torch.zeros_like(positions[:1]))  # pieces have the bias already

    def _project(self, x: Tensor) -> Tensor:
        """Return the first layer's queries, keys and values `[N, 3 D]` for `[N, D]`."""
        attention = self.layers[0].attention
        assert isinstance(attention, SelfAttention)
        return attention.query_key_value(x)


@dataclass(frozen=True)
class Transformer:
    """A model for inference, safe to use from any number of threads at once.

    The decoder has no output layer; the layer norm of its output, if it has one, is for translating only.
    """

    encoder: Stack
    decoder: Stack

    @property
    def heads(self) -> int:
        """The number of heads with which each of the decoder's layers attends to the source."""
        assert self.decoder.layers[0].cross
        return self.decoder.layers[0].cross.heads

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.encoder.embedding.pieces.device

    @torch.inference_mode()
    def encode(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return the encoder's output `[N, D]` for source ids `[N]`."""
        *_, x = self.encoder.outputs(ids, layout)
        return self.encoder.norm(x) if self.encoder.norm else x

    @torch.inference_mode()
    def record(self, source: Padded, steps: Padded, layers: Sequence[int]) -> Iterator[types.CrossAttention]:
        """Return the cross-attention of some decoder layers, from one pass that ends with the last of them.

        Inputs of encoder `[B, S]` and decoder `[B, T]` are on the model's device; layers count from 1, lowest
        first.
        """
        columns, rows = Layout.of(source.kept), Layout.of(steps.kept)
        encoded = self.encode(columns.flatten(source.ids[..., None])[:, 0], columns)
        x, projected = self.decoder.begin(rows.flatten(steps.ids[..., None])[:, 0], rows)
        recorded: list[types.CrossAttention] = []
        for number, layer in enumerate(self.decoder.layers[: layers[-1]], 1):
            assert layer.cross
            assert layer.cross_block
            x = layer.attend(x, rows, projected if number == 1 else None)
            entered = layer.cross_block.enter(x)
            weights, values = layer.cross.weights(entered, rows, encoded, columns)
            if number in layers:
                shown = layer.cross.out_proj, layer.cross.products
                recorded.append(types.CrossAttention(number, weights, values, *shown))
            if number < layers[-1]:
                context = layer.cross.context(weights, values, rows)
                x = layer.feed(layer.cross_block.leave(context, x))
        return iter(recorded)
