"""The forced pass of a decoder-only Transformer: rows of attention of target pieces, layer by layer.

Letters: B batch, P pieces before, L further ones of the longest sequence, S = P + L, N rows of these in all, T target
pieces of the longest one, H query heads, G key and value heads, d head size, D model size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from align.core.types import CrossAttention
from align.models.engine.forward import Block, Embedding, Layout, RootNorm
from align.models.engine.linear import Linear

Angles = tuple[Tensor, Tensor]
"""Cosine and sine of the angle of each row and each pair of numbers `[N, 1, d/2]`."""

Keys = tuple[Tensor, Tensor]  # keys and values of a layer `[B, G, S, d]`
Cache = list[Keys]  # those of each layer; empty before the first piece


def turn(x: Tensor, angles: Angles) -> Tensor:
    """Rotate each pair of numbers of `[rows, C, d]`, the first half of which pairs with the second, by its angle."""
    cosine, sine = angles
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


@dataclass(frozen=True)
class GroupedAttention:
    """Attention to all pieces so far, in which several query heads share keys and values."""

    query_key_value: Linear  # the three projections in one
    heads: int  # H
    groups: int  # G
    size: int  # d
    scale: float  # factor of scores
    rotation: int  # number of the model's frequencies that its positions turn by
    window: int | None = None  # pieces that each one looks back, its own included; None for all
    cap: float | None = None  # limit of scores, if any
    query_norm: RootNorm | None = None  # of each head, if any
    key_norm: RootNorm | None = None  # of each group of keys, if any

    def project(self, x: Tensor, angles: Angles, layout: Layout, past: Keys | None) -> tuple[Tensor, Keys]:
        """Return the queries `[B, H, L, d]` of the input `[N, D]`, and all keys and values, with those of the past."""
        projected = self.query_key_value(x).view(len(x), -1, self.size)
        query, key, value = projected.tensor_split((self.heads, self.heads + self.groups), 1)
        if self.query_norm and self.key_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key, value = (
            layout.pad(part.flatten(1)).view(*layout.size, -1, self.size).transpose(1, 2)
            for part in (turn(query, angles), turn(key, angles), value)
        )
        if past is not None:
            before = [part.expand(len(key), -1, -1, -1) for part in past]
            key, value = torch.cat((before[0], key), 2), torch.cat((before[1], value), 2)
        return query, (key, value)

    def weights(self, query: Tensor, key: Tensor, places: Tensor) -> Tensor:
        """Return attention weights `[B, H, R, K]` of queries `[B, H, R, d]` to keys of all pieces `[B, G, K, d]`.

        `places` are those of the R rows among the pieces `[B, R]`, or `[1, R]` for all sequences.
        """
        batch, _, rows, size = query.shape
        of_group = self.heads // self.groups * rows  # the query heads of a group follow each other
        scores = query.reshape(batch, self.groups, of_group, size) @ key.transpose(2, 3)
        scores = scores.view(batch, self.heads, rows, key.shape[2]).mul_(self.scale)
        if self.cap:
            scores = scores.div_(self.cap).tanh_().mul_(self.cap)
        return scores.masked_fill_(~self.visible(places, key.shape[2])[:, None], float("-inf")).softmax(-1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, places: Tensor) -> Tensor:
        """Return the weighted sums of values `[B, H, R, d]`; see `weights`."""
        if self.cap:
            return self.weights(query, key, places) @ self.of_heads(value)
        mask = self.visible(places, key.shape[2])[:, None]
        return functional.scaled_dot_product_attention(
            query, self.of_heads(key), self.of_heads(value), attn_mask=mask, scale=self.scale
        )

    def visible(self, places: Tensor, count: int) -> Tensor:
        """Return which of a number of pieces the rows at some places attend to `[B, R, K]`."""
        columns, rows = torch.arange(count, device=places.device), places[..., None]
        seen = columns <= rows
        return seen if self.window is None else seen & (columns > rows - self.window)

    def of_heads(self, x: Tensor) -> Tensor:
        """Return the keys or values that each query head reads `[B, H, K, d]`, of those of groups `[B, G, K, d]`."""
        return x.repeat_interleave(self.heads // self.groups, 1)


@dataclass(frozen=True)
class Layer:
    """A layer; its blocks may have a norm after the projection."""

    attention: GroupedAttention
    attention_block: Block
    feed_forward: Linear
    feed_forward_block: Block

    def leave(self, context: Tensor, x: Tensor, layout: Layout) -> Tensor:
        """Return the layer's output `[N, D]`, given that of attention's heads `[B, H, L, d]` and the layer's input."""
        joined = layout.flatten(context.transpose(1, 2).reshape(*layout.size, -1))
        x, inner = self.attention_block.leave(joined, x), self.feed_forward_block
        return inner.leave(self.feed_forward(inner.enter(x)), x)


@dataclass(frozen=True)
class CausalTransformer:
    """A decoder-only model for inference, without its output layer; any number of threads may use it at once."""

    embedding: Embedding
    layers: Sequence[Layer]
    frequencies: Sequence[Tensor]  # angles per position `[d/2]`, by number
    norm: RootNorm  # of the last layer's output, for translating only

    @property
    def heads(self) -> int:
        """The number of query heads in each layer."""
        return self.layers[0].attention.heads

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.embedding.pieces.device

    @torch.inference_mode()
    def record(self, ids: Tensor, lengths: Tensor, targets: Tensor, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Yield the attention `[B, H, T+1, S]` of some layers (from 1), lowest first, of targets to all pieces.

        Row 0 is that of the last piece before the target, which predicts its first piece. `ids` `[B, S]` are prompts,
        each followed by its target, with pads at the end, `lengths` `[B]` their pieces, `targets` `[B]` those of the
        target, before which is at least one piece.
        """
        before = lengths - targets - 1  # place of the last piece before the target
        same = (ids == ids[:1]).all(0).int().cumprod(0).sum()
        shared = int(torch.minimum(same, before.min())) if len(ids) > 1 else 0
        cache: Cache = []
        if shared:  # what all sequences begin with is read once
            self.advance(ids[:1, :shared], cache, layers[-1])
        real = torch.arange(shared, ids.shape[1], device=ids.device) < lengths[:, None]
        steps = torch.arange(int(targets.max()) + 1, device=ids.device)
        rows = before[:, None] - shared + torch.minimum(steps, targets[:, None])  # the last one is repeated
        places = torch.arange(shared, ids.shape[1], device=ids.device)[None]
        layout = Layout.of(real)
        x = self.embedding.vectors(layout.flatten(ids[:, shared:, None])[:, 0])
        angles = self._angles(layout.positions + shared)
        for number, layer in enumerate(self.layers[: layers[-1]], 1):
            attention, block = layer.attention, layer.attention_block
            past = cache[number - 1] if shared else None
            query, (key, value) = attention.project(block.enter(x), angles[attention.rotation], layout, past)
            if number in layers:
                weights = attention.weights(query.take_along_dim(rows[:, None, :, None], 2), key, rows + shared)
                out_proj = block.out.weight().T.reshape(attention.heads, attention.size, -1)
                yield CrossAttention(number, weights, attention.of_heads(value), out_proj)
            if number < layers[-1]:
                x = layer.leave(attention.attend(query, key, value, places), x, layout)

    @torch.inference_mode()
    def advance(self, ids: Tensor, cache: Cache, layers: int | None = None) -> Tensor:
        """Return what predicts the next piece of each sequence `[B, D]` after pieces `[B, L]`, which fill the cache.

        Only some of the lowest layers may be run.
        """
        batch, length = ids.shape
        begin = cache[0][0].shape[2] if cache else 0
        places = torch.arange(begin, begin + length, device=ids.device)
        layout = Layout((batch, length), places.repeat(batch))
        x, angles = self.embedding.vectors(ids.flatten()), self._angles(layout.positions)
        for number, layer in enumerate(self.layers[:layers]):
            attention, past = layer.attention, cache[number] if begin else None
            entered = layer.attention_block.enter(x)
            query, keys = attention.project(entered, angles[attention.rotation], layout, past)
            x = layer.leave(attention.attend(query, *keys, places[None]), x, layout)
            cache[number : number + 1] = [keys]
        return self.norm(x.view(batch, length, -1)[:, -1])

    def _angles(self, positions: Tensor) -> list[Angles]:
        turns = [positions[:, None].float() * speeds for speeds in self.frequencies]
        return [(turn.cos()[:, None], turn.sin()[:, None]) for turn in turns]
