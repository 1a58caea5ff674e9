"""The two measures of attention that questions are asked of: its weight a, and the norm ||a f(x)|| of what arrives."""

from __future__ import annotations

from align.analysis.maps import Maps, Numbers

MEASURES = {"weight": "a", "norm": "‖af‖"}
"""Each measure, and what tables call it."""


def measured(maps: Maps) -> dict[str, Numbers]:
    """Attention by each measure `[L, H, T, S]`."""
    return {"weight": maps.weights, "norm": maps.norms}
