"""Linear layers: every product gives what the documented one gives, and falls back to it where it is missing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch.nn import functional

from align.core.errors import ModelError
from align.core.types import Dtype
from align.models.engine import linear
from align.models.engine.linear import ACTIVATIONS, Activation, PackedLinear, PlainLinear, make_linear
from tests.conftest import needs_int8

INT8 = 0.2 if linear.largest_int8_weight() == 127 else 0.4  # weights may have seven bits
TOLERANCE: dict[Dtype, float] = {"float32": 1e-5, "bfloat16": 0.1, "int8": INT8}


@pytest.fixture
def tried_anew() -> Iterator[None]:
    """What has been found out about this torch is forgotten, before and after."""
    for known in (linear.has_product, linear.largest_int8_weight):
        known.cache_clear()
    yield
    for known in (linear.has_product, linear.largest_int8_weight):
        known.cache_clear()


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", pytest.param("int8", marks=needs_int8)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [1, 7, 1100])
def test_products(dtype: Dtype, activation: Activation, rows: int) -> None:
    weight, bias, x, residual = numbers(24, 32), numbers(24), numbers(rows, 32), numbers(rows, 24)
    plain = functional.linear(x, weight, bias)
    close = partial(torch.testing.assert_close, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    expected = ACTIVATIONS[activation](plain.clone())
    found = make_linear(weight, bias, activation, dtype)(x)
    assert found.dtype == torch.float32
    close(found, expected)
    before = residual.clone()
    close(make_linear(weight, bias, dtype=dtype)(x, residual), plain + residual)
    close(make_linear(weight, None, dtype=dtype)(x), x @ weight.T)
    assert torch.equal(residual, before)


@needs_int8
def test_what_becomes_of_a_row_in_int8_does_not_depend_on_its_neighbours() -> None:
    layer = make_linear(numbers(24, 32), numbers(24), dtype="int8")
    x = numbers(9, 32)
    beside = torch.cat([x, 1000 * x])
    assert torch.equal(layer(beside)[:9], layer(x))
    assert torch.equal(layer(torch.zeros(1, 32))[0], numbers(24))


@pytest.mark.usefixtures("tried_anew")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("broken", ["missing", "wrong"])
def test_where_the_packed_product_is_of_no_use_the_plain_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, dtype: Dtype, broken: str
) -> None:
    if not linear.has_product(dtype):
        pytest.skip(f"needs a CPU with packed products of {dtype}")
    assert isinstance(make_linear(numbers(24, 32), None, dtype=dtype), PackedLinear)
    linear.has_product.cache_clear()
    if broken == "missing":
        monkeypatch.setattr(linear, "_ops", lambda: object())
    else:
        monkeypatch.setattr(PackedLinear, "__call__", lambda self, x, residual=None: torch.ones(5, 24))
    layer = make_linear(numbers(24, 32), numbers(24), dtype=dtype)
    assert isinstance(layer, PlainLinear)
    torch.testing.assert_close(
        layer(numbers(3, 32)), functional.linear(numbers(3, 32), numbers(24, 32), numbers(24)), rtol=0.1, atol=0.1
    )


@pytest.mark.usefixtures("tried_anew")
def test_weights_in_bfloat16_are_multiplied_in_float32_where_bfloat16_has_no_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linear, "multiplies_bfloat16", lambda device="cpu": False)
    layer = make_linear(numbers(24, 32), numbers(24), dtype="bfloat16")
    assert isinstance(layer, PlainLinear)
    assert layer._weight.dtype == torch.bfloat16
    x, weight = numbers(3, 32), numbers(24, 32).bfloat16().float()
    torch.testing.assert_close(layer(x), functional.linear(x, weight, numbers(24)))
    wide = make_linear(numbers(1100, 32), None, "relu", "bfloat16")  # converted in three parts
    torch.testing.assert_close(wide(x), functional.linear(x, numbers(1100, 32).bfloat16().float()).relu())


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        ({}, True),  # not asked: an older torch, or another architecture
        ({"avx512_bf16": False, "amx_bf16": False}, False),
        ({"avx512_bf16": False, "amx_bf16": True}, True),
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_bf16": False, "amx_bf16": False, "avx_ne_convert": True}, True),
    ],
)
def test_which_processors_multiply_bfloat16(
    monkeypatch: pytest.MonkeyPatch, has: dict[str, bool], expected: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    assert linear.multiplies_bfloat16.__wrapped__() is expected


@pytest.mark.usefixtures("tried_anew")
def test_int8_is_refused_where_there_is_no_such_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_ops", lambda: object())
    with pytest.raises(
        ModelError, match=r'eight-bit numbers with this CPU and this build of torch: use dtype="float32" or'
    ):
        make_linear(numbers(24, 32), None, dtype="int8")
    with pytest.raises(ModelError, match="no product of eight-bit numbers on a GPU"):
        make_linear(torch.zeros(24, 32, device="meta"), None, dtype="int8")


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="limits the instructions of x86 processors")
def test_weights_have_seven_bits_where_sums_of_two_products_have_sixteen() -> None:
    program = """
import torch
from align.models.engine.linear import largest_int8_weight, make_linear

print(largest_int8_weight())
ones = torch.ones(24, 32)
for weight in (ones, -ones):  # the largest products
    for x in (ones[:3], -ones[:3]):
        torch.testing.assert_close(make_linear(weight, None, dtype="int8")(x), x @ weight.T)
"""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "63\n"), run.stderr
