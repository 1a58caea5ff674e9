"""The comparison of two trees finds what differs, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.freeze.compare import compare

SAME: dict[str, Any] = {
    "codes": [0, 1],
    "out": "0-0:0.9134 1-1\nalign|v:0.3.0|norm\n",
    "err": "extract-align: warning: x\n",
    "files": {"links": "0-0\n1-1\n", "scores": '{"scores": [0.5, 1.0]}\n'},
}


def result(**changes: Any) -> dict[str, Any]:
    return {**SAME, **changes}


def files(**changes: str) -> dict[str, Any]:
    return result(files={**SAME["files"], **changes})


@pytest.mark.parametrize(
    ("new", "part"),
    [
        (result(codes=[0, 2]), "exit codes: old [0, 1], new [0, 2]"),
        (result(out=SAME["out"].replace("1-1", "1-2")), "stdout, line 1:\n    old '0-0:0.9134 1-1'"),
        (result(out=SAME["out"].replace("0.9134", "0.9138")), "stdout, line 1"),
        (result(err=""), "on stderr"),
        (files(links="0-0\n1-0\n"), "links, line 2:\n    old '1-1'\n    new '1-0'"),
        (files(other=""), "other: only written by the new tree"),
        (result(files={"links": SAME["files"]["links"]}), "scores: only written by the old tree"),
    ],
)
def test_a_difference_is_reported(new: dict[str, Any], part: str) -> None:
    (found,), near = compare(SAME, new)
    assert part in found
    assert near == []
