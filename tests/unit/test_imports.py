"""The structure of the package, imports for type checking included."""

from __future__ import annotations

import ast
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import align

ROOT = Path(align.__file__).parent
CORE_LINES = 3200


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
CORE = {name: path for name, path in MODULES.items() if name.startswith("align.core")}


def imports(path: Path) -> set[str]:
    """Names of modules that a file imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path} has a relative import"
            names |= {
                full if (full := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names
            }
    return names


def test_the_core_is_closed_and_small() -> None:
    allowed = {"numpy", "torch", *sys.stdlib_module_names}
    outside = {
        f"{name} imports {imported}"
        for name, path in CORE.items()
        for imported in imports(path)
        if not imported.startswith("align.core") and imported.partition(".")[0] not in allowed
    }
    assert not outside
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in CORE.values()) <= CORE_LINES


def test_no_modules_import_each_other() -> None:
    graph = {name: (imports(path) & MODULES.keys()) - {name} for name, path in MODULES.items() if name != "align"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_no_import_leads_upwards() -> None:
    """The layers are those of pyproject.toml, whose own check leaves out imports for type checking."""
    contract = (ROOT.parent / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r'^  "([a-z_: ]+)",$', contract.partition("layers = [")[2].partition("]")[0], re.M)
    floors = {name.strip(): n for n, names in enumerate(reversed(layers)) for name in names.split(":")}
    assert floors["core"] == 1
    upward = {
        f"{name} imports {imported}"
        for name, path in MODULES.items()
        for imported in imports(path) & MODULES.keys()
        if name.count(".") and imported.count(".")
        if floors[name.split(".")[1]] < floors[imported.split(".")[1]]
    }
    assert not upward
