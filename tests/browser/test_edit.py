"""Edit mode of the page: links made by keys and by mouse, taken back, and downloaded for `extract-align eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from align.cli import evaluate
from align.view.page import make_page
from tests.browser.toy_page import ONE, TEXT, TWO, Visit, system

SIGNS = """nodes => Object.fromEntries(nodes.flatMap(node => {
    const sign = node.querySelector('.sign');
    return sign ? [[node.dataset.cell, sign.classList[1]]] : [];
}))"""


@pytest.fixture
def page(visit: Visit) -> Any:
    """Edit mode, with two systems and no gold: it starts with the links of the first."""
    made = visit(make_page(TEXT, [ONE, TWO]))
    made.click("#edit")
    return made


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def cells(page: Any) -> dict[str, str]:
    """The links of the sentence that is edited, in the matrix and in the lines, which have to say the same."""
    found: dict[str, str] = page.locator("#edited td[data-cell]").evaluate_all(SIGNS)
    read = "nodes => Object.fromEntries(nodes.map(line => [line.dataset.link, line.classList[1]]))"
    assert page.locator("#edited .line").evaluate_all(read) == found
    return found


def focused(page: Any) -> str:
    at: str = page.evaluate("document.activeElement.dataset.cell ?? document.activeElement.id")
    return at


def saved(page: Any, format: str) -> tuple[str, str]:
    """The name of the file that a button downloads, and what is in it."""
    with page.expect_download() as download:
        page.click(f"#{format}")
    return download.value.suggested_filename, Path(download.value.path()).read_text(encoding="utf-8")


def asks_before_leaving(page: Any) -> bool:
    """Tell whether the browser would ask; the page is not left."""
    asks: bool = page.evaluate("!window.dispatchEvent(new Event('beforeunload', {cancelable: true}))")
    return asks


def test_keys(page: Any) -> None:
    assert cells(page) == {"0-0": "sure", "1-1": "sure", "1-2": "sure", "3-3": "sure"}
    assert focused(page) == "1-2"  # the first in which the systems differ
    press(page, "Delete", "d")
    assert focused(page) == "2-2"
    press(page, "s", "ArrowDown", "p", "ArrowRight", "Space", "ArrowLeft", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
    assert cells(page) == {"0-0": "sure", "1-1": "sure", "2-2": "sure", "3-2": "maybe", "3-3": "maybe"}
    assert focused(page) == "0-2"  # no cell is above
    assert page.inner_text("#edited .reading") == "Das – is: no link"
    press(page, "Enter")
    assert page.inner_text("#edited h2") == "2"
    assert page.inner_text("#progress").startswith("1 of 3 sentences looked at; a download has the others as in one.")
    press(page, "k")
    assert cells(page)["3-2"] == "maybe"
    press(page, "j", "Enter", "Enter", "Enter")  # there is none after the third
    assert page.inner_text("#edited h2") == "3"
    assert page.inner_text("#progress").startswith("3 of 3 sentences looked at. There are changes")
    press(page, "e")
    assert focused(page) == "pair-3"


def test_possible_links_of_a_system_stay_possible(visit: Visit) -> None:
    maybe = [frozenset({(1, 2)}), frozenset[tuple[int, int]](), frozenset[tuple[int, int]]()]
    page = visit(make_page(TEXT, [system("one", "0-0 1-2", "0-0", "", maybe=maybe), TWO]))
    page.click("#edit")
    assert cells(page) == {"0-0": "sure", "1-2": "maybe"}
    assert saved(page, "talp")[1] == "0-0 1p2\n0-0\n\n"


def test_downloads_are_read_by_eval(page: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    press(page, "Delete", "d", "s", "d", "p", "Enter")
    assert asks_before_leaving(page)
    name, talp = saved(page, "talp")
    assert (name, talp) == ("edited-1-of-3.talp", "0-0 1-1 2-2 3p3\n0-0 1-2\n0-0 1-1\n")
    assert not asks_before_leaving(page)
    page.locator("#edited h2").click()
    press(page, "d", "Delete", "Enter", "Enter")
    name, pharaoh = saved(page, "pharaoh")
    assert (name, pharaoh) == ("edited.pharaoh", "0-0 1-1 2-2\n0-0\n0-0 1-1\n")
    assert asks_before_leaving(page)  # the possible link is in no file
    name, talp = saved(page, "talp")
    assert (name, talp) == ("edited.talp", "0-0 1-1 2-2 3p3\n0-0\n0-0 1-1\n")
    for file, text in (("talp", talp), ("pharaoh", pharaoh)):
        (tmp_path / file).write_text(text)
    for file in ("talp", "pharaoh"):
        assert evaluate.main(["-b", "-g", str(tmp_path / file), str(tmp_path / "pharaoh")]) == 0
        assert capsys.readouterr().out == "0.00\n"
