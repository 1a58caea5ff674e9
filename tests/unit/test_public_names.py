"""The public names, which are imported lazily."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

align: Any = import_module("align")  # with the names that are not in its stub


@pytest.mark.parametrize("name", align.__all__)
def test_every_name_is_what_its_module_has(name: str) -> None:
    value = getattr(align, name)
    if name != "__version__":
        assert value is getattr(import_module(align._HOMES[name]), name)
        assert value.__doc__
    assert name in dir(align)


def test_importing_all_names_works_and_importing_the_package_imports_nothing_heavy() -> None:
    check = "import sys, align; assert not {'torch', 'numpy', 'fairseq', 'transformers'} & set(sys.modules)\n"
    check += f"from align import *; {', '.join(align.__all__)}; assert 'fairseq' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)
