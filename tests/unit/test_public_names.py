"""The public names, which are imported lazily, and what their page says about them."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from tests.conftest import ROOT

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


def rows() -> dict[str, tuple[str, str, str]]:
    """Arguments, description and exceptions of each name in the table of docs/python.md."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    found = {}
    for line in page.split("\n## What is promised\n")[0].splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            names, says, raises = [*cells, ""][:3]
            for name, arguments in re.findall(r"`(\w+)(?:\((.*?)\))?`", names):
                found[name] = arguments, says, raises.rstrip(" |")
    return found


def test_the_page_lists_every_name() -> None:
    assert set(rows()) == set(align.__all__)
    assert all(says for _, says, _ in rows().values())


@pytest.mark.parametrize("name", [name for name, (arguments, *_) in rows().items() if arguments not in ("", "…")])
def test_the_page_has_arguments_in_their_order_and_their_defaults(name: str) -> None:
    parameters = inspect.signature(getattr(align, name)).parameters
    shown = re.findall(r"(\w+)(?:=([^,]+))?", rows()[name][0])
    assert [*filter(dict(shown).__contains__, parameters)] == [argument for argument, _ in shown]
    for argument, value in shown:
        parameter = parameters[argument]
        if value and value != "Settings()":
            assert ast.literal_eval(value) == parameter.default
        assert value or parameter.default is parameter.empty or parameter.kind is parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", sorted(rows()))
def test_docstrings_and_the_page_name_the_same_exceptions(name: str) -> None:
    value, page = getattr(align, name), set(re.findall(r"`(\w+)`", rows()[name][2]))
    documented = [value, *(vars(value).values() if inspect.isclass(value) else ())]
    raised = {
        error
        for part in documented
        for block in re.findall(r"\nRaises:\n((?:    .*\n?)+)", inspect.getdoc(getattr(part, "__func__", part)) or "")
        for errors in re.findall(r"^    (\w[\w, ]*):", block, re.MULTILINE)
        for error in errors.split(", ")
    }
    assert page <= raised | {"ValueError"}, "the page names more than the docstrings"
    assert all(any(issubclass(resolve(error), resolve(other)) for other in page) for error in raised - RARE)


RARE = {"ChildProcessError"}  # a worker process was killed


def resolve(error: str) -> type[BaseException]:
    found: type[BaseException] = getattr(align, error, None) or getattr(import_module("builtins"), error)
    return found


def test_the_package_is_silent_until_a_program_asks_for_its_messages() -> None:
    package = [path for path in (ROOT / "align").rglob("*.py") if not {"cli", "analysis", "bundled"} & {*path.parts}]
    assert len(package) > 100
    for path in package:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"getLogger\((.*?)\)", text)) <= {'"align"', '"progress"'}, (
            path
        )  # the latter is fairseq's
        calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        prints = any(isinstance(call, ast.Name) and call.id == "print" for call in calls)
        assert not prints or path.name in ("fairseq_cli.py", "__main__.py"), path
    check = "import align, logging; logging.getLogger('align').error('a fault')"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, check=True)
    assert (result.stdout, result.stderr) == (b"", b"")
