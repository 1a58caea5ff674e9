"""The structure of the package, imports for type checking included."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import align

ROOT = Path(align.__file__).parent
CORE_LINES, LINES = 2_807, 36_311
"""Lines of the core and of the package. They may fall, and rise only where an issue says by how much."""

CLOSURES = {"align.cli.combine": 4_144, "align.cli.evaluate": 5_870, "align.cli.extract": 11_520}
"""Lines of the modules that a command imports, lazily or not; what `import_module` names is not followed."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
CORE = {name: path for name, path in MODULES.items() if name.startswith("align.core")}


def imports(path: Path, typing: bool = True) -> set[str]:
    """Names of modules that a file imports, at any depth; with or without those for type checking."""
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not typing:
        tree.body = [node for node in tree.body if not ast.unparse(node).startswith("if TYPE_CHECKING:")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path} has a relative import"
            names |= {
                full if (full := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names
            }
    return names


def lines_of(names: Iterable[str]) -> int:
    """Count the lines of modules."""
    return sum(len(MODULES[name].read_text(encoding="utf-8").splitlines()) for name in names)


@pytest.mark.parametrize("command", CLOSURES)
def test_a_command_imports_little(command: str) -> None:
    reached, left = set[str](), {command}
    while left:
        name = left.pop()
        reached.add(name)
        found = imports(MODULES[name], typing=False) & MODULES.keys()
        left |= found - reached
    assert lines_of(reached) <= CLOSURES[command]


def test_the_core_is_closed_and_small() -> None:
    allowed = {"numpy", "torch", *sys.stdlib_module_names}
    outside = {
        f"{name} imports {imported}"
        for name, path in CORE.items()
        for imported in imports(path)
        if not imported.startswith("align.core") and imported.partition(".")[0] not in allowed
    }
    assert not outside
    assert lines_of(CORE) <= CORE_LINES
    assert lines_of(MODULES) <= LINES


def test_no_modules_import_each_other() -> None:
    graph = {name: (imports(path) & MODULES.keys()) - {name} for name, path in MODULES.items() if name != "align"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_text_links_and_pictures_do_without_torch() -> None:
    names = (
        "align.baselines.tools, align.cli.main, align.core.consistency, align.core.formats, align.core.symmetrize, "
        "align.io.output, align.io.reader, align.io.signature, align.models.folder, align.models.languages, "
        "align.models.preprocess, align.training.prepare, align.training.recipe, align.transfer.pages, align.view.page"
    )
    script = f"import sys, {names}; sys.exit(not {{'torch', 'matplotlib'}}.isdisjoint(sys.modules))"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_program_describes_itself_without_any_library(option: str) -> None:
    command = [sys.executable, "-S", "-m", "align", option]  # -S: without installed packages
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
