"""Symmetrisation: set relations, a naive reading of the published pseudo-code, and other programs' own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align.core.types import Links
from align.evaluation.dialects import ALL_METHODS, symmetrize
from align.evaluation.link_formats import parse_pharaoh, renumber
from tests.conftest import ROOT, SHARED
from tests.naive_growing import GROWING

GOLDEN = ROOT / "tests" / "golden" / "symmetrize"
PUBLISHED = SHARED / "gold" / "enfr-hansards447" / "lilt-baselines"

SIZE = 7
indices = st.integers(0, SIZE - 1)
some_links = st.frozensets(st.tuples(indices, indices), max_size=25)


def written_by(program: str) -> list[Path]:
    """A program's own files, one for each method."""
    return sorted(GOLDEN.glob(f"{program}.*"))


@st.composite
def two_directions(draw: st.DrawFn) -> tuple[Links, Links]:
    """Links of both directions in a band around a diagonal, or anywhere, with or without some that they agree on."""
    sizes = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    width, falling = draw(st.integers(0, 12)), draw(st.booleans())
    cells = [(i, sizes[1] - 1 - j if falling else j) for i in range(sizes[0]) for j in range(sizes[1])
             if abs(i - j) <= width]  # fmt: skip
    fate = draw(st.lists(st.sampled_from("fffbbb+... "), min_size=len(cells), max_size=len(cells)))
    forward, reverse = (
        frozenset(cell for cell, which in zip(cells, fate, strict=True) if which in kinds) for kinds in ("f+", "b+")
    )
    return forward, reverse


def read(path: Path, swapped: bool = False) -> list[Links]:
    """Links of each line of a file."""
    return [renumber(parse_pharaoh(line), swapped=swapped) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("method", GROWING)
@given(both=two_directions())
@settings(max_examples=150)
def test_growing_takes_what_passes_over_the_union_take(method: str, both: tuple[Links, Links]) -> None:
    assert symmetrize(*both, method) == GROWING[method](*both)


@pytest.mark.parametrize("method", ALL_METHODS)
@given(forward=some_links, reverse=some_links)
def test_every_method_lies_between_intersection_and_union(method: str, forward: Links, reverse: Links) -> None:
    assert forward & reverse <= symmetrize(forward, reverse, method) <= forward | reverse


@pytest.mark.parametrize("program", [written_by("atools"), written_by("symal")], ids=["atools", "symal"])
def test_programs_give_the_same(program: list[Path]) -> None:
    forward, reverse = (read(GOLDEN / f"{name}.pharaoh") for name in ("forward", "reverse"))
    for path in program:
        method, expected = path.name.split(".")[1], read(path)
        assert len(expected) == 300
        assert [symmetrize(*both, method) for both in zip(forward, reverse, strict=True)] == expected


@pytest.mark.parametrize("tool", ["fastalign", "giza"])
@pytest.mark.parametrize(
    ("published", "method"),
    [
        ("intersection", "intersection"),
        ("union", "union"),
        ("grow-diagonal", "lilt-grow-diag"),
        ("grow-diagonal-final", "lilt-grow-diag-final"),
    ],
)
def test_lilts_published_files(tool: str, published: str, method: str) -> None:
    folder = PUBLISHED / tool
    if not folder.is_dir():
        pytest.skip(f"needs {PUBLISHED.relative_to(SHARED)} in {SHARED.name}/ beside the repository")
    forward = read(folder / "test.enfr.talp")
    reverse = read(folder / "test.enfr.reverse.talp", swapped=True)
    expected = read(folder / f"test.enfr.{published}.talp")
    assert len(expected) == 447
    assert [symmetrize(*both, method) for both in zip(forward, reverse, strict=True)] == expected
