"""Write what README and docs/ show today: `python -m tests.docs.update [PAGE ...]`.

Prints the pages that it changed; look at the difference before you commit it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.conftest import ROOT
from tests.docs import figures
from tests.docs.blocks import PAGES, Session, blocks


def update(page: Path) -> bool:
    """Run a page's blocks, and write what they print; whether anything changed."""
    old = new = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        session = Session(Path(folder))
        texts = [(block, session.today(block)) for block in blocks(page)]
        os.chdir(ROOT)
    for block, text in reversed(texts):
        new = new[: block.start] + text + new[block.end :]
    if new != old:
        page.write_text(new, encoding="utf-8")
    return new != old


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(figures.current(page), encoding="utf-8")
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        if update(page):
            print(page)
