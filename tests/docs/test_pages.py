"""Pages show what their commands print, every public name is documented, and the README is short."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import align
from tests.conftest import ROOT
from tests.docs import figures
from tests.docs.blocks import ENVIRONMENT, PAGES, Session, as_shown, blocks, commands
from tests.forked import programs

KINDS = {"bash", "console", "ini", "json", "pycon", "python", "text", "toml", "yaml"}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(scope="module")
def forked_programs() -> Iterator[Path]:
    with programs(os.environ | ENVIRONMENT | {"OMP_WAIT_POLICY": "passive", "PYTHONSAFEPATH": "1"}) as folder:
        yield folder


@pytest.mark.slow
@pages
def test_a_page_shows_what_comes(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_programs: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session(tmp_path, forked_programs)
    for block in blocks(page):
        assert session.today(block) == block.text, "python -m tests.docs.update writes what comes today"


@pages
def test_blocks_are_of_known_kinds_and_files_in_them_are_used(page: Path) -> None:
    found = blocks(page)
    assert {block.kind for block in found if not block.reason} <= KINDS
    used = " ".join(command for block in found if block.kind == "console" for command, _ in commands(block))
    titles = [block.title for block in found if block.kind == "python"]
    assert [title for title in titles if not title.startswith("examples/") and title not in used] == []


def test_blocks_that_are_not_run_are_few() -> None:
    """Each says in the page why it is not run."""
    assert sum(bool(block.reason) for page in PAGES for block in blocks(page)) == 51


def test_the_readme_is_short_and_installs_as_the_site_says() -> None:
    readme, site = ROOT / "README.md", ROOT / "docs" / "install.md"
    assert len(readme.read_text(encoding="utf-8").split()) <= 900
    assert blocks(readme)[2].text == blocks(site)[0].text


@pages
def test_figures_are_those_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(figures.MARK.findall(text)) == text.count("<!-- end -->")
    assert figures.current(page) == text, "python -m tests.docs.update writes what the files have today"


def test_every_public_name_has_an_entry_in_the_api_pages() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))
    assert sorted(re.findall(r"^::: align\.(\w+)$", text, re.MULTILINE)) == sorted(
        set(vars(align)["__all__"]) - {"__version__"}
    )


@pytest.mark.parametrize(
    ("shown", "printed", "written"),
    [
        ("a\n", "b\n", "b\n"),
        ("", "b", "b\n"),
        ("3 lines, 4 lines/s\n", "3 lines, 1,234 lines/s\n", "3 lines, 4 lines/s\n"),
        ("a\n[...]\nz\n", "a\nb\nz\n", "a\n[...]\nz\n"),
        ("a\n[...]\n", "x\nb\nz\n", "x\n[...]\n"),
        ("a\n[...]\nthe third: 1\n[...]\nz\n", "A\nb\nthe third: 2\nx\nZ\n", "A\n[...]\nthe third: 2\n[...]\nZ\n"),
    ],
)
def test_what_is_shown_of_what_is_printed(shown: str, printed: str, written: str) -> None:
    assert as_shown(shown, printed) == written
