"""Training steps on a CPU with fewer random numbers and copies."""

from typing import Any

import torch
from fairseq.modules import FairseqDropout, MultiheadAttention
from torch import Tensor, nn

STEPS = 2**16  # number of values of a random number for dropout


class FastDropout(FairseqDropout):
    """Dropout that splits each 64-bit random number into four, where PyTorch on a CPU draws one per element.

    The probability is rounded to the nearest 1/65,536. On other devices it is fairseq's dropout.
    """

    def forward(self, x: Tensor, inplace: bool = False) -> Any:
        """Return `x`, of any shape; in training, set some elements to 0 and scale up the rest."""
        if x.device.type != "cpu" or not 0 < self.p < 1 or not (self.training or self.apply_during_inference):
            return super().forward(x, inplace)
        count = x.numel()
        drawn = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
        mask = drawn.view(x.shape) >= round(self.p * STEPS) - STEPS // 2
        return x * mask.to(x.dtype).mul_(1 / (1 - self.p))


def lighten(model: nn.Module) -> None:
    """Make a fairseq Transformer's training steps cheaper on a CPU, with the same computation.

    Dropout becomes `FastDropout`, and attention under autocast converts its input once, not once for each of queries,
    keys and values.
    """
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, FastDropout(child.p, child.module_name))
        if isinstance(module, MultiheadAttention):
            module.register_forward_pre_hook(_narrow_once, with_kwargs=True)


def _narrow_once(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Convert queries, keys and values to autocast's type, each tensor only once."""
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
