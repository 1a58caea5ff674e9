"""The comparison of golden files itself: it lets rounding pass, and nothing else."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.golden_files import assert_same_but_for_rounding

RECORD = (
    b'{"id": 1, "source": ["\\"scores\\": [0.5"], "links": [[0, 0], [1, 1]], "scores": [0.9181, 1.0], "null": []}\n'
)
SCORED = b"0-0:0.83 1-1:1.00\n\n0-10:0.83\n"


@pytest.mark.parametrize(
    ("unit", "expected", "old", "new"), [("0.0001", RECORD, b"0.9181", b"0.918"), ("0.01", SCORED, b"0.83", b"0.84")]
)
def test_rounding_passes(unit: str, expected: bytes, old: bytes, new: bytes) -> None:
    assert_same_but_for_rounding(expected, expected, unit)
    assert_same_but_for_rounding(expected.replace(old, new), expected, unit)
    with pytest.raises(AssertionError):
        assert_same_but_for_rounding(expected.replace(old, new), expected)


@pytest.mark.parametrize(
    ("unit", "expected", "old", "new"),
    [
        ("0.0001", RECORD, b"0.9181", b"0.9183"),
        ("0.0001", RECORD, b"0.9181", b"0.91809"),
        ("0.0001", RECORD, b"0.9181, 1.0", b"0.9181"),
        ("0.0001", RECORD, b"[0.5", b"[0.4999"),
        ("0.0001", RECORD, b", ", b","),
        ("0.01", SCORED, b"0.83", b"0.85"),
        ("0.01", SCORED, b"0.83", b"0.831"),
        ("0.01", b"0-0\n", b"0-0", b"0-0"),
    ],
)
def test_anything_else_fails(unit: str, expected: bytes, old: bytes, new: bytes) -> None:
    with pytest.raises(AssertionError):
        assert_same_but_for_rounding(expected.replace(old, new), expected, unit)


def test_every_golden_file_is_described_and_read() -> None:
    """By its name in a test, but for the outputs of other programs, which `test_symmetrize.py` takes as they come."""
    golden = ROOT / "tests" / "golden"
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
    folders = sorted(path for path in (*golden.glob("transformers-*/*"), *golden.glob("models/*")) if path.is_dir())
    assert folders
    assert all(path.name in (golden / "README.md").read_text(encoding="utf-8") for path in folders)
    for path in golden.rglob("*.*"):
        if path.name != "README.md" and path.parent not in folders and path.is_file():
            assert path.name in (path.parent / "README.md").read_text(encoding="utf-8")
            stem, _, rest = path.name.partition(".")
            taken = f'"{stem}"' if rest == "pharaoh" and path.parent != golden else f'written_by("{stem}")'
            assert any(name in tests for name in (path.name, taken)), path
