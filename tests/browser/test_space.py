"""The frame in which the demo for Hugging Face Spaces shows links."""

from __future__ import annotations

from tests.browser.toy_page import Visit
from tests.integration.test_space import load_app


def test_a_frame_without_rights_draws_links(visit: Visit) -> None:
    frame, line = load_app().show_links("German to English", "<script> haus", "<script> house")
    page = visit(f"<!doctype html><title>demo</title>{frame}").frame_locator("iframe")
    page.locator(".line").first.wait_for(state="attached")
    assert page.locator(".line").count() == page.locator(".grid .sign").count() == len(line.split())
    assert page.locator(".sentence.source").inner_text().split() == ["<script>", "haus"]
