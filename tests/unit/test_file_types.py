"""Files that are not text: recognised by their content, whatever they are called."""

import io
import lzma
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import DataError
from align.io.reader import open_lines, read_lines, recognise_file
from tests.scale.test_bad_files import table

PAIRS = "Das ist gut . ||| That is good .\nJa . ||| Yes .\n"
CYRILLIC = "Привет мир ||| Hello world\nДа ||| Yes\n"


def _zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("text", PAIRS)
    return packed.getvalue()


TYPES = {
    "utf-16le": (PAIRS.encode("utf-16-le"), "UTF-16"),
    "mark": (b"\xff\xfe" + "日本\n".encode("utf-16-le"), "UTF-16 or UTF-32"),
    "cyrillic": (CYRILLIC.encode("utf-16-le"), "UTF-16"),
    "zip": (_zip(), "a zip archive"),
    "xz": (lzma.compress(PAIRS.encode()), "compressed data"),
    "parquet": (table(de=["das haus"], en=["the house"]), "a Parquet file"),
    "tmx": (b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n', "TMX, a document"),
    "pdf": (b"%PDF-1.4\n%\xe2\xe3 1 0 obj\n", "a PDF"),
}


@pytest.mark.parametrize("suffix", ["", ".xz"])
@pytest.mark.parametrize("kind", TYPES)
def test_other_types_are_named(tmp_path: Path, kind: str, suffix: str) -> None:
    content, name = TYPES[kind]
    path = tmp_path / f"text{suffix}"
    path.write_bytes(lzma.compress(content) if suffix else content)
    with (
        open_lines(str(path)) as stream,
        pytest.raises(
            DataError, match=f"^some name: the file is {name}: extract-align reads UTF-8 text, plain or compressed"
        ),
    ):
        list(read_lines(stream, "some name"))


LETTERS = st.text(st.sampled_from("abcdefgh äöüабвгд\n"), min_size=60)


@given(LETTERS, st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_utf_16_without_a_mark_is_recognised(text: str, encoding: str) -> None:
    content = text.encode(encoding)
    zeros = content.count(0)
    recognised = recognise_file(content)
    assert bool(recognised) == (zeros >= max(8, len(content) // 20))
