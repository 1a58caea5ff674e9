"""What mkdocs asks while it builds the site: files of the repository that are pages or downloads of it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
PAGES = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "align/models/bundled/README.md": "models.md",
}
"""From where a file is in the repository to where it is on the site."""

FOLDERS = {
    "eval/results/": "measured/",
    "eval/results/analysis/": "measured/analysis/",
    "align/training/recipes/": "recipes/",
}
"""The same for folders, all of whose files are on the site."""

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def place(path: str) -> str | None:
    """Where a file of the repository is on the site, if it is there."""
    for folder, name in {"docs/": "", **FOLDERS}.items():
        if path.startswith(folder):
            return name + path.removeprefix(folder)
    return PAGES.get(path)


def on_files(files: Any, config: Any) -> Any:
    """Add what does not lie in docs/."""
    for pattern in (*PAGES, *(f"{folder}*.*" for folder in FOLDERS)):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place(name), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links are written as from the file in the repository; make them lead to where it is on the site."""
    here = page.file.src_uri
    source = next((path for path, name in PAGES.items() if name == here), f"docs/{here}")

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        there = place(target)
        return match[0] if there is None else f"]({posixpath.relpath(there, posixpath.dirname(here) or '.')}"

    return LINK.sub(moved, markdown)
