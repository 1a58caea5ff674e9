"""What describes a release agrees: titles, and pinned actions."""

from __future__ import annotations

import json
import re
from typing import Any

from omegaconf import OmegaConf

from tests.conftest import ROOT


def test_descriptions_have_the_same_title_and_licence() -> None:
    citation: Any = OmegaConf.load(ROOT / "CITATION.cff")
    archive = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert (archive["title"], archive["license"]) == (citation["title"], citation["license"])
    assert [one["name"] for one in archive["creators"]] == [one["name"] for one in citation["authors"]]
    assert archive["related_identifiers"][0]["identifier"] == citation["preferred-citation"]["doi"]


def test_actions_are_pinned_by_digest() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert "permissions:\n  contents: read\n" in text
