"""What the package and its workflows need: a least version of everything, pins that fit, and the same everywhere else.

setup.cfg has the bounds and constraints.txt the pins; `scripts/lock` writes the other lists.
"""

import configparser
import re
import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
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


_file = str(ROOT / "scripts" / "lock")
_spec: Any = spec_from_file_location("lock", loader=SourceFileLoader("lock", _file))
lock: Any = module_from_spec(_spec)
_spec.loader.exec_module(lock)


@pytest.mark.parametrize("name", lock.LISTS)
def test_lists_with_hashes_have_the_pinned_versions(name: str) -> None:
    pinned = pins()
    first, *lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert first.startswith("# Made by scripts/lock")
    entries = [re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    found = {canonicalize_name(entry[1]): Version(entry[2]) for entry in entries if entry}
    assert len(found) == len(lines)
    assert found.items() <= pinned.items()
    asked = lock.LISTS[name]
    if not asked.startswith("."):  # programs, not this package
        assert found.keys() >= {*asked.split()} - {"--no-deps"}
        return
    extras = asked.strip(".[]")
    for extra in filter(None, extras.split(",")):
        for requirement in requirements()[extra]:
            assert canonicalize_name(requirement.name) in found, requirement
    if name != "serve":
        assert f"extras={extras}\n" in (ROOT / "scripts" / "setup").read_text(encoding="utf-8").replace(" ;;", "\n")


def test_the_demo_has_the_pinned_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path("space/requirements.txt")
    text = (ROOT / path).read_text(encoding="utf-8")
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(text.splitlines()[0], encoding="utf-8")
    for name in ("setup.cfg", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    lock.write_space()
    assert (tmp_path / path).read_text(encoding="utf-8") == text


SOURCES = re.compile(r"constraints\.txt|setup\.cfg|requirements/.*|CHANGELOG\.md|research/.*|eval/results/.*|tests/.*")
VERSION = re.compile(r"\b([A-Za-z][\w.-]*)(?:\[\w+\])?((?:[=><]=?\d[\w.]*,?)+)(?=['\"\s`]|$)", re.MULTILINE)


def test_versions_elsewhere_are_those_of_setup_and_constraints() -> None:
    """In commands, messages, workflows and pages; `gradio` and `bible-alignments` are in no environment of ours."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    bounds: dict[str, set[SpecifierSet]] = {}
    for requirement in chain(*requirements().values()):
        bounds.setdefault(canonicalize_name(requirement.name), set()).add(requirement.specifier)
    seen = set()
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if SOURCES.fullmatch(name) or not path.is_file() or b"\0" in (content := path.read_bytes()):
            continue
        for package, version in VERSION.findall(content.decode()):
            package = canonicalize_name(package)
            if version.startswith("==") and package in pins():
                seen.add(package)
                assert Version(version[2:]) == pins()[package], f"{name}: {package}{version}"
            elif version.startswith(">=") and package in bounds:
                seen.add(package)
                assert SpecifierSet(version) in bounds[package], f"{name}: {package}{version}"
    assert {"fairseq", "hydra-core", "systran-align", "torch"} <= seen


def test_actions_are_pinned_by_digest() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert "permissions:\n  contents: read\n" in text
