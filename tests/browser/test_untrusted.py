"""Text that may come from anywhere, in a page that somebody opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from align.core.types import Gold, Pair
from align.view.page import System, make_page
from tests.browser.toy_page import ONE, TEXT, Visit, words

HOSTILE = (
    *("<script>document.title='run'</script>", "</script><script>document.title='run'</script>", "<!--<script>"),
    *("<img/src=x/onerror=document.title='run'>", "javascript:document.title='run'", "{{data}}", "${document.title}"),
    *("\u202eabc", "\u2066x", "\u2067y", "\u0000\u0007\u001b[31m", "\u2028", "\ud800", "\U000e0041", "]]>", "'\"`&lt;"),
    *("x" * 10_000, "e" + "\u0301" * 5_000, "__proto__", "constructor"),
)


def test_hostile_words_are_words(visit: Visit) -> None:
    pair = Pair(HOSTILE, HOSTILE[::-1], 1)
    links = frozenset((n, len(HOSTILE) - 1 - n) for n in range(len(HOSTILE)))
    systems = [System(name, [links]) for name in HOSTILE[:4]]
    page = visit(make_page([pair], systems, [Gold(links, links)], signature="</footer><script>"))
    words(page, 1, 1).nth(0).click()
    page.wait_for_timeout(200)
    none = "img, iframe, object, main script, header script, footer script, section script"
    assert page.title() == "Word alignments"
    assert page.locator(none).count() == 0
    shown = words(page, 1, 1).all_inner_texts()[: len(HOSTILE)]
    assert shown[:7] == list(HOSTILE[:7])
    assert shown[7:13] == [r"\u202eabc", r"\u2066x", r"\u2067y", r"\u0000\u0007\u001b[31m", r"\u2028", r"\ud800"]
    assert shown[16] == "x" * 59 + "…"
    for key in ("m", "e"):  # the matrix; edit mode
        page.keyboard.press(key)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.select_option("#base", "1")
    cell = page.locator('#edited td[data-cell="0-1"]')
    cell.click()
    assert cell.get_attribute("aria-label") == f"{HOSTILE[0]} – {HOSTILE[-2]}: sure"
    assert (page.title(), page.locator(none).count()) == ("Word alignments", 0)


def test_the_policy_stops_what_a_flaw_would_let_in(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(make_page(TEXT, [ONE]), encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    stopped = page.evaluate(
        """async () => {
        const stopped = [];
        document.addEventListener("securitypolicyviolation", (event) => stopped.push(event.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "document.title = 'run'";
        const rest = document.createElement("div");
        rest.innerHTML = `<img src="https://example.org/x"><iframe src="https://example.org/"></iframe>
            <b style="color: red" onclick="document.title = 'run'">x</b>`;
        document.body.append(script, rest);
        rest.querySelector("b").click();
        await fetch("https://example.org/").catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, 200));
        return [...new Set(stopped)].sort();
    }"""
    )
    directives = ["connect-src", "frame-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr"]
    assert (page.title(), stopped) == ("Word alignments", directives)
    context.close()
