"""Linear layers, in the arithmetic that is asked for and by the fastest product that this machine and torch have.

torch multiplies float32 matrices by MKL, which uses half of what processors other than Intel's can do. oneDNN, which
torch has too, uses all, and is quicker still with weights that lie in memory as it wants them. The calls for that are
made for torch's compiler and not documented: where one is missing, or gives something else than the documented product,
the latter is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from align.core.errors import Argument, ModelError, Remedy
from align.core.types import Dtype

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "tanh"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu_,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": lambda x: functional.silu(x, inplace=True),
    "tanh": torch.tanh_,
}

_FUSED: dict[Activation, tuple[str, str]] = {
    "none": ("none", ""),
    "relu": ("relu", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
}
"""What oneDNN does with a product before it is written: names of the activation, and of its kind."""

_ROWS = 1024
"""Rows that weights are laid out for; any other number is multiplied nearly as fast."""

_MOST = 127
"""The largest number of eight bits that has its negative."""

_ROUNDING = 1.5 * 2**23 + 128
"""Added to a float32 from -127 to 127 it rounds that to a whole number; the last eight bits are it and 128."""


class Linear(Protocol):
    """`activation(x W^T + b)`, or with something to add `x W^T + b + residual`."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """`[N, I]` to `[N, O]`, in float32; the residual is `[N, O]`, for layers without activation."""
        ...


class Projection(Linear, Protocol):
    """One of these that can say what it multiplies by."""

    def weight(self) -> Tensor:
        """W `[O, I]` in float32, as the products have it; made anew at each call."""
        ...


def make_linear(
    weight: Tensor, bias: Tensor | None, activation: Activation = "none", dtype: Dtype = "float32"
) -> Projection:
    """A linear layer.

    Args:
        weight: W `[O, I]`, in float32 on the device where the layer is to run.
        bias: b `[O]`, or None.
        activation: a key of ACTIVATIONS.
        dtype: of the product.

    Raises:
        ModelError: this torch or this device has no product of eight bits.
    """
    if dtype == "int8":
        if weight.device.type != "cpu" or not has_int8_product():
            remedy = Remedy("use {} or {}", (Argument("dtype", "float32"), Argument("dtype", "bfloat16")))
            where = "on a GPU" if weight.device.type != "cpu" else "in this build of torch"
            raise ModelError(f"there is no product of eight-bit numbers {where}", remedy=remedy)
        return Int8Linear(weight, bias, activation)
    if weight.device.type == "cpu" and has_packed_product(dtype):
        return PackedLinear(weight, bias, activation, dtype)
    return PlainLinear(weight, bias, activation, dtype)


class PlainLinear:
    """By torch's documented product; see `make_linear`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation, dtype: Dtype) -> None:
        self._dtype = getattr(torch, dtype)
        self._weight = weight.to(self._dtype, copy=True)  # which may lie in a file
        self._bias = None if bias is None else bias.to(self._dtype)
        self._activate = ACTIVATIONS[activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        product = functional.linear(x.to(self._dtype), self._weight, self._bias).float()
        return self._activate(product) if residual is None else product.add_(residual)

    def weight(self) -> Tensor:
        """See `Projection`."""
        return self._weight.float()


class PackedLinear:
    """By oneDNN, whose weights are laid out once; see `make_linear`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation, dtype: Dtype) -> None:
        self._dtype = getattr(torch, dtype)
        self._weight = _ops().mkldnn._reorder_linear_weight(weight.to(self._dtype).contiguous(), _ROWS)
        self._bias = None if bias is None else bias.to(self._dtype)
        self._fused = _FUSED.get(activation, _FUSED["none"])
        self._activate = ACTIVATIONS["none" if activation in _FUSED else activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        product = _ops().mkldnn._linear_pointwise
        if residual is not None and self._dtype == torch.float32:
            added: Tensor = product.binary(x, residual, self._weight, self._bias, "add")
            return added
        name, kind = self._fused
        found: Tensor = product(x.to(self._dtype), self._weight, self._bias, name, [], kind).float()
        return self._activate(found) if residual is None else found.add_(residual)

    def weight(self) -> Tensor:
        """See `Projection`."""
        unpacked: Tensor = self._weight.to_dense()
        return unpacked.float()


class GatedLinear:
    """Two linear layers of the same input, multiplied: the first with an activation (Shazeer 2020)."""

    def __init__(self, gate: Linear, other: Linear) -> None:
        self._gate, self._other = gate, other

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """See `Linear`; nothing is ever added to it."""
        assert residual is None
        return self._gate(x).mul_(self._other(x))


class Int8Linear:
    """By oneDNN's product of eight-bit numbers: a scale for each row of the weights, and for each row that comes in.

    So what becomes of a row does not depend on the rows beside it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation) -> None:
        self._scales = weight.abs().amax(1).clamp_(min=torch.finfo(torch.float32).tiny).div_(_MOST)
        rounded = (weight / self._scales[:, None]).round_().to(torch.int8)
        self._weight = _ops().onednn.qlinear_prepack(rounded, [_ROWS, weight.shape[1]])
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        self._bias = bias if bias is not None else torch.zeros(len(weight))
        self._rounding = torch.full((weight.shape[1],), _ROUNDING)  # a scalar would be added more slowly
        self._activate = ACTIVATIONS[activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        largest = torch.maximum(x.amax(1, keepdim=True), x.amin(1, keepdim=True).neg_())  # [N, 1], quicker than by abs
        scales = largest.clamp_(min=torch.finfo(torch.float32).tiny).div_(_MOST)
        rounded = torch.addcmul(self._rounding, x, scales.reciprocal()).view(torch.int32)
        shifted = rounded.to(torch.uint8)  # from 0 to 255, as oneDNN is fastest with
        product: Tensor = _ops().onednn.qlinear_pointwise(
            shifted, 1.0, 128, self._weight, self._scales, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        if residual is not None:
            return torch.addcmul(residual, product, scales).add_(self._bias)
        return self._activate(torch.addcmul(self._bias, product, scales))

    def weight(self) -> Tensor:
        """See `Projection`: what becomes of rows that have a single 1."""
        return self(torch.eye(len(self._rounding))).sub_(self._bias).T


def _ops() -> Any:
    return torch.ops


def _agrees(layers: Callable[[Tensor, Tensor, Activation], Linear], tolerance: float) -> bool:
    """Whether layers of a kind can be made and run here, and give what torch's documented product gives."""
    numbers = torch.Generator().manual_seed(1)
    weight, bias, x, residual = (torch.randn(shape, generator=numbers) for shape in ((24, 16), (24,), (5, 16), (5, 24)))
    plain = functional.linear(x, weight, bias)
    try:
        found = {kind: layers(weight, bias, kind)(x) for kind in _FUSED}
        added = layers(weight, bias, "none")(x, residual)
    except (AttributeError, RuntimeError, TypeError):  # another torch
        return False
    expected = {kind: ACTIVATIONS[kind](plain.clone()) for kind in _FUSED}
    return torch.allclose(added, plain + residual, atol=tolerance) and all(
        torch.allclose(found[kind], expected[kind], atol=tolerance) for kind in _FUSED
    )


@cache
def has_packed_product(dtype: Dtype) -> bool:
    """Whether torch here has oneDNN's product of packed weights, and it gives what the documented one gives.

    It is not timed: what a run computes, to the last digit, shall not depend on what else a machine was doing.
    """
    tolerance = 1e-4 if dtype == "float32" else 0.1
    return torch.backends.mkldnn.is_available() and _agrees(  # type: ignore[no-untyped-call]
        lambda weight, bias, activation: PackedLinear(weight, bias, activation, dtype), tolerance
    )


@cache
def has_int8_product() -> bool:
    """Whether torch here has oneDNN's product of eight-bit numbers, and it gives about what the others give."""
    return _agrees(Int8Linear, 0.3)
