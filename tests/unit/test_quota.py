"""CPU quotas, as Linux's two kinds of control groups write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.io.process import cpu_quota


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({}, None),
    ],
)
def test_cores_that_a_quota_allows(files: dict[str, str], cores: int | None, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="latin-1")
    assert cpu_quota(tmp_path) == cores
