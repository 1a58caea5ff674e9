"""What describes a release agrees: versions, requirements, titles, and pinned actions."""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from typing import Any

from omegaconf import OmegaConf

from tests.conftest import ROOT

SAME = {"pyyaml": "PyYAML", "pytorch": "torch"}
"""Packages of conda-forge by another name."""


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    needed = {line.partition(";")[0].strip() for line in config["options"]["install_requires"].split("\n") if line}
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = recipe[recipe.index("  run:\n") : recipe.index("  run_constrained:")]
    listed = dict(re.findall(r"^    - ([\w.-]+) (>=[\d.]+)$", run, re.MULTILINE))
    assert listed.pop("python") == config["options"]["python_requires"]
    assert {f"{SAME.get(name, name)}{bound}" for name, bound in listed.items()} == needed


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
