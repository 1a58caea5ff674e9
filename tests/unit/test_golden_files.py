"""Golden files are described, and each of them is read by a test."""

from __future__ import annotations

from tests.conftest import ROOT


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
