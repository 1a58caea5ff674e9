"""Norms through Gram matrices against vectors written out."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from align.core.scores import gram, head_norms, head_products, source_norms, vector_norms

sizes = st.integers(1, 5)


def make(batch: int, heads: int, steps: int, length: int, size: int, model: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(batch + 7 * heads + 49 * steps + 343 * length)
    weights = torch.rand(batch, heads, steps, length).softmax(-1)
    return weights, torch.randn(batch, heads, length, size), torch.randn(heads, size, model)


@given(sizes, sizes, sizes, sizes, sizes, sizes)
def test_equal_to_vectors_written_out(batch: int, heads: int, steps: int, length: int, size: int, model: int) -> None:
    weights, values, out_proj = make(batch, heads, steps, length, size, model)
    transformed = torch.einsum("bhsd,hdo->bhso", values.double(), out_proj.double())
    weighted = torch.einsum("bhts,bhso->bhtso", weights.double(), transformed)
    inner = gram(values, head_products(out_proj))
    expected = torch.einsum("bhso,bgso->bshg", transformed, transformed)
    torch.testing.assert_close(inner.double(), expected, rtol=1e-4, atol=1e-4)
    # a sum that cancels loses digits in its square: the tolerance is relative to the terms, not to their sum
    terms = values.norm(dim=-1) * out_proj.norm(dim=(-2, -1))[None, :, None]  # [B, H, S], at least |f_h(x_s)|
    weighted_terms = weights * terms.unsqueeze(2)
    assert_squares_close(vector_norms(weights, inner), weighted.sum(1).norm(dim=-1), weighted_terms.sum(1))
    assert_squares_close(head_norms(weights, inner), weighted.norm(dim=-1), weighted_terms)
    assert_squares_close(source_norms(inner), transformed.norm(dim=-1), terms)


def assert_squares_close(found: torch.Tensor, expected: torch.Tensor, scale: torch.Tensor) -> None:
    assert ((found.double() ** 2 - expected**2).abs() <= 2e-6 * scale.double() ** 2).all()
