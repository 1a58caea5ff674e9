"""The demo for Hugging Face Spaces: its functions, what it refuses, its wiring, and what the hub reads of it."""

from __future__ import annotations

import asyncio
import html
import importlib.util
import json
import re
from typing import Any

import pytest

from tests.browser.test_untrusted import HOSTILE
from tests.conftest import ROOT

SPACE = ROOT / "space"
DIRECTION = "German to English"


@pytest.fixture(scope="module")
def app() -> Any:
    """The module `space/app.py`."""
    spec = importlib.util.spec_from_file_location("space_app", SPACE / "app.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_in(frame: str) -> str:
    """The page of a frame, if nothing else is there."""
    match = re.fullmatch(
        r'<iframe sandbox="allow-scripts" title="[\w ]+" style="[\w:;% ]+" srcdoc="([^"<>]*)"></iframe>', frame
    )
    assert match
    return html.unescape(match[1])


def test_links_of_both_models(app: Any) -> None:
    assert app.show_links(DIRECTION, "das haus ist alt", "the house is old")[1] == "0-0 1-1 2-2 3-3"
    frame, line = app.show_links("English to German", "the house\nis old", "das haus ist alt")
    assert line == "0-0 1-1 2-2 3-3"
    page = page_in(frame)
    assert "Content-Security-Policy" in page
    (pair,) = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["pairs"]
    assert (pair["source"], pair["target"]) == (["the", "house", "is", "old"], ["das", "haus", "ist", "alt"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("de-en", "Haus", "house"), "choose a direction"),
        ((DIRECTION, "", "house"), "write a sentence and its translation"),
        ((DIRECTION, "Haus", "x" * 401), "at most 400 characters here, this one has 401"),
    ],
)
def test_what_cannot_be_aligned_is_refused(app: Any, texts: tuple[str, ...], message: str) -> None:
    for function in (app.show_links, app.transfer_tags):
        with pytest.raises(ValueError, match=message):
            function(*texts)


def test_hostile_text_stays_text(app: Any) -> None:
    for word in HOSTILE:
        page = page_in(app.show_links(DIRECTION, word[:400], word[:400])[0])
        assert page.count("<script") == page_in(app.show_links(DIRECTION, "Haus", "house")[0]).count("<script")
    with pytest.raises(ValueError, match="not well-formed XML"):
        app.transfer_tags(DIRECTION, "<b>Haus", "house")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", [], 200),
        ("POST", "/gradio_api/queue/join", [(b"content-length", b"16384")], 200),
        ("POST", "/gradio_api/queue/join", [(b"content-length", b"16385")], 413),
        ("POST", "/gradio_api/queue/join", [(b"transfer-encoding", b"chunked")], 413),
        ("POST", "/gradio_api/upload", [(b"content-length", b"9")], 413),
    ],
)
def test_large_bodies_and_files_are_refused(
    app: Any, method: str, path: str, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def answer(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(app.BodyLimit(answer)(scope, None, send))
    assert sent[0]["status"] == status
