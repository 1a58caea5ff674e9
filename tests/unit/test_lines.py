"""Lines, words and pairs."""

import gzip
import io
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import DataError, LineError
from align.io.compression import import_zstd
from align.io.reader import SideSplitter, open_lines, read_bitext, read_lines, read_parallel


def test_lines_end_at_newline_only_and_lose_carriage_return_and_bom() -> None:
    raw = io.BytesIO("\ufeffa\u2028b\x85c\x0cd\r\n\n\ufeffe".encode())
    assert list(read_lines(raw, "x")) == ["a\u2028b\x85c\x0cd", "", "\ufeffe"]


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", import_zstd().compress)]
)
def test_damaged_packed_files_name_file_and_line(tmp_path: Path, suffix: str, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"text{suffix}"
    whole = pack(b"".join(b"%d\n" % n for n in range(10_000)))
    for damaged in (whole[: len(whole) // 2], b"not packed at all\n"):
        path.write_bytes(damaged)
        with open_lines(str(path)) as stream, pytest.raises(ValueError, match=r"^some name, line \d+: damaged"):
            list(read_lines(stream, "some name"))


def test_invalid_utf8_names_file_line_and_byte() -> None:
    with pytest.raises(ValueError, match=r"^bad\.txt, line 2: not UTF-8 \(byte 0xff at position 3\)"):
        list(read_lines(io.BytesIO(b"good\nab\xff\n"), "bad.txt"))


@pytest.mark.parametrize(
    ("line", "sides"),
    [
        ("a b ||| c", ("a b ", " c")),
        ("a\tb c", ("a", "b c")),
        ("a x\t|||\tb", ("a x\t", "\tb")),
        ("||| b", ("", " b")),
        ("a\t", ("a", "")),
        (" \t \t ", ("", "")),
    ],
)
def test_bitext_lines(line: str, sides: tuple[str, str]) -> None:
    assert SideSplitter()(line) == sides


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b c", "no |||"),
        ("a ||| b ||| c", "expected two fields between |||; got 3"),
        ("a\tb", "expected ||| between source and target, as in the lines before; got TAB"),
        ("a ||| b ||| c\td", "both ||| and TAB"),
        ("\u00a0", "no |||"),
    ],
)
def test_bitext_lines_that_are_none_name_file_and_line(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^f, line 2: ") as error:
        list(read_bitext(["a ||| b", line], "f"))
    assert message in str(error.value)


@pytest.mark.parametrize(("sources", "targets"), [(3, 5), (5, 3), (0, 1)])
def test_files_that_are_not_parallel_name_both_counts(sources: int, targets: int) -> None:
    with pytest.raises(ValueError, match=f"^s has {sources} lines, t has {targets}: line {min(sources, targets) + 1} "):
        list(read_parallel(["a"] * sources, ["b"] * targets, ("s", "t")))


NUMBERED = "its lines begin with a running number and a TAB: `cut -f 2-` removes the numbers"


@pytest.mark.parametrize(
    ("sources", "targets", "name"),
    [
        (["0\tdas", "1\tein"], ["0\tthe", "1\ta"], "s"),
        (["das", "ein"], ["0\tthe", "1\ta"], "t"),
        (["id\ttext", "1\tdas", "2\tein"], ["id\ttext", "1\tthe", "2\ta"], "s"),
    ],
)
def test_running_numbers_are_no_words(sources: list[str], targets: list[str], name: str) -> None:
    with pytest.raises(DataError, match=f"^{name}: {NUMBERED}"):
        list(read_parallel(sources, targets, ("s", "t")))


ODD = [b"das ||| the", b"das\tthe\t1", b"\xff ||| a", b"", b"\t", b"a", b"a ||| b ||| c", b"\xe2\x80\xa8", b"x\ty\r"]


@given(st.lists(st.sampled_from(ODD) | st.binary(max_size=9).map(lambda line: line.replace(b"\n", b""))))
def test_lines_that_may_pass_keep_all_others_in_place(lines: list[bytes]) -> None:
    """Line by line, what each reads behind the separator of the first, or a blank pair where it cannot be read."""
    if lines[:1] and lines[0].startswith((b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd")):
        lines = [b"", *lines]  # which would be taken for a compressed file
    bad: list[LineError] = []
    stream = io.BytesIO(b"".join(line + b"\n" for line in lines))
    pairs = list(read_bitext(read_lines(stream, "x", bad.append), "x", None, bad.append))
    assert [pair.id for pair in pairs] == list(range(1, len(lines) + 1))
    numbers = {error.line for error in bad}
    first = next(
        (number for number, pair in enumerate(pairs) if number + 1 not in numbers and lines[number].strip(b" \t\r")), 0
    )
    for number, (line, pair) in enumerate(zip(lines, pairs, strict=True), 1):
        before = lines[first] if first + 1 < number and first + 1 not in numbers else b""
        alone = io.BytesIO(before + b"\n" + line + b"\n")  # a byte order mark is one in the first line only
        try:
            _, one = read_bitext(read_lines(alone, "x"), "x")
        except LineError:
            assert (number in numbers, pair.source, pair.target) == (True, (), ()), line
        else:
            assert number not in numbers
            if number > 1:
                assert (pair.source, pair.target) == (one.source, one.target)


def test_columns_of_source_and_target() -> None:
    lines = ["1\ta b\tc", " \t ", "1\t2"]
    bad: list[LineError] = []
    pairs = list(read_bitext(lines, "x", (3, 2), bad.append))
    assert [(pair.source, pair.target) for pair in pairs] == [(("c",), ("a", "b")), ((), ()), ((), ())]
    assert [(str(error), error.reason) for error in bad] == [
        ("x, line 3: no column 3: the line has 2, separated by TABs", "wrong fields")
    ]
    assert str(bad[0].in_file("y")) == "y, line 3: no column 3: the line has 2, separated by TABs"
