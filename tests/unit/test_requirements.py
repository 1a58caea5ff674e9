"""What the package and its workflows need: a least version of everything, and pins that fit."""

import configparser
import re
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent.parent


def requirements() -> dict[str, list[Requirement]]:
    """The requirements of setup.cfg by extra; "" has those of every installation."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = {"": setup["options"]["install_requires"], **setup["options.extras_require"]}
    return {
        extra: [Requirement(line) for line in text.strip().splitlines() if not line.startswith("#")]
        for extra, text in texts.items()
    }


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_every_requirement_has_a_least_version_and_a_pin_that_fits() -> None:
    pinned = pins()
    for requirement in chain(*requirements().values()):
        assert any(specifier.operator in (">=", "==") for specifier in requirement.specifier), requirement
        if requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11"}):
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("name", ["run", "all", "serve"])
def test_lists_with_hashes_have_the_pinned_versions(name: str) -> None:
    pinned = pins()
    first, *lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert first.startswith("# Made by scripts/lock")
    entries = [re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    found = {canonicalize_name(entry[1]): Version(entry[2]) for entry in entries if entry}
    assert len(found) == len(lines)
    assert found.items() <= pinned.items()
    extras = (ROOT / "scripts" / "lock").read_text(encoding="utf-8").split(f'"{name}": "')[1].split('"')[0]
    for extra in filter(None, extras.split(",")):
        for requirement in requirements()[extra]:
            assert canonicalize_name(requirement.name) in found, requirement
    if name != "serve":
        assert f"extras={extras}\n" in (ROOT / "scripts" / "setup").read_text(encoding="utf-8").replace(" ;;", "\n")


def test_actions_are_pinned_by_digest() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert "permissions:\n  contents: read\n" in text
