"""The documentation site, as a reader sees it: code is whole, and its button copies what can be pasted."""

from __future__ import annotations

import doctest
import logging
import re
import shutil
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.docs import blocks

PAGES = ("align", "evaluate", "repair", "tags")
UNDER_BUTTONS = """() => [...document.querySelectorAll('.highlight pre')].flatMap(block => {
    const button = block.querySelector('button').getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(block.querySelector('code'));
    return [...range.getClientRects()].filter(({ left, right, top, bottom }) => right - left > 1
        && right > button.left && left < button.right && bottom > button.top + 1 && top < button.bottom - 4).length;
})"""
CUT = "nodes => nodes.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1).length"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README and some pages, with the site's style; its other pages would take longer."""
    build = pytest.importorskip("mkdocs.commands.build", reason="needs mkdocs")
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "docs" / "pictures")
    for name in PAGES:
        shutil.copy(ROOT / "docs" / f"{name}.md", folder / "docs")
    logging.getLogger("mkdocs").setLevel(logging.ERROR)  # links to pages that are left out
    where = {"docs_dir": str(folder / "docs"), "site_dir": str(folder / "site")}
    build.build(load_config(str(ROOT / "mkdocs.yml"), plugins=[], nav=None, **where))
    return folder / "site"


@pytest.fixture
def open_page(browser: Any, site: Path) -> Iterator[Any]:
    """Opens a page of the site in a window of a width."""
    contexts = []

    def opened(name: str, width: int = 1280, scheme: str = "light") -> Any:
        contexts.append(browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.goto((site / f"{name}.html").as_uri())
        page.locator(".highlight button").first.wait_for(state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()


def pasted(page: Any, block: str) -> str:
    """Return what is pasted after a click on the button of the block with a text."""
    page.locator("pre", has_text=block).first.locator("button").click()
    page.evaluate("document.body.prepend(Object.assign(document.createElement('textarea'), { id: 'paste' }))")
    page.focus("#paste")
    page.keyboard.press("Control+V")
    text: str = page.input_value("#paste")
    page.evaluate("document.getElementById('paste').remove()")
    return text


def test_what_is_copied_of_a_session_is_what_was_typed() -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs")
    spec = spec_from_file_location("site_hooks", ROOT / "docs" / "_site.py")
    assert spec
    assert spec.loader
    hooks = module_from_spec(spec)
    spec.loader.exec_module(hooks)
    for block in (block for page in blocks.PAGES for block in blocks.blocks(page)):
        typed = ""
        if block.kind == "console":
            typed = "".join(command for command, _ in blocks.commands(block))
        elif block.kind == "pycon":
            typed = "".join(example.source for example in doctest.DocTestParser().get_examples(block.text))
        assert re.sub(r"\n(?=\n)", "", hooks.commands(block.text)) == re.sub(r"\n(?=\n)", "", typed)


def test_the_button_copies_commands_alone(open_page: Any) -> None:
    page = open_page("evaluate")
    files = "-q one.jsonl two.jsonl -g examples/de-en.gold.talp"
    assert pasted(page, files).splitlines() == [
        "extract-align -q -s text.de -t text.en --reverse-model en-de-fast -f jsonl -o two.jsonl",
        f"extract-align view {files} \\",
        "    -o page.html",
    ]
    assert pasted(page, "read_gold, read_hypotheses").splitlines()[:2] == [
        "from align import evaluate, read_gold, read_hypotheses",
        'gold = read_gold("examples/de-en.gold.talp")',
    ]
    assert pasted(open_page("tags"), "<p>Das <b>Haus</b>").startswith("<p>Das")  # a file


@pytest.mark.parametrize("width", [390, 720, 1000, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_code_is_whole(open_page: Any, name: str, width: int) -> None:
    page = open_page(name, width)
    assert sum(page.evaluate(UNDER_BUTTONS)) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shaded = page.locator(".highlight pre > code").evaluate_all(
        "nodes => nodes.every(node => getComputedStyle(node).backgroundImage.includes('gradient'))"
    )
    assert shaded == (width <= 720)
    assert shaded or page.locator(".highlight pre > code").evaluate_all(CUT) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_page_has_a_picture_of_links(open_page: Any, scheme: str) -> None:
    page = open_page("index", scheme=scheme)
    shown = page.locator("article img:visible")
    assert shown.count() == 1
    name = "links-dark.png" if scheme == "dark" else "links.png"
    assert shown.get_attribute("src").partition("#")[0] == f"pictures/{name}"
    assert shown.evaluate("node => node.naturalWidth") > 500
