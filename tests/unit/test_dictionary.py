"""fairseq's dictionaries, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.models.fairseq.dictionary import SPECIAL, read_dictionary


def test_lines_end_at_line_feeds_alone(tmp_path: Path) -> None:
    path = tmp_path / "dict.de.txt"
    path.write_bytes("a\u2028b 3\nc\x85d 2\n\x0c\x1e 1\n".encode())  # where str.splitlines would cut, too
    dictionary = read_dictionary(path)
    assert dictionary.pieces == [*SPECIAL, "a\u2028b", "c\x85d", "\x0c\x1e"]
    assert dictionary.counts[len(SPECIAL) :] == [3, 2, 1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff 1\n", "codec"), (b"a\n", "line 1 is not"), (b"a 1\nb\n", "line 2 is not"), (b"a 1\na 2\n", "line 2 has")],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "dict.de.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path}: not a fairseq dictionary .*({reason})"):
        read_dictionary(path)
