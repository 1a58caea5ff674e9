"""What questions are asked of: attention by weight a and by the norm ||a f(x)|| of what arrives, in two directions.

Where heads look for something they do so in two directions, by what attends, and by what is attended to. A candidate is
one of C heads of all layers in one of these: 0 to C-1 in the first direction, C to 2C-1 in the second.
"""

from __future__ import annotations

from collections.abc import Sequence

from align.analysis.maps import Maps, Numbers

MEASURES = {"weight": "a", "norm": "‖af‖"}
"""Each measure, and what tables call it."""


def measured(maps: Maps) -> dict[str, Numbers]:
    """Attention by each measure `[L, H, T, S]`."""
    return {"weight": maps.weights, "norm": maps.norms}


def name_candidates(numbers: Sequence[int], shape: tuple[int, int], directions: tuple[str, str]) -> str:
    """How candidates are called, each once: layer-head and direction, such as `3-1 d>h`.

    Args:
        numbers: of candidates.
        shape: layers, and heads in each.
        directions: names of the two.
    """
    names = []
    for number in numbers:
        direction, head = divmod(number, shape[0] * shape[1])
        names.append(f"{head // shape[1] + 1}-{head % shape[1] + 1} {directions[direction]}")
    return " ".join(dict.fromkeys(names))
