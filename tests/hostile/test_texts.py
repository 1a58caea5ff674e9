"""Texts and files of links of any bytes: read as the documentation says, or refused in one line that names the file."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align import Aligner, load
from align.cli import combine, evaluate, transfer
from align.io.reader import read_bitext, read_lines

PARTS = (
    *(b"|||", b"|||", b"||", b"\t", b"\n", b"\n", b"\r\n", b" ", b" ", b"a", b"\xc3\xbc", b"haus", b"\xc2\xa0"),
    *(b"\x0c", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x00", b"\r", b"a ||| b\n", b"c\td\n", b"\xc2\x85", b"1\t", b"2\t"),
)
NO_TEXT = (b"\xff", b"\xfe", b"PK\x03\x04", b"a\x00 \x00" * 4, b"\xed\xa0\x80", b"\x1f\x8b", b"\xc0\xaf", b"\xe2\x80")


def is_text(content: bytes) -> bool:
    """Whether a file is not of a type that the documentation names."""
    zeros = [position for position, byte in enumerate(content) if byte == 0]
    regular = len(zeros) >= max(8, len(content) // 20) and len({position % 2 for position in zeros}) == 1
    return not regular and not content.startswith((b"\x1f\x8b", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff"))


def plain_read(content: bytes) -> tuple[list[tuple[list[str], list[str]]], int | None]:
    """The pairs of a bitext up to the first line that cannot be read, and its number: a second, plain reader.

    The number is 0 where the whole file is refused.
    """
    pairs: list[tuple[list[str], list[str]]] = []
    if not is_text(content):
        return pairs, 0
    separator = ""
    last, counted, in_row = None, 0, 0
    raw = content.split(b"\n")
    for number, part in enumerate(raw[:-1] if raw[-1] == b"" else raw, 1):
        part = part[:-1] if part.endswith(b"\r") else part
        try:
            text = part.decode("utf-8")
        except UnicodeDecodeError:
            return pairs, number
        if number == 1 and text[:1] == "\ufeff":
            text = text[1:]
        first = text.split("\t")[0]
        running = int(first) if "\t" in text and first and set(first) <= set("0123456789") else None
        if text.strip(" \t") and counted < 4:
            counted += 1
            if running is not None and running - 1 == last:
                return pairs, 0
            last = running
            in_row = 0 if running is None else in_row + 1
            if in_row == 3:  # which is only warned of
                counted = 4
        if not text.replace(" ", "").replace("\t", ""):
            pairs.append(([], []))
            continue
        if "||||" in text:
            return pairs, number
        here = "|||" if "|||" in text else "\t"
        sides = text.split(here)
        if len(sides) != 2 or here != (separator or here):
            return pairs, number
        words = [[word for word in side.replace("\t", " ").split(" ") if word] for side in sides]
        if here == "|||" and any("\t" in side.strip(" \t") for side in sides):
            return pairs, number
        separator = here
        pairs.append((words[0], words[1]))
    return pairs, None


@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from(PARTS + NO_TEXT), max_size=30).map(b"".join))
def test_bytes_are_read_as_by_a_plain_reader(content: bytes) -> None:
    expected, bad = plain_read(content)
    found: list[tuple[list[str], list[str]]] = []
    error = ""
    try:
        for pair in read_bitext(read_lines(io.BufferedReader(io.BytesIO(content)), "x"), "x"):
            found.append((list(pair.source), list(pair.target)))
    except ValueError as refused:
        error = str(refused)
    start = "" if bad is None else f"x, line {bad}: " if bad else "x: "
    assert found == expected
    assert bool(error) == bool(start)
    assert error.startswith(start)


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    return load("de-en-fast")


WORDS = st.lists(st.text(st.characters(exclude_characters=" \t\n", exclude_categories=["Cs"]), min_size=1), max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_links_are_within_the_users_words(aligner: Aligner, pairs: list[tuple[list[str], list[str]]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alignments = list(aligner(pairs))
    assert [(list(a.pair.source), list(a.pair.target)) for a in alignments] == pairs
    for alignment, (source, target) in zip(alignments, pairs, strict=True):
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in alignment)
        assert all(0 <= score <= 1 for score in alignment.scores.values())


TOKENS = (
    *(b"0-0", b"1p1", b"2?2", b"999999999-999999999", b"1000000000-0", b"1" * 5000 + b"-1", b"-1-1", b"0-1:1e999"),
    *(b"0-1:nan", b"NaN", b"({", b"})", b"NULL ({ 1 })", b"1 1 1 S", b"0 1 1 S", b"999999999 1 1", b"0-0/S", b"1-1[P]"),
    b"# Sentence pair (1) source length 2 target length 999999999 alignment score : 1\n",
    *(
        b'{"links": [[0, 0]]}',
        b'{"links": [[0, 0]], "links": []}',
        b'{"links": [[0, 1e12]]}',
        b'{"links": ' + b"[" * 5000,
    ),
    *(b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\x00", b"\x1b[2J", b"\r", b"\xe2\x80\xae", b" ", b"\n", b"\n\n"),
)
LINKS = st.lists(st.sampled_from(TOKENS) | st.sampled_from((b" ", b"\n", b"0-0 1-1\n")), max_size=12).map(b"".join)
COMMANDS: dict[str, tuple[Callable[[list[str]], int], list[str]]] = {
    "eval": (evaluate.main, ["-g", "a", "b", "--samples", "0"]),
    "combine": (combine.main, ["a", "b"]),
    "transfer": (transfer.main, ["--tags", "xml", "-s", "tags", "-t", "text", "--links", "a"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@settings(max_examples=150, deadline=None)
@given(LINKS, LINKS)
def test_links_are_read_or_refused_in_one_line(command: str, first: bytes, second: bytes) -> None:
    main, arguments = COMMANDS[command]
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    files = {"a": first, "b": second, "tags": b"<b>x</b>\n", "text": b"y\n"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(Path(folder, word)) if word in files else word for word in arguments])
    errors = [line for line in err.getvalue().split("\n") if ": error: " in line]
    assert (code, len(errors)) in ((0, 0), (1, 1)), err.getvalue()
    assert all(c.isprintable() or c == "\n" for c in err.getvalue())
    assert all(len(line) <= 2100 for line in errors)
