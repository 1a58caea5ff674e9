"""Files that are not text: recognised by their content, whatever they are called."""

import io
import lzma
import re
import tarfile
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
RECORD = '{"source": "Das ist", "target": "That is"}\n'


def _zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("text", PAIRS)
    return packed.getvalue()


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("text"), io.BytesIO())
    return packed.getvalue()


TYPES = {
    "utf-16le": (PAIRS.encode("utf-16-le"), "UTF-16LE: convert it to UTF-8, for example with iconv"),
    "utf-16be": (PAIRS.encode("utf-16-be"), "UTF-16BE: convert it to UTF-8, for example with iconv"),
    "mark": (b"\xff\xfe" + "日本\n".encode("utf-16-le"), "UTF-16LE: convert"),
    "cyrillic": (CYRILLIC.encode("utf-16-le"), "UTF-16LE: convert"),
    "utf-32": (PAIRS.encode("utf-32"), "UTF-32: convert it"),
    "zip": (_zip(), "a zip archive: unpack it"),
    "xz": (lzma.compress(PAIRS.encode()), "compressed data: unpack it first, or name the file .gz, .xz or .zst"),
    "parquet": (table(de=["das haus"], en=["the house"]), "a Parquet file: extract-align reads"),
    "json": (RECORD.encode(), "JSON lines: extract-align reads"),
    "json-2": ((RECORD + "\n" + RECORD).encode("utf-8-sig"), "JSON lines: extract-align reads"),
    "tmx": (b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n', "TMX: write"),
    "xliff": (b'\xef\xbb\xbf<?xml version="1.0"?><xliff version="1.2">\n', "XLIFF: write"),
    "po": (b'# German\n#, fuzzy\nmsgid ""\nmsgstr ""\n', "a PO catalogue: write"),
    "tar": (_tar(), "a tar archive: unpack it"),
    "pdf": (b"%PDF-1.4\n%\xe2\xe3\n", "a PDF: write"),
}


@pytest.mark.parametrize("suffix", ["", ".xz"])
@pytest.mark.parametrize("kind", TYPES)
def test_other_types_are_named_with_a_remedy(tmp_path: Path, kind: str, suffix: str) -> None:
    content, message = TYPES[kind]
    path = tmp_path / f"text{suffix}"
    path.write_bytes(lzma.compress(content) if suffix else content)
    with (
        open_lines(str(path)) as stream,
        pytest.raises(DataError, match=f"^some name: the file is {re.escape(message)}"),
    ):
        list(read_lines(stream, "some name", json_lines=False))


def test_json_lines_are_text_where_they_are_accepted() -> None:
    assert list(read_lines(io.BytesIO(RECORD.encode()), "x")) == [RECORD.rstrip()]


TEXTS = [
    "",
    "{}\n",
    '{"a": 1} ||| {"a": 1}\n',
    '{"a": 1}\nDas Haus\n',
    "PK ||| PK\n",
    "PAR1 ist ein Gen ||| PAR1 is a gene\n",
    "%PDF-1.4 steht am Anfang ||| %PDF-1.4 comes first\n",
    "BZhD ||| BZhD\n",
    "<tmx> ist ||| <tmx> is\n",
    'msgid "x" ||| msgid "x" is\n',
    "<p>A <tmx/> ||| A\n",
    'msg ||| msgid "a"\n',
    "\0\0a ||| \0\0b\n",
    "a\0 ||| b\n",
    "Grüße ||| greetings\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_resembles_other_types_is_read(text: str) -> None:
    assert recognise_file(text.encode(), json_lines=False) is None


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_text_that_begins_with_a_letter_is_text(text: str) -> None:
    assert recognise_file(f"x{text}".encode(), json_lines=False) is None


LETTERS = st.text(st.sampled_from("abcdefgh äöüабвгд\n"), min_size=60)


@given(LETTERS, st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_utf_16_without_a_mark_is_recognised(text: str, encoding: str) -> None:
    content = text.encode(encoding)
    zeros = content.count(0)
    recognised = recognise_file(content)
    assert bool(recognised) == (zeros >= max(8, len(content) // 20))
