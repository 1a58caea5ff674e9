"""What is shared by records of runs: digests, and how two runs differ."""

from __future__ import annotations

import pytest

from align.io.manifest import differences


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("align|m|layer:1|v:1", "align|m|layer:2|v:1", "x: layer:1 → layer:2"),
        ("align|m|v:1", "align|m|mt:en|v:1", "x: none → mt:en"),
        ("a|b", "b|a", "x: a|b → b|a"),
        ("a|b", None, "x: a|b → None"),
    ],
)
def test_of_two_signatures_only_what_differs_is_shown(was: object, now: object, message: str) -> None:
    assert differences({"x": was, "y": 1}, {"x": now, "y": 1}) == message
