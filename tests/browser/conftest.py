"""Pages in a real browser: Chromium, driven by Playwright; without one these tests are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium of the system: Playwright's own would have to be downloaded."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page from the disk; afterwards nothing may have been requested but the page, and no error shown."""
    said: list[str] = []
    contexts = []
    address = ""

    def open_page(html: str, scheme: str = "light", width: int = 1300, height: int = 900) -> Any:
        nonlocal address
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        address = file.as_uri()
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: said.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == [address] * len(contexts)
