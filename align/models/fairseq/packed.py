"""Use the faster product of `align.models.engine.linear` in fairseq's own modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from align.models.engine.linear import has_packed_product, make_linear

ROWS = 16
"""Rows are padded to a multiple of this: a product is prepared again for each number of rows, and a beam search changes
their number whenever a sentence is finished.
"""


class PackedModule(nn.Module):
    """Replaces a linear layer of a model on a CPU and in float32.

    fairseq's encoder reads `weight` and `bias` of some layers and does not call them. If gradients are required, the
    product is torch's own; a weight that has been changed in place is packed again.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self._pack()

    def _pack(self) -> None:
        self._version = self.weight._version
        self._multiply = make_linear(self.weight.detach(), None if self.bias is None else self.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., O]` for `[..., I]`."""
        if torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad):
            return linear(x, self.weight, self.bias)
        if self.weight._version != self._version:
            self._pack()
        rows = x.reshape(-1, x.shape[-1])
        product = self._multiply(pad(rows, (0, 0, 0, -len(rows) % ROWS)))
        return product[: len(rows)].view(*x.shape[:-1], -1)


def pack(model: Any) -> None:
    """Replace a model's linear layers by packed ones, if this machine supports them; a second call changes nothing."""
    if not has_packed_product("float32"):
        return
    for module in list(model.modules()):
        for name, child in module.named_children():
            weight = child.weight if type(child) is nn.Linear else None  # subclasses do more than a linear layer
            if weight is not None and (weight.device.type, weight.dtype) == ("cpu", torch.float32):
                setattr(module, name, PackedModule(child))
