"""Edit mode of the page: links made by keys and by mouse, taken back, and downloaded for `extract-align eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from align.cli import evaluate
from align.core.types import Pair
from align.view.page import make_page
from tests.browser.toy_page import GOLD, ONE, TEXT, TWO, Visit, numbers, system

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


def test_mouse(page: Any) -> None:
    cell = page.locator('#edited td[data-cell="0-3"]')
    labels = []
    for _ in range(3):
        cell.click()
        labels.append(cell.get_attribute("aria-label"))
    assert labels == ["Das – old: sure", "Das – old: possible", "Das – old: no link"]
    page.click('#edited .target .word[data-word="t0"]')  # two words, in either order
    assert page.locator("#edited .word[aria-pressed=true]").all_inner_texts() == ["The"]
    page.click('#edited tbody th[data-word="s2"]')
    assert cells(page)["2-0"] == "sure"
    assert page.locator("#edited .word[aria-pressed=true]").count() == 0
    page.click("#next")
    assert cells(page) == {"0-0": "sure", "1-2": "sure"}
    page.click("#previous")
    assert cells(page)["2-0"] == "sure"


def test_undo(page: Any) -> None:
    before = cells(page)
    assert page.is_disabled("#undo")
    press(page, "Delete", "s", "p", "Enter", "p")
    page.fill("#find", "Tag")  # the changed sentences are out of sight
    press(page, "Escape", "Control+z")
    assert page.inner_text("#edited h2") == "2"
    assert numbers(page) == ["1", "2", "3"]
    assert cells(page) == {"0-0": "sure", "1-2": "sure"}
    page.click("#undo")
    assert (cells(page)["1-2"], page.inner_text("#edited h2"), focused(page)) == ("sure", "1", "1-2")
    press(page, "u")
    assert "1-2" not in cells(page)
    press(page, "u", "u")
    assert cells(page) == before
    assert page.is_disabled("#undo")
    assert not asks_before_leaving(page)


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("gold", {"0-0": "sure", "1-1": "sure", "2-2": "sure", "3-2": "maybe", "3-3": "maybe"}),
        ("1", {"0-0": "sure", "1-1": "sure", "2-2": "sure"}),
        ("empty", {}),
    ],
)
def test_starts(visit: Visit, base: str, expected: dict[str, str]) -> None:
    page = visit(make_page(TEXT, [ONE, TWO], GOLD))
    page.select_option("#order", "file")
    page.click("#edit")
    assert page.input_value("#base") == "gold"
    page.select_option("#base", base)
    assert cells(page) == expected
    page.locator("#edited h2").click()
    press(page, "Enter")
    page.select_option("#base", "0")
    page.click("#previous")
    assert cells(page) == expected  # a pair that was looked at keeps its links


def test_possible_links_of_a_system_stay_possible(visit: Visit) -> None:
    maybe = [frozenset({(1, 2)}), frozenset[tuple[int, int]](), frozenset[tuple[int, int]]()]
    page = visit(make_page(TEXT, [system("one", "0-0 1-2", "0-0", "", maybe=maybe), TWO]))
    page.click("#edit")
    assert cells(page) == {"0-0": "sure", "1-2": "maybe"}
    assert saved(page, "talp")[1] == "0-0 1p2\n0-0\n\n"


def test_no_sentence(page: Any) -> None:
    page.fill("#find", "nowhere")
    assert page.inner_text("#edited") == "No sentence is like that."
    press(page, "Escape", "s", "Enter", "k", "d", "Space", "ArrowUp", "u")
    assert page.inner_text("#progress").startswith("0 of 3")
    page.fill("#find", "")
    assert len(cells(page)) == 4
    assert focused(page) == "find"  # typing goes on


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


def test_files_that_do_not_prove_their_base(visit: Visit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = visit(make_page(TEXT, [system("one", "1-1 2-10", "", "")]))
    page.click("#edit")
    (tmp_path / "links").write_text("1-1\n\n\n")
    for start, advice in (("0", "0"), ("empty", "")):
        page.select_option("#base", start)
        _, talp = saved(page, "talp")
        assert talp == ("1-1\n\n\n" if advice else "\n\n\n")  # without the link to a word that is not there
        assert page.inner_text("#progress").endswith(
            "--gold-format 0-based." if advice else "Downloaded edited-0-of-3.talp."
        )
        (tmp_path / "gold").write_text(talp)
        option = ["--gold-format", "0-based"] if advice else []
        arguments = ["-b", "-g", str(tmp_path / "gold"), str(tmp_path / "links"), "--hyp-format", "0-based"]
        assert evaluate.main([*arguments, *option]) == 0
        assert capsys.readouterr().out == ("0.00\n" if advice else "100.00\n")


@pytest.mark.parametrize("width", [1300, 360])
def test_the_page_does_not_move_sideways(visit: Visit, width: int) -> None:
    long = Pair(("Donaudampfschifffahrt",) * 60, ("steamboating",) * 60, 1)
    page = visit(make_page([long], [system("x" * 80, "0-0 59-59")]), width=width)
    page.click("#edit")
    press(page, "d")
    assert focused(page) == "59-59"
    cell = page.locator(":focus")
    box, frame = cell.bounding_box(), page.locator("#edited .scroll").bounding_box()
    assert frame["x"] < box["x"] < box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
    assert frame["y"] < box["y"] < box["y"] + box["height"] <= frame["y"] + frame["height"] + 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
