"""What is shared by records of runs: digests, and how two runs differ."""

from __future__ import annotations

import os
from hashlib import blake2b, sha256
from pathlib import Path

import pytest

from align.io.manifest import differences, digest_of


def test_digests_are_of_all_bytes(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(data)
    assert digest_of(str(tmp_path / "file")) == blake2b(data, digest_size=32).hexdigest()
    assert digest_of(tmp_path / "file", sha256(b"x")) == sha256(b"x" + data).hexdigest()


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
