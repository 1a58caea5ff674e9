"""Documents name only what is there: files, headings, and functions in the files that are said to hold them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("research/**/*.md"),
    ROOT / "align/models/bundled/README.md",
]
PATH = re.compile(r"(?<![\w/.-])(?:align|docs|eval|examples|recipes|research|scripts|tests)/[\w./*-]*")
FILE = re.compile(r"`(\w+\.py)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
NAME_IN_FILE = re.compile(r"`(\w+)`\s+in\s+`([\w/]+\.py)`")


def headings(document: Path) -> set[str]:
    """What links to a document's headings call them."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_named_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = {path.rstrip(".") for path in PATH.findall(text)}
    if document.name != "rejected.md":  # which names programs of earlier commits
        named |= {f"align/**/{name}" for name in FILE.findall(text)}
    assert [name for name in sorted(named) if not any(ROOT.glob(name))] == []
    for name, heading in LINK.findall(text):
        target = document.parent / name if name else document
        assert target.exists(), name
        assert not heading or heading in headings(target), f"{name}#{heading}"
    for name, file in NAME_IN_FILE.findall(text):
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:def |class )?{name}\b", source, re.MULTILINE), f"{name} in {file}"
