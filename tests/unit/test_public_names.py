"""The public names: three lists in `align/__init__.py`, for people, for lazy imports and for type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import align


def test_the_three_lists_name_the_same() -> None:
    assert sorted(align._HOMES) == sorted(set(align.__all__) - {"__version__"})
    tree = ast.parse(Path(str(align.__file__)).read_text(encoding="utf-8"))
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {
        name.name: statement.module
        for statement in checked.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }
    assert homes == align._HOMES


@pytest.mark.parametrize("name", align.__all__)
def test_every_name_is_what_its_module_has(name: str) -> None:
    value = getattr(align, name)
    if name != "__version__":
        assert value is getattr(import_module(align._HOMES[name]), name)
        assert value.__doc__
    assert name in dir(align)


def test_importing_all_names_works_and_importing_the_package_imports_nothing_heavy() -> None:
    check = "import sys, align; assert not {'torch', 'numpy', 'fairseq'} & set(sys.modules)\n"
    check += f"from align import *; {', '.join(align.__all__)}; assert 'fairseq' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'align' has no attribute 'frob'"):
        align.frob  # noqa: B018
