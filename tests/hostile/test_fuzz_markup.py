"""A little of `scripts/fuzz markup`."""

from __future__ import annotations

from tests.hostile import fuzz_markup


def test_taggings_come_out_whole() -> None:
    assert [found for number in range(500) if (found := fuzz_markup.fault(7, number))] == []
