"""Take the pictures of README and docs/evaluate.md: `python -m tests.browser.pictures [FOLDER]`.

The pages are those of the commands in docs/evaluate.md; the folder is docs/pictures by default. Needs Chromium and
Playwright; the font is the system's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.conftest import NAMES
from tests.conftest import ROOT

COMMANDS = """
sed 's/ |||.*//' examples/de-en.txt > {folder}/text.de
sed 's/.*||| //' examples/de-en.txt > {folder}/text.en
{program} -q examples/de-en.txt -f jsonl -o {folder}/one.jsonl
{program} -q examples/de-en.txt --reverse-model en-de-fast -f jsonl -o {folder}/two.jsonl
{view} {folder}/one.jsonl -o {folder}/links.html
{view} {folder}/one.jsonl {folder}/two.jsonl -g examples/de-en.gold.talp -o {folder}/systems.html
{view} {folder}/one.jsonl -m de-en -o {folder}/attention.html
"""
WINDOW = {"width": 1200, "height": 640}
MARGIN = 14


def reduce_colours(picture: Path) -> None:
    """Write a picture again with 256 colours: half the size."""
    image = Image.open(picture).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(picture, optimize=True)


def take(browser: Any, pages: Path, folder: Path) -> None:
    """Take all pictures."""

    def opened(name: str, scheme: str = "light", scale: float = 1.25) -> Any:
        page = browser.new_page(viewport=WINDOW, color_scheme=scheme, device_scale_factor=scale)
        page.goto((pages / f"{name}.html").as_uri())
        page.locator(".curve").first.wait_for()
        return page

    for scheme, name in (("light", "links"), ("dark", "links-dark")):
        page = opened("links", scheme, 2)
        box = page.locator("#pair-1 .sentences").bounding_box()
        clip = {"x": box["x"] - MARGIN, "y": box["y"] - MARGIN / 2}
        clip |= {"width": box["width"] + 2 * MARGIN, "height": box["height"] + 1.5 * MARGIN}
        page.screenshot(path=folder / f"{name}.png", clip=clip)
    page = opened("systems")
    page.screenshot(path=folder / "systems.png")
    page.check("#matrix")
    page.screenshot(path=folder / "matrix.png")
    page.uncheck("#matrix")
    page.click("#edit")
    page.screenshot(path=folder / "edit.png")
    page = opened("attention", "dark")
    page.fill("#find", "Garten")
    page.locator(".heat").first.wait_for()
    page.screenshot(path=folder / "attention.png")


def main(folder: Path) -> None:
    """Make the pages in a temporary folder, and take the pictures."""
    program = f"{sys.executable} -m align"
    with tempfile.TemporaryDirectory() as pages, sync_playwright() as driver:
        view = f"{program} view -q -s {pages}/text.de -t {pages}/text.en"
        script = COMMANDS.format(folder=pages, program=program, view=view)
        subprocess.run(["bash", "-ec", script], cwd=ROOT, check=True)
        browser = driver.chromium.launch(executable_path=next(filter(None, map(shutil.which, NAMES))))
        take(browser, Path(pages), folder)
        browser.close()
    for picture in folder.glob("*.png"):
        reduce_colours(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
