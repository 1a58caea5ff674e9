"""The offline page as text: what its data says, and that nothing in it is more than data. tests/browser looks at it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from align.core.types import Cell, Pair
from align.evaluation.link_formats import make_gold, parse_pharaoh
from align.view.page import SCRIPTS, Attention, System, make_page

TEXT = [Pair(("a", "b"), ("x", "y"), 1), Pair(("c",), (), 2)]
NO_LINKS = [frozenset[tuple[int, int]]()] * 2


def data_of(html: str) -> Any:
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(block)


def test_links_scores_and_errors() -> None:
    one = System("one", [parse_pharaoh("0-0 1-0"), frozenset()], [{(0, 0): 0.123456}, {}])
    two = System("two", [parse_pharaoh("0-0"), frozenset()])
    gold = [make_gold([(0, 0), (1, 1)], [(0, 1)]), make_gold([])]
    data = data_of(make_page(TEXT, [one, two], gold, signature="AER|x"))
    assert data["systems"] == [
        {"name": "one", "links": 2, "wrong": 1, "missing": 1, "aer": 50.0},
        {"name": "two", "links": 1, "wrong": 0, "missing": 1, "aer": 33.33},
    ]
    first, second = data["pairs"]
    assert first["systems"][0] == {
        **{"links": [[0, 0], [1, 0]], "scores": [0.1235, None], "wrong": 1, "missing": 1, "aer": 50.0}
    }
    assert first["gold"] == {"sure": [[0, 0], [1, 1]], "possible": [[0, 1]]}
    assert first["differing"] == 1
    assert second == {
        **{"number": 2, "source": ["c"], "target": [], "gold": {"sure": [], "possible": []}, "differing": 0},
        "systems": [{"links": [], "wrong": 0, "missing": 0, "aer": None}] * 2,
    }
    assert (data["gold"], data["model"], data["signature"]) == (True, None, "AER|x")


def test_attention_is_packed() -> None:
    shares = bytes(range(2 * 1 * 2 * 3))
    attention = Attention("m", "input", ("weight", "norm"), [Cell(1, "all")], Cell(1, "all"), [shares, b""])
    data = data_of(make_page(TEXT, [System("one", NO_LINKS)], attention=attention))
    assert zlib.decompress(base64.b64decode(data["pairs"][0]["shares"])) == shares
    assert "shares" not in data["pairs"][1]
    assert data["model"] == {
        **{"name": "m", "position": "input", "scores": ["weight", "norm"], "cells": [[1, "all"]], "shown": [1, "all"]}
    }


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.text(), st.text())
def test_whatever_it_says_is_data(words: list[str], name: str, signature: str) -> None:
    """The page of any text is the page of no text, but for one block of JSON that holds no tag."""
    text = [Pair(tuple(words), tuple(words), 1)]
    html = make_page(text, [System(name, NO_LINKS[:1])], signature=signature)
    data = data_of(html)
    assert data["pairs"][0]["source"] == words
    assert (data["systems"][0]["name"], data["signature"]) == (name, signature)
    block = re.compile(r'(?<=id="data">)[^<]*(?=</script>)')
    assert block.sub("", html, count=1) == block.sub("", make_page([], [System("", [])]), count=1)
    html.encode()  # no lone surrogate is left


def test_the_policy_names_each_script_and_style_and_no_other_source() -> None:
    html = make_page([], [System("", [])])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))

    def hashes(tag: str) -> list[str]:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found]

    assert len(hashes("script")) == len(SCRIPTS)
    assert directives == {
        **{"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"},
        **{"script-src": " ".join(hashes("script")), "style-src": " ".join(hashes("style"))},
    }


def test_the_scripts_never_read_text_as_html() -> None:
    html = make_page([], [System("", [])])
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http:"):
        assert sink not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in html
