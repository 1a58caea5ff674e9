"""A model's weights, by name and shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

NUMBERS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
"""What weights are read from: whole numbers, and those of eight bits, are quantised, and mean nothing by themselves."""


class Weights:
    """A checkpoint's weights, each asked for by name and shape; what nobody has asked for is known in the end.

    Args:
        weights: by name.
        unused: names of weights that attention does not depend on: regular expressions.

    Raises:
        ValueError: from any method: a weight is missing, or has another shape.
    """

    def __init__(self, weights: Mapping[str, Tensor], unused: Sequence[str] = ()) -> None:
        self._weights, self._unused = weights, re.compile("|".join(unused) or "(?!)")
        self._asked: set[str] = set()
        self._room = 2 * stored_numbers(weights) + 1_000_000

    def __contains__(self, name: str) -> bool:
        return name in self._weights

    def take(self, name: str, *shape: int) -> Tensor:
        """A weight of that shape, in float32."""
        if name not in self._weights:
            raise ValueError(f"it has no {name}")
        weight = self._weights[name]
        if tuple(weight.shape) != shape:
            sizes = "x".join(map(str, weight.shape)) or "one number"
            raise ValueError(f"{name} is {sizes}, where its settings make {'x'.join(map(str, shape))}")
        if weight.dtype not in NUMBERS:
            kinds = ", ".join(str(dtype).removeprefix("torch.") for dtype in NUMBERS)
            raise ValueError(f"{name} has numbers of type {str(weight.dtype).removeprefix('torch.')}, not {kinds}")
        self._asked.add(name)
        self._room -= weight.numel()
        if self._room < 0:
            raise ValueError("its layers share weights, and would be far larger than its file")
        if not weight.isfinite().all():
            raise ValueError(f"{name} has numbers that are not finite; the training has failed")
        return weight.float()

    def optional(self, name: str, *shape: int) -> Tensor | None:
        """A weight of that shape if there is one of that name."""
        return self.take(name, *shape) if name in self else None

    def chosen(self, name: str, of: int) -> tuple[int, ...] | None:
        """Some of so many, by their numbers from 0, in order and at least one; None where there is no such list."""
        listed = self._weights.get(name)
        if listed is None:
            return None
        numbers = listed.flatten().tolist() if listed.dtype == torch.int64 and listed.numel() <= of else []
        if not numbers or numbers != sorted(set(numbers)) or not 0 <= numbers[0] <= numbers[-1] < of:
            raise ValueError(f"{name} is not a list of some of {of}, from 0")
        self._asked.add(name)
        return tuple(numbers)

    def number(self, name: str, otherwise: float) -> float:
        """A weight that is one number."""
        weight = self._weights.get(name)
        return float(weight.flatten()[0]) if weight is not None and weight.numel() else otherwise

    def shape(self, name: str) -> tuple[int, int]:
        """Rows and columns of a table."""
        table = self._weights.get(name)
        if table is None or table.dim() != 2:
            raise ValueError(f"it has no {name}" if table is None else f"{name} is not a table")
        return table.shape[0], table.shape[1]

    def layers(self, side: str) -> int:
        """How many layers a side has, if all of them have names."""
        return len({name.split(".")[2] for name in self._weights if name.startswith(f"{side}.layers.")})

    def left(self) -> list[str]:
        """Names of weights that attention may depend on, but that nobody has asked for."""
        return [name for name in self._weights if name not in self._asked and not self._unused.fullmatch(name)]


def stored_numbers(weights: Mapping[str, Tensor]) -> int:
    """How many numbers a file holds, each counted once, however many weights are made of it."""
    stored = {
        w.untyped_storage().data_ptr(): w.untyped_storage().nbytes() // w.element_size() for w in weights.values()
    }
    return sum(stored.values())
