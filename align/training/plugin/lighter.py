"""Training steps that need fewer random numbers and copies on a CPU."""

from typing import Any

import torch
from fairseq.modules import FairseqDropout, MultiheadAttention
from torch import Tensor, nn

STEPS = 2**16
"""How many values a number that is drawn for dropout can have."""


class FastDropout(FairseqDropout):
    """Dropout that cuts each 64-bit random number into four, where PyTorch on a CPU draws one for each element.

    The probability is rounded to the nearest 1/65,536. On other devices it is fairseq's own dropout.
    """

    def forward(self, x: Tensor, inplace: bool = False) -> Any:
        """The tensor `x`, of any shape, with a part of its elements set to 0 and the rest scaled up, while training."""
        if x.device.type != "cpu" or not 0 < self.p < 1 or not (self.training or self.apply_during_inference):
            return super().forward(x, inplace)
        count = x.numel()
        drawn = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
        kept = drawn.view(x.shape) >= round(self.p * STEPS) - STEPS // 2
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))


def lighten(model: nn.Module) -> None:
    """Make a fairseq Transformer's training steps cheaper on a CPU; what it computes stays the same.

    Its dropout becomes `FastDropout`, and attention under autocast narrows what it reads once, not once for each of
    queries, keys and values.
    """
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, FastDropout(child.p, child.module_name))
        if isinstance(module, MultiheadAttention):
            module.register_forward_pre_hook(_narrow_once, with_kwargs=True)


def _narrow_once(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Convert queries, keys and values to autocast's type, a tensor that serves as several of them only once."""
    query = kwargs.get("query")
    if query is None or query.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return args, kwargs
    narrow: dict[int, Tensor] = {}
    for name in ("query", "key", "value"):
        wide = kwargs.get(name)
        if wide is not None:
            if id(wide) not in narrow:
                narrow[id(wide)] = wide.to(torch.get_autocast_dtype("cpu"))
            kwargs[name] = narrow[id(wide)]
    return args, kwargs
