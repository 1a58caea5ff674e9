"""The quicker product of `align.backends.transformer.linear`, inside fairseq's own modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from align.backends.transformer.linear import has_packed_product, make_linear

ROWS = 16
"""Rows are filled up to a multiple of it: a product is prepared anew for each number of them, and a beam search has
another one whenever a sentence is done."""


class PackedModule(nn.Module):
    """What takes the place of a linear layer of a model that is only run, on a CPU and in float32.

    fairseq's encoder reads `weight` and `bias` of some layers and does not call them.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self._multiply = make_linear(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """`[..., I]` to `[..., O]`."""
        rows = x.reshape(-1, x.shape[-1])
        product = self._multiply(pad(rows, (0, 0, 0, -len(rows) % ROWS)))
        return product[: len(rows)].view(*x.shape[:-1], -1)


def pack(model: Any) -> None:
    """Give a model's linear layers the quicker product, where there is one for them; done twice it does nothing."""
    if not has_packed_product("float32"):
        return
    for module in list(model.modules()):
        for name, child in module.named_children():
            weight = child.weight if type(child) is nn.Linear else None  # subclasses do more than a linear layer
            if weight is not None and (weight.device.type, weight.dtype) == ("cpu", torch.float32):
                setattr(module, name, PackedModule(child))
