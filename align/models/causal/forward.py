"""The forced pass of a decoder-only Transformer: rows of attention of target pieces, layer by layer.

Letters: B batch, P pieces that all sequences begin with, L further pieces of the longest one, S = P + L, N rows of
these in all, T target pieces of the longest one, H query heads, G key and value heads, d head size, D model size.
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
"""Cosine and sine of the angle of each row and each pair of numbers `[rows, 1, d/2]`."""


@dataclass(frozen=True)
class Sequences:
    """Places of the pieces of a batch; those that all sequences begin with have one row for all."""

    shared: int  # P
    rest: Layout  # the places of all other pieces
    # place among a sequence's other pieces of the last one before its target and of each target piece
    # `[B, T+1]`; the last one is repeated in short targets
    rows: Tensor

    @property
    def positions(self) -> Tensor:
        """Position of each row in its sequence `[P + N]`."""
        shared = torch.arange(self.shared, device=self.rest.positions.device)
        return torch.cat((shared, self.rest.positions + self.shared))

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `[1, C, P, d]` and `[B, C, L, d]` for rows `[P + N, C, d]`."""
        shared, rest = x[: self.shared], x[self.shared :]
        padded = self.rest.pad(rest.flatten(1)).view(*self.rest.size, *x.shape[1:])
        return shared.transpose(0, 1)[None], padded.transpose(1, 2)

    def join(self, shared: Tensor, rest: Tensor) -> Tensor:
        """Return `[P + N, H d]` for heads' outputs `[1, H, P, d]` and `[B, H, L, d]`."""
        flat = self.rest.flatten(rest.transpose(1, 2).reshape(*self.rest.size, -1))
        return torch.cat((shared[0].transpose(0, 1).reshape(self.shared, flat.shape[1]), flat))


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

    def project(self, x: Tensor, angles: Angles) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries `[rows, H, d]`, keys and values `[rows, G, d]` of the input `[rows, D]`."""
        projected = self.query_key_value(x).view(len(x), -1, self.size)
        query, key, value = projected.tensor_split((self.heads, self.heads + self.groups), 1)
        if self.query_norm and self.key_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        return turn(query, angles), turn(key, angles), value

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

    def record(
        self, x: Tensor, sequences: Sequences, angles: Angles, number: int | None, last: bool
    ) -> tuple[Tensor | None, CrossAttention | None]:
        """Return the layer's output `[P + N, D]`, None of the last layer, and its attention if it has a number."""
        attention, block = self.attention, self.attention_block
        query, key, value = attention.project(block.enter(x), angles)
        shared_query, query = sequences.split(query)
        shared_key, rest_key = sequences.split(key)
        shared_value, rest_value = sequences.split(value)
        batch, length = sequences.rest.size
        keys = torch.cat((shared_key.expand(batch, -1, -1, -1), rest_key), 2)  # [B, G, S, d]
        values = torch.cat((shared_value.expand(batch, -1, -1, -1), rest_value), 2)
        attended = None
        if number is not None:
            rows = sequences.rows
            of_rows = query.take_along_dim(rows[:, None, :, None], 2)
            weights = attention.weights(of_rows, keys, rows + sequences.shared)
            out = block.out.weight()
            attended = CrossAttention(
                number, weights, attention.of_heads(values), out.T.reshape(attention.heads, attention.size, -1)
            )
        if last:
            return None, attended
        places = torch.arange(sequences.shared + length, device=x.device)[None]
        begin, rest = places[:, : sequences.shared], places[:, sequences.shared :]
        shared = attention.attend(shared_query, shared_key, shared_value, begin)
        return self._leave(sequences.join(shared, attention.attend(query, keys, values, rest)), x), attended

    def _leave(self, context: Tensor, x: Tensor) -> Tensor:
        """Return the layer's output `[rows, D]`, given that of attention's heads and the layer's input."""
        x, inner = self.attention_block.leave(context, x), self.feed_forward_block
        return inner.leave(self.feed_forward(inner.enter(x)), x)

    def advance(self, x: Tensor, angles: Angles, cache: Keys | None) -> tuple[Tensor, Keys]:
        """Return the layer's output for further pieces `[B L, D]`, and keys and values of all so far `[B, G, S, d]`."""
        attention, block = self.attention, self.attention_block
        length = len(angles[0])
        batch = len(x) // length
        repeated = angles[0].repeat(batch, 1, 1), angles[1].repeat(batch, 1, 1)
        projected = attention.project(block.enter(x), repeated)
        query, key, value = (part.view(batch, length, *part.shape[1:]).transpose(1, 2) for part in projected)
        if cache is not None:
            key, value = torch.cat((cache[0], key), 2), torch.cat((cache[1], value), 2)
        places = torch.arange(key.shape[2] - length, key.shape[2], device=x.device)[None]
        context = attention.attend(query, key, value, places).transpose(1, 2).reshape(len(x), -1)
        return self._leave(context, x), (key, value)


Keys = tuple[Tensor, Tensor]
"""Keys and values of a layer `[B, G, S, d]`."""

Cache = list[Keys]
"""Those of each layer; empty before the first piece."""


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
        real = torch.arange(shared, ids.shape[1], device=ids.device) < lengths[:, None]
        steps = torch.arange(int(targets.max()) + 1, device=ids.device)
        rows = before[:, None] - shared + torch.minimum(steps, targets[:, None])
        sequences = Sequences(shared, Layout.of(real), rows)
        flat = torch.cat((ids[0, :shared], sequences.rest.flatten(ids[:, shared:, None])[:, 0]))
        x: Tensor | None = self.embedding.vectors(flat)
        angles = self._angles(sequences.positions)
        for number, layer in enumerate(self.layers[: layers[-1]], 1):
            assert x is not None
            at = angles[layer.attention.rotation]
            x, attended = layer.record(x, sequences, at, number if number in layers else None, number == layers[-1])
            if attended is not None:
                yield attended

    @torch.inference_mode()
    def advance(self, ids: Tensor, cache: Cache) -> Tensor:
        """Return what predicts the next piece of each sequence `[B, D]` after pieces `[B, L]`, which fill the cache."""
        batch, length = ids.shape
        begin = cache[0][0].shape[2] if cache else 0
        positions = torch.arange(begin, begin + length, device=ids.device)
        angles = self._angles(positions)
        x = self.embedding.vectors(ids.flatten())
        for number, layer in enumerate(self.layers):
            before = cache[number] if begin else None
            x, keys = layer.advance(x, angles[layer.attention.rotation], before)
            cache[number : number + 1] = [keys]
        return self.norm(x.view(batch, length, -1)[:, -1])

    def _angles(self, positions: Tensor) -> list[Angles]:
        turns = [positions[:, None].float() * speeds for speeds in self.frequencies]
        return [(turn.cos()[:, None], turn.sin()[:, None]) for turn in turns]
