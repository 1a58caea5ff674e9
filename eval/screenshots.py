"""Pictures of view-align's page for docs/view.md, and how fast pages of many sentences open: eval/results/view.tsv.

    .venv/bin/python eval/run.py screenshots [--sentences 500 2000 10000] [--rounds 5] [--pictures docs/pictures]

Needs Playwright and a Chromium of the system. The pictures are of examples/de-en.txt and its gold, aligned by the
bundled models. What is timed is a page on the disk with gold and three systems, all of whose sentences have 25 words on
either side: from its address to the first words on the screen, in a new window each time.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import write_table

from align import Pair, load, read_gold, two_way
from align.core.choice import all_cells
from align.core.types import Alignment, Cell
from align.evaluation.link_formats import make_gold
from align.evaluation.shares import shares_of_cells
from align.evaluation.swept import SCORES
from align.evaluation.tables import Column, Value
from align.io.reader import read_bitext, read_lines
from align.view.page import Attention, System, make_page

EXAMPLES = Path(__file__).parent.parent / "examples"
WORDS = 25
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCALE = 1.25
"""Pixels of a picture for each of the page."""

COLUMNS = [
    Column("sentences", "sentences"),
    Column("megabytes", "MB", 1),
    Column("seconds", "seconds", 2),
    Column("slowest", "slowest", 2),
]


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser.

    Raises:
        ModuleNotFoundError: Playwright is not installed.
        ValueError: there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise ValueError("no Chromium on PATH (Debian: apt-get install chromium)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program)
        yield browser
        browser.close()


def make_system(name: str, alignments: Sequence[Alignment]) -> System:
    """A system of the page, with the scores of its links."""
    return System(name, [one.links for one in alignments], [one.scores for one in alignments])


def example_pages() -> tuple[str, str]:
    """The page of two systems beside gold, and the page of one with its model's attention."""
    with (EXAMPLES / "de-en.txt").open("rb") as stream:
        text = list(read_bitext(read_lines(stream, "examples"), "examples"))
    gold = read_gold(EXAMPLES / "de-en.gold.talp", text=text).pairs
    forward, best = load("de-en"), load("de-en", position="input", threshold=None)
    one = make_system("attention.links", list(best(text)))
    two = make_system("two-way.jsonl", list(two_way(forward, load("en-de"))(text)))
    shares = shares_of_cells(forward, text, "input")
    cells = all_cells(forward.forward.recorder)
    attention = Attention(forward.forward.recorder.name, "input", SCORES, cells, Cell(1, "all"), shares)
    return make_page(text, [one, two], gold), make_page(text, [one], gold, attention)


def take_pictures(browser: Any, folder: Path, pictures: Path) -> None:
    """Write the pictures of the documentation."""
    for name, html in zip(("systems", "attention"), example_pages(), strict=True):
        (folder / f"{name}.html").write_text(html, encoding="utf-8")

    def opened(name: str, scheme: str, height: int) -> Any:
        size = {"width": 1200, "height": height}
        page = browser.new_page(color_scheme=scheme, viewport=size, device_scale_factor=SCALE)
        page.goto((folder / f"{name}.html").as_uri())
        return page

    pictures.mkdir(parents=True, exist_ok=True)
    page = opened("systems", "light", 640)
    page.locator(".panel .word").first.wait_for()
    page.locator(".card").first.locator(".has-wrong").last.hover()
    page.screenshot(path=pictures / "systems.png")
    page = opened("systems", "light", 640)
    page.check("#matrix")
    page.fill("#find", "Zug")
    page.locator(".grid").last.wait_for()
    page.screenshot(path=pictures / "matrix.png")
    page = opened("attention", "dark", 650)
    page.fill("#find", "Garten")
    page.get_by_text("norm, layer").first.wait_for()
    page.screenshot(path=pictures / "attention.png")


def long_page(sentences: int) -> str:
    """A page of many sentences, all of them linked word by word."""
    source, target = (tuple(f"{side}{n}" for n in range(WORDS)) for side in ("source", "target"))
    links = frozenset((n, n) for n in range(WORDS))
    text = [Pair(source, target, number) for number in range(1, sentences + 1)]
    systems = [System(name, [links] * sentences) for name in ("one", "two", "three")]
    return make_page(text, systems, [make_gold(links)] * sentences)


def seconds_to_open(browser: Any, file: Path) -> float:
    """From the page's address to the first words."""
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(file.as_uri())
    page.locator(".word").first.wait_for()
    seconds = time.perf_counter() - start
    page.close()
    return seconds


def run(sentences: Sequence[int], rounds: int, pictures: Path | None, output: Path) -> None:
    """Take the pictures, if they are asked for, and measure."""
    rows: list[dict[str, Value]] = []
    with chromium() as browser, tempfile.TemporaryDirectory() as name:
        if pictures:
            take_pictures(browser, Path(name), pictures)
        for number in sentences:
            file = Path(name) / "long.html"
            file.write_text(long_page(number), encoding="utf-8")
            times = [seconds_to_open(browser, file) for _ in range(rounds)]
            size = file.stat().st_size / 1e6
            values = {"megabytes": size, "seconds": statistics.median(times), "slowest": max(times)}
            rows.append({"sentences": number, **values})
        sizes = " ".join(map(str, sentences))
        sign = f"python eval/run.py screenshots --sentences {sizes} --rounds {rounds}; Chromium {browser.version}"
        write_table(COLUMNS, rows, sign, output / "view.tsv")
