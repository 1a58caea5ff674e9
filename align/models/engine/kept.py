"""Represent layers with pruned heads: the others keep their numbers, and pruned ones attend to nothing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """The remaining heads of a layer's H.

    Attributes:
        numbers: numbers of the heads, from 0, in order; at least one.
        of: H.
    """

    numbers: tuple[int, ...]
    of: int

    def spread(self, x: Tensor, axis: int) -> Tensor:
        """Return a tensor with zeros inserted for pruned heads along an axis."""
        shape = [*x.shape[:axis], self.of, *x.shape[axis + 1 :]]
        full = x.new_zeros(shape)
        full.movedim(axis, 0)[list(self.numbers)] = x.movedim(axis, 0)
        return full
