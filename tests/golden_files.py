"""Output held against a file in `tests/golden`: links byte for byte, scores to a unit of their last digit.

float32 products are summed in another order on another processor or with other threads, so that a score of 0.91805
may be printed as 0.9181 or 0.918. Links are the same everywhere: in the golden files no second best word comes near.
"""

from __future__ import annotations

import re
from decimal import Decimal

_SCORES = {
    "0.01": re.compile(rb"(?<=[0-9]:)([01]\.[0-9]{2})(?=[ \n]|$)"),  # 0-0:0.83
    "0.0001": re.compile(
        rb'(?:(?<="scores": \[)|(?<="agreement": \[))([^\]]*)(?=\], "(?:null|source_spans)")'
    ),  # in JSON lines; behind \" in a word is no colon
}
"""What is a score, by the unit of the last digit that is printed."""


def assert_same_but_for_rounding(found: bytes, expected: bytes, unit: str | None = None) -> None:
    """Fail unless two outputs are the same, scores (Pharaoh's of unit 0.01, JSON lines' of 0.0001) within a unit."""
    if unit is None:
        assert found == expected
        return
    pattern = _SCORES[unit]
    assert pattern.sub(b"", found) == pattern.sub(b"", expected)
    ours_all, theirs_all = _numbers(pattern, found), _numbers(pattern, expected)
    assert theirs_all  # or there would be nothing to compare
    assert len(ours_all) == len(theirs_all)
    for ours, theirs in zip(ours_all, theirs_all, strict=True):
        assert abs(ours - theirs) <= Decimal(unit)
        assert round(ours, 4) == ours  # no more digits than are promised


def _numbers(pattern: re.Pattern[bytes], output: bytes) -> list[Decimal]:
    fields = (field for match in pattern.findall(output) for field in match.decode().split(", "))
    return [Decimal(field) for field in fields if field]
