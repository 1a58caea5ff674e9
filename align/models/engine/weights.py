"""Hand out a model's weights by name and shape."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

NUMBERS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
"""Number formats of weights that can be read: whole numbers and eight-bit ones are quantised and need a scale."""


class Weights:
    """Hands out a checkpoint's weights by name and shape, each once.

    A weight is released as soon as it is taken, so that a model in memory and its file are never both held in full.
    Weights that are left at the end do not belong to the model.

    Args:
        weights: by name, such as tensors that are mapped from a file; emptied as weights are taken.
        unused: regular expressions for the names of weights that attention does not depend on.
    """

    def __init__(self, weights: dict[str, Tensor], unused: Sequence[str] = ()) -> None:
        self._weights, self._unused = weights, re.compile("|".join(unused) or "(?!)")

    def __contains__(self, name: str) -> bool:
        return name in self._weights

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a copy of a weight of that shape, in float32."""
        return self.borrow(name, *shape).to(torch.float32, copy=True)

    def borrow(self, name: str, *shape: int) -> Tensor:
        """Return a weight of that shape, in the number format of its file.

        It may be mapped from the file: copy it into the model, since a change of the file would end the process.
        """
        if name not in self._weights:
            raise ValueError(f"it has no {name}")
        weight = self._weights[name]
        if tuple(weight.shape) != shape:
            sizes = "x".join(map(str, weight.shape)) or "one number"
            raise ValueError(f"{name} is {sizes}, but its settings give {'x'.join(map(str, shape))}")
        if weight.dtype not in NUMBERS:
            kind, *kinds = (str(dtype).removeprefix("torch.") for dtype in (weight.dtype, *NUMBERS))
            raise ValueError(f"{name} has numbers of type {kind}, not {', '.join(kinds)}")
        del self._weights[name]
        if weight.numel() and not all(map(math.isfinite, weight.aminmax())):  # 80 times as fast as isfinite() of each
            raise ValueError(f"{name} has numbers that are not finite; the training has failed")
        return weight

    def are_tied(self, one: str, other: str) -> bool:
        """Tell whether two names stand for the same numbers in the file."""
        both = [self._weights[name] for name in (one, other) if name in self]
        places = {(weight.data_ptr(), weight.shape, weight.stride()) for weight in both}
        return len(both) == 2 and len(places) == 1

    def optional(self, name: str, *shape: int) -> Tensor | None:
        """Return a weight of that shape, or None if there is no weight of that name."""
        return self.take(name, *shape) if name in self else None

    def chosen(self, name: str, of: int) -> tuple[int, ...] | None:
        """Return a list of numbers below `of`, ascending and at least one; None if there is no list of that name."""
        listed = self._weights.get(name)
        if listed is None:
            return None
        numbers = listed.flatten().tolist() if listed.dtype == torch.int64 and listed.numel() <= of else []
        if not numbers or numbers != sorted(set(numbers)) or not 0 <= numbers[0] <= numbers[-1] < of:
            raise ValueError(f"{name} is not a list of some of {of}, from 0")
        del self._weights[name]
        return tuple(numbers)

    def number(self, name: str, otherwise: float) -> float:
        """Return a weight that is one number."""
        weight = self._weights.get(name)
        return float(weight.flatten()[0]) if weight is not None and weight.numel() else otherwise

    def shape(self, name: str) -> tuple[int, int]:
        """Return rows and columns of a table."""
        table = self._weights.get(name)
        if table is None or table.dim() != 2:
            raise ValueError(f"it has no {name}" if table is None else f"{name} is not a table")
        return table.shape[0], table.shape[1]

    def layers(self, side: str) -> int:
        """Return the number of a side's layers, if all of them have names."""
        return len({name.split(".")[2] for name in self._weights if name.startswith(f"{side}.layers.")})

    def check_all_taken(self) -> None:
        """Refuse weights that were not taken although attention may depend on them."""
        left = [name for name in self._weights if not self._unused.fullmatch(name)]
        if left:
            raise ValueError(f"it has {left[0]}, which its settings do not account for")
