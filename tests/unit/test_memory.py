"""Freed memory is kept where the C library can, and nothing happens elsewhere."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from align.io.process import keep_freed_memory


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_another_c_library_is_left_alone(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: None) -> Any:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", missing)
    keep_freed_memory()


def test_glibc_is_told_both_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    class Library:
        def mallopt(self, parameter: int, value: int) -> None:
            told.append((parameter, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    keep_freed_memory()
    assert told == [(-3, 32 * 2**20), (-1, 2**30)]
