"""Compute linear layers in the requested precision, by the fastest product that this machine and torch have.

torch multiplies float32 matrices by MKL, which uses half the capacity of processors other than Intel's. oneDNN, which
torch has too, uses all of it, and is faster still with weights in its own memory layout. The calls for that are made
for torch's compiler and not documented: if one is missing, or returns another result than the documented product, the
latter is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from align.core.errors import ModelError
from align.core.types import Dtype

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "gelu_sigmoid", "silu", "tanh"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu_,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": lambda x: functional.silu(x, inplace=True),
    "tanh": torch.tanh_,
}

_FUSED: dict[Activation, tuple[str, str]] = {
    "none": ("none", ""),
    "relu": ("relu", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
}
"""Operations that oneDNN applies to a product before writing it: name and variant of each activation."""

_ROWS = 1024  # number of rows that weights are laid out for; any other number is multiplied nearly as fast
_CONVERTED = 512  # rows of a bfloat16 weight that are converted to float32 at a time, which fit into a cache
_MOST = 127  # the largest number of eight bits whose negative has eight bits too


class Linear(Protocol):
    """Computes `activation(x W^T + b)`, or with a residual `x W^T + b + residual`."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return `[N, O]` for `[N, I]`, in float32; the residual is `[N, O]`, for layers without activation."""
        ...


class Projection(Linear, Protocol):
    """A linear layer that can return its weight."""

    def weight(self) -> Tensor:
        """Return W `[O, I]` in float32, in the precision of the products; computed at each call."""
        ...


def check_dtype(dtype: Dtype, device: str) -> None:
    """Check that linear layers can compute in a number format on a device."""
    if dtype == "int8" and (device != "cpu" or not has_product("int8")):
        where = "with this CPU and this build of torch" if device == "cpu" else "on a GPU"
        hint = 'use ‹dtype="float32"› or ‹dtype="bfloat16"›'
        raise ModelError(f"there is no product of eight-bit numbers {where}", hint=hint)


def make_linear(
    weight: Tensor, bias: Tensor | None, activation: Activation = "none", dtype: Dtype = "float32"
) -> Projection:
    """Return a linear layer."""
    check_dtype(dtype, weight.device.type)
    if dtype == "int8":
        return Int8Linear(weight, bias, activation, largest_int8_weight())
    if weight.device.type == "cpu" and has_product(dtype):
        return PackedLinear(weight, bias, activation, dtype)
    return PlainLinear(weight, bias, activation, dtype)


class PlainLinear:
    """Linear layer by torch's documented product; see `make_linear`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation, dtype: Dtype) -> None:
        self._weight = weight.to(getattr(torch, dtype), copy=True)  # the weight may be mapped from a file
        in_float32 = dtype == "bfloat16" and not multiplies_bfloat16(weight.device.type)
        self._dtype = torch.float32 if in_float32 else self._weight.dtype  # of the products
        self._bias = None if bias is None else bias.to(self._dtype)
        self._activate = ACTIVATIONS[activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the layer's output; see `Linear`."""
        x = x.to(self._dtype)
        if self._dtype == self._weight.dtype:
            product = functional.linear(x, self._weight, self._bias).float()
        else:
            parts = (functional.linear(x, part.to(self._dtype)) for part in torch.split(self._weight, _CONVERTED))
            product = torch.cat([*parts], 1).add_(0 if self._bias is None else self._bias)
        return self._activate(product) if residual is None else product.add_(residual)

    def weight(self) -> Tensor:
        """Return the weight; see `Projection`."""
        return self._weight.float()


class PackedLinear:
    """Linear layer by oneDNN, whose weights are laid out once; see `make_linear`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation, dtype: Dtype) -> None:
        self._dtype = getattr(torch, dtype)
        self._weight = _ops().mkldnn._reorder_linear_weight(weight.to(self._dtype).contiguous(), _ROWS)
        self._bias = None if bias is None else bias.to(self._dtype)
        self._fused = _FUSED.get(activation, _FUSED["none"])
        self._activate = ACTIVATIONS["none" if activation in _FUSED else activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the layer's output; see `Linear`."""
        product = _ops().mkldnn._linear_pointwise
        if residual is not None and self._dtype == torch.float32:
            added: Tensor = product.binary(x, residual, self._weight, self._bias, "add")
            return added
        name, kind = self._fused
        output: Tensor = product(x.to(self._dtype), self._weight, self._bias, name, [], kind).float()
        return self._activate(output) if residual is None else output.add_(residual)

    def weight(self) -> Tensor:
        """Return the weight; see `Projection`."""
        unpacked: Tensor = self._weight.to_dense()
        return unpacked.float()


class Identity:
    """Returns its input, for a block without projection; see `Linear`."""

    def __init__(self, width: int) -> None:
        self._width = width

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the input, or its sum with the residual."""
        return x if residual is None else x + residual

    def weight(self) -> Tensor:
        """Return the identity matrix."""
        return torch.eye(self._width)


class GatedLinear:
    """Product of two linear layers of the same input, the first with an activation (Shazeer 2020)."""

    def __init__(self, gate: Linear, other: Linear) -> None:
        self._gate, self._other = gate, other

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the layer's output; see `Linear`. A residual is not supported."""
        assert residual is None
        return self._gate(x).mul_(self._other(x))


class Int8Linear:
    """Linear layer by oneDNN's product of eight-bit numbers, with a scale per row of the weights and per input row.

    So the result for a row does not depend on the other rows. Weights are up to `largest_weight`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: Activation, largest_weight: int) -> None:
        self._scales = weight.abs().amax(1).clamp_(min=torch.finfo(torch.float32).tiny).div_(largest_weight)
        rounded = (weight / self._scales[:, None]).round_().to(torch.int8)
        self._weight = _ops().onednn.qlinear_prepack(rounded, [_ROWS, weight.shape[1]])
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)
        self._bias = bias if bias is not None else torch.zeros(len(weight))
        # Added to a float32 from -127 to 127 this rounds it to a whole number; its last eight bits are that plus 128.
        self._rounding = torch.full((weight.shape[1],), 1.5 * 2**23 + 128)  # a scalar would be added more slowly
        self._activate = ACTIVATIONS[activation]

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return the layer's output; see `Linear`."""
        largest = torch.maximum(x.amax(1, keepdim=True), x.amin(1, keepdim=True).neg_())  # [N, 1], quicker than by abs
        scales = largest.clamp_(min=torch.finfo(torch.float32).tiny).div_(_MOST)
        rounded = torch.addcmul(self._rounding, x, scales.reciprocal()).view(torch.int32)
        shifted = rounded.to(torch.uint8)  # from 0 to 255, as oneDNN is fastest with
        product: Tensor = _ops().onednn.qlinear_pointwise(
            shifted, 1.0, 128, self._weight, self._scales, self._zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        if residual is not None:
            return torch.addcmul(residual, product, scales, out=product).add_(self._bias)
        return self._activate(torch.addcmul(self._bias, product, scales, out=product))

    def weight(self) -> Tensor:
        """Return the weight, as the output for the rows of an identity matrix; see `Projection`."""
        return self(torch.eye(len(self._rounding))).sub_(self._bias).T


def _ops() -> Any:
    return torch.ops


@cache
def has_product(dtype: Dtype) -> bool:
    """Tell whether torch here has oneDNN's product of these numbers, and it agrees with the documented product.

    The product is not timed: the output of a run, to the last digit, must not depend on what else a machine was doing.
    """
    if dtype == "int8":
        return largest_int8_weight() > 0
    if dtype == "bfloat16" and not multiplies_bfloat16():
        return False
    return _agrees(partial(PackedLinear, dtype=dtype), 1e-4 if dtype == "float32" else 0.1)


@cache
def multiplies_bfloat16(device: str = "cpu") -> bool:
    """Tell whether a device has products of bfloat16 numbers, without which they take longer than in float32."""
    has: Mapping[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # of newer versions
    return device != "cpu" or bool(has.get("avx512_bf16", True) or has.get("amx_bf16") or has.get("avx_ne_convert"))


@cache
def largest_int8_weight() -> int:
    """Return the largest weight with which products of eight-bit numbers are right here; 0 if there are none.

    CPUs without VNNI instructions add two products in 16 bits, so that weights may have seven: 2 * 255 * 63 < 2**15.
    """
    return next((most for most in (_MOST, _MOST // 2) if _agrees(partial(Int8Linear, largest_weight=most), 0.3)), 0)


def _agrees(layers: Callable[..., Linear], tolerance: float) -> bool:
    """Tell whether layers give what the documented product gives, also where each product is as large as it can be."""
    numbers = torch.Generator().manual_seed(1)
    weight, bias, x, residual = (torch.randn(shape, generator=numbers) for shape in ((24, 16), (24,), (5, 16), (5, 24)))
    weight[0], x[0] = 1.0, 1.0
    plain = functional.linear(x, weight, bias)
    expected = [ACTIVATIONS[kind](plain.clone()) for kind in _FUSED]
    try:
        outputs = [layers(weight, bias, kind)(x) for kind in _FUSED]
        added = layers(weight, bias, "none")(x, residual)
    except (AttributeError, RuntimeError, TypeError):  # another torch
        return False
    agree = [torch.allclose(*both, atol=tolerance) for both in zip(outputs, expected, strict=True)]
    return all(agree) and torch.allclose(added, plain + residual, atol=tolerance)
