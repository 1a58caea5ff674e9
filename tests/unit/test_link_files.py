"""Files of links: what they say beyond doubt is taken, the rest refused with the argument that would say it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from align.core.errors import LinksError
from align.core.formats import format_jsonl, format_pharaoh
from align.core.types import Alignment, Pair
from align.evaluation.gold import LinkOptions, read_as
from align.evaluation.link_files import MAX_SILENT, LinkFile, detect_format, find_base, read_links, renumber_file
from align.evaluation.link_formats import make_gold, parse_scored
from align.io.reader import read_lines

A3 = """# Sentence pair ({0}) source length 2 target length 3 alignment score : 0.01
the old house
NULL ({{ 2 }}) das ({{ 1 }}) Haus ({{ 3 }})
"""


def read(text: str | bytes, format: str | None = None) -> LinkFile:
    raw = text.encode() if isinstance(text, str) else text
    return read_links(read_lines(io.BytesIO(raw), "links"), "links", format)


def base(text: str, lengths: list[tuple[int, int]] | None = None, swapped: bool = False) -> int:
    return find_base(read(text), lengths, swapped)


def refused(start: str) -> Any:
    """Expects an error that starts so."""
    return pytest.raises(ValueError, match="^" + re.escape(start))


# Formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "pharaoh"),
        ("0-0 1-1\n", "pharaoh"),
        ("0-0:0.5\n", "pharaoh"),
        ("0-0\n1p1\n", "talp"),
        ("0-0/S\n", "talp"),
        ("1 1 1\n", "naacl"),
        ("\n \n0001\t1 1 S\n", "naacl"),
        ('{"links": []}\n0?0 1p1', "jsonl"),
        ("# Sentence pair (1) source", "giza"),
        ("# no sentence", "pharaoh"),
    ],
)
def test_formats_are_told_by_their_looks(text: str, expected: str) -> None:
    assert detect_format(text.split("\n"), "links") == expected


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("0-0 1p2\n\n2-0\n", "talp"),
        ("0-0 1?2\n\n2-0\n", "question"),
        ('{"links": [[0, 0]], "possible": [[1, 2]]}\n{"links": []}\n{"links": [[2, 0]]}\n', "jsonl"),
        ("1 0 0 S\n1 1 2 P\n3 2 0\n", "naacl"),
        ("3 2 0\n\n0001 1 2 P 0.5\n1 0 0\n", "naacl"),
    ],
)
@pytest.mark.parametrize("change", [lambda raw: raw, lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: raw[:-1]])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_all_formats_hold_the_same_links(text: str, format: str, change: Any, mark: bytes) -> None:
    file = read(mark + change(text.encode()))
    assert (file.name, file.format, file.open_ended) == ("links", format, format == "naacl")
    assert list(file.pairs) == [make_gold([(0, 0)], [(1, 2)]), make_gold([]), make_gold([(2, 0)])]


# Damage: file and line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n\n0-x 1-1\n", "links, line 3: '0-x' is not a link such as 0-3"),
        ("1 1 1\n0 1 1\n", "links, line 2: sentence 0, and NAACL files count from 1"),
        ("200000 1 1 S\n", "links, line 1: sentence 200,000 in a file of 1 line"),
        (f"1 1 1\n{MAX_SILENT + 3} 1 1\n", f"links, line 2: sentence {MAX_SILENT + 3:,} in a file of 2 lines"),
        (A3.format(1) + A3.format(1), "links, line 4: pair 1 appears twice"),
        (A3.format(1) + A3.format(3), "links: pair 2 is missing: give all parts of MGIZA's output"),
    ],
)
def test_damage_is_named_by_file_and_line(text: str, message: str) -> None:
    with refused(message):
        read(text)


# NAACL and GIZA++: pairs by number


def test_naacl_leaves_out_sentences_without_links() -> None:
    file = read("4 1 1\n2 3 1 P\n2 3 1 S\n2 1 1 P\n")
    none = make_gold([])
    assert list(file.pairs) == [none, make_gold([(3, 1)], [(1, 1)]), none, make_gold([(1, 1)])]
    assert list(file.lines) == [0, 2, 0, 1]


# Where counting starts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-1\n", 0),
        ("1-1\n2p0\n", 0),
        ("", 0),
        ('{"links": [[1, 1]]}\n', 0),
        ("1 1 1\n", 1),
        (A3.format(1), 1),
    ],
)
def test_the_base_that_a_file_proves_by_itself(text: str, expected: int) -> None:
    assert base(text) == expected


@pytest.mark.parametrize("link", ["1-3", "2-1", "1p3"])
def test_an_index_at_its_sentences_length_proves_base_1(link: str) -> None:
    assert base(f"1-1\n{link}\n", [(5, 5), (2, 3)]) == 1
    assert base("1-2\n", [(2, 5)], swapped=True) == 1


def test_without_proof_the_base_is_asked_for() -> None:
    for text, lengths, swapped in (
        ("1-1 2p1\n", None, False),
        ("1-1 2p1\n", [(5, 5)], False),
        ("1-3 2p3\n", [(5, 3)], True),  # the target's length, but this column is the source
    ):
        with refused("links: no index 0 in 2 links: the file may count from 0 or 1: give base=0 or"):
            base(text, lengths, swapped)


def test_contradicting_proofs_are_refused() -> None:
    with refused(
        "links: has an index 0, but also an index that equals its sentence's length, as if it counted from 1: "
        "check the text, the order of source and target, and that it is source first (else swapped=True). If all are "
        'right, give base=0 or 1, and out_of_range="ignore"'
    ):
        base("0-0\n3-3\n", [(3, 3), (3, 3)])


def test_index_0_where_the_format_counts_from_1_is_refused() -> None:
    with refused("links: index 0 in naacl format, which counts from 1: give base=0 if"):
        base("1 1 0\n")


# Renumbering


@pytest.mark.parametrize(
    ("text", "where"), [("1-1\n\n1p0\n", 3), ("2 1 1\n\n1 0 1 P\n", 3), ('{"links": [[0, 0]]}', 1)]
)
def test_an_index_below_the_base_is_named_by_file_and_line(text: str, where: int) -> None:
    with pytest.raises(ValueError, match=f"^links, line {where}: link .* has index 0, but counting starts at 1"):
        renumber_file(read(text), 1, False)


# Scores beside links

ALIGNMENT = Alignment(Pair(("a", "b"), ("x", "y"), 1), {(0, 1): 0.8312, (1, 0): 1.0})


def scores_of(path: Path, text: str, options: LinkOptions | None = None) -> list[dict[tuple[int, int], float | None]]:
    path.write_text(text, encoding="utf-8")
    return [dict(scores) for scores in read_as("hyp", str(path), options or LinkOptions(), scored=True).scores]


def test_what_extract_align_writes(tmp_path: Path) -> None:
    assert scores_of(tmp_path / "a", format_jsonl(ALIGNMENT)) == [{(0, 1): 0.8312, (1, 0): 1.0}]
    assert scores_of(tmp_path / "a", format_pharaoh(ALIGNMENT, scores=True)) == [{(0, 1): 0.83, (1, 0): 1.0}]
    assert scores_of(tmp_path / "a", "0-0 1-1:0.5\n\n") == [{(1, 1): 0.5}, {}]


def test_scores_go_with_their_links(tmp_path: Path) -> None:
    options = LinkOptions(base=1, swapped=True)
    assert scores_of(tmp_path / "a", "1-2:0.25 3p1:1e-3\n", options) == [{(1, 0): 0.25, (0, 2): 0.001}]


@pytest.mark.parametrize("scores", ['"x"', "null", "[0.5]", "[NaN, 1]", "[1, -1]", "[[1], {}]", "[1, 1e999]"])
def test_what_is_no_score_is_refused(tmp_path: Path, scores: str) -> None:
    line = f'{{"links": [[0, 0], [1, 1]], "scores": {scores}}}'
    with pytest.raises(LinksError, match=r"a, line 2: .*score"):
        scores_of(tmp_path / "a", f'{{"links": []}}\n{line}\n')
    with pytest.raises(ValueError, match="score"):
        parse_scored(line)
    assert len(read_as("hyp", str(tmp_path / "a"), LinkOptions()).pairs) == 2  # where none are asked for
