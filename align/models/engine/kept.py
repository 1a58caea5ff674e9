"""Layers from which heads were pruned: those that are left keep their numbers, the others attend to nothing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """The heads that are left of a layer's H.

    Attributes:
        numbers: which, from 0, in order; at least one.
        of: H.
    """

    numbers: tuple[int, ...]
    of: int

    def spread(self, x: Tensor, axis: int) -> Tensor:
        """A tensor of the heads that are left along an axis, with zeros for the others."""
        shape = [*x.shape[:axis], self.of, *x.shape[axis + 1 :]]
        full = x.new_zeros(shape)
        full.movedim(axis, 0)[list(self.numbers)] = x.movedim(axis, 0)
        return full
