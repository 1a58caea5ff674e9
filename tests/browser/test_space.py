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


def test_edited_links_are_copied_where_no_file_can_be_downloaded(visit: Visit) -> None:
    frame, _ = load_app().show_links("German to English", "das haus", "the house")
    outside = visit(f"<!doctype html><title>demo</title>{frame}")
    page = outside.frame_locator("iframe")
    page.locator(".line").first.wait_for(state="attached")  # the scripts have run
    page.locator("#edit").click()
    page.locator('#edited td[data-cell="1-0"]').click()
    page.locator("#talp").click()
    lines, progress = page.locator("#lines"), page.locator("#progress")
    assert lines.input_value() == "0-0 1-0 1-1\n"
    assert ". There are changes that no download has. " in progress.inner_text()
    assert lines.evaluate("field => field.selectionEnd - field.selectionStart") == len("0-0 1-0 1-1\n")
    outside.keyboard.press("Delete")  # no link is removed
    outside.keyboard.press("Escape")
    outside.keyboard.press("Delete")
    assert not lines.is_visible()
    page.locator("#pharaoh").click()
    assert lines.input_value() == "0-0 1-1\n"
