"""Let `align` see what Python has on Windows; with this folder on PYTHONPATH, each process begins so.

- Modules and names that typeshed, in the installed mypy, has for other systems only are missing; `sys.platform` is
  "win32". Other packages keep theirs.
- An open or mapped file can be neither removed nor replaced, nor a folder in which one is, nor moved onto another file.
- Text files need an encoding, and lines end with CRLF unless `newline` says otherwise; stdout and stderr have the code
  page 1252.

Not shown are drives, backslashes, and methods that a class lacks on Windows. `AS_ON_WINDOWS="align tests"` shows the
same to the tests, which on Windows run with `PYTHONUTF8=1`.
"""

from __future__ import annotations

import ast
import builtins
import errno
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any

PACKAGES = os.environ.get("AS_ON_WINDOWS", "align").split()
"""Those that see Windows."""

HELPERS = frozenset({"os", "pathlib", "pathlib._local", "shutil", "tempfile", "contextlib", "weakref", "functools"})
"""Modules that do what their caller is to be blamed for."""


@cache
def stubs() -> str:
    """The folder of typeshed's stubs of the standard library."""
    spec = find_spec("mypy")
    assert spec
    assert spec.origin
    return os.path.join(os.path.dirname(spec.origin), "typeshed", "stdlib")


def holds(condition: ast.expr, platform: str) -> bool:
    """Tell whether a stub's condition on system or version holds."""
    values = {"sys.platform": platform, "sys.version_info": sys.version_info[:3], "TYPE_CHECKING": True}
    text = ast.unparse(condition)
    for name, value in values.items():
        text = text.replace(name, repr(value))
    return bool(eval(text, {"__builtins__": {}}))


def defined(body: Iterable[ast.stmt], platform: str) -> Iterator[str]:
    """Yield the names that a stub defines on a system."""
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise):
                yield from defined(then if holds(test, platform) else otherwise, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(names=names):
                for alias in names:
                    if alias.name == "*" and statement.module:
                        yield from names_of(statement.module, platform)
                    elif alias.name == alias.asname:  # others are not exported
                        yield alias.name


@cache
def names_of(module: str, platform: str) -> frozenset[str]:
    """Return the names that a module of the standard library has on a system."""
    base = os.path.join(stubs(), *module.split("."))
    for path in (f"{base}.pyi", os.path.join(base, "__init__.pyi")):
        if os.path.isfile(path):
            with io.open_code(path) as file:
                return frozenset(defined(ast.parse(file.read()).body, platform))
    return frozenset()


def hidden_names(module: str) -> frozenset[str]:
    """Return the names that a module lacks on Windows."""
    return names_of(module, "linux") - names_of(module, "win32")


def is_absent(module: str) -> bool:
    """Tell whether Windows lacks a module."""
    return bool(hidden_names(module)) and all(name.startswith("_") for name in names_of(module, "win32"))


class Censored(ModuleType):
    """A module without some of its names."""

    def __init__(self, module: ModuleType, hidden: frozenset[str]) -> None:
        super().__init__(module.__name__)
        vars(self).update(_module=module, _hidden=hidden)

    def __getattr__(self, name: str) -> Any:
        if name in vars(self)["_hidden"]:
            raise AttributeError(f"Windows has no {self.__name__}.{name}")
        if (self.__name__, name) == ("sys", "platform"):
            return "win32"
        return getattr(vars(self)["_module"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["_module"], name, value)


@cache
def censored(name: str) -> ModuleType:
    """Return a module of the standard library as Windows has it."""
    module, hidden = sys.modules[name], hidden_names(name)
    if is_absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}, on Windows", name=name)
    return Censored(module, hidden) if hidden or name == "sys" else module


import_module = builtins.__import__


def import_as_on_windows(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> ModuleType:
    """Import a module, for `align` without what Windows lacks."""
    module = import_module(name, globals, locals, fromlist, level)
    importer = str((globals or {}).get("__package__") or (globals or {}).get("__name__"))
    if importer.partition(".")[0] not in PACKAGES or level or name.partition(".")[0] not in sys.stdlib_module_names:
        if name == "filelock":
            remove_released_locks(module)
        return module
    return censored(name if fromlist else name.partition(".")[0])


def remove_released_locks(filelock: Any) -> None:
    """Remove lock files after they are released, as filelock does on Windows."""
    release = filelock.UnixFileLock._release

    @wraps(release)
    def release_and_remove(self: Any) -> None:
        release(self)
        if os.path.exists(self.lock_file):
            os.unlink(self.lock_file)

    if not hasattr(release, "__wrapped__"):
        filelock.UnixFileLock._release = release_and_remove


def caller() -> str:
    """Return the package that has called a function of ours, itself or through a helper, if it is one of `PACKAGES`."""
    frame: FrameType | None = sys._getframe(2)
    while frame and frame.f_globals.get("__name__") in HELPERS:
        frame = frame.f_back
    name = str(frame.f_globals.get("__package__")).partition(".")[0] if frame else ""
    return name if name in PACKAGES else ""


def refuse_open(path: Any) -> None:
    """Refuse a file that this process has open or mapped, and a folder with such a file."""
    place = os.path.realpath(os.fsdecode(path))
    used = [os.getcwd()]
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            used.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:  # the one that has listed them
            continue
    with io.open_code("/proc/self/maps") as file:
        used += {os.fsdecode(line.split(maxsplit=5)[5].rstrip(b"\n")) for line in file if line.count(b"/")}
    if place in used or any(name.startswith(f"{place}/") for name in used):
        raise PermissionError(errno.EACCES, "The process cannot access the file because it is being used", path)


def refusing(function: Callable[..., Any], moves: bool) -> Callable[..., Any]:
    """Return a function that removes or moves files as Windows does."""

    @wraps(function)
    def refuse(*arguments: Any, **named: Any) -> Any:
        if caller():
            for path in arguments[: 1 + moves]:
                refuse_open(path)
            if moves and os.path.lexists(arguments[1]) and (function is rename or os.path.isdir(arguments[1])):
                raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", arguments[1])
        return function(*arguments, **named)

    return refuse


def open_as_on_windows(
    file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None,
    *others: Any, **named: Any,
) -> Any:  # fmt: skip
    """Open a file, whose lines end with CRLF if it is text that is written."""
    if (package := caller()) and "b" not in mode:
        if encoding in (None, "locale") and package == "align":
            raise EncodingWarning(f"{file} is opened without an encoding")
        newline = "\r\n" if newline is None and "r" not in mode else newline
    return real_open(file, mode, buffering, encoding, errors, newline, *others, **named)


rename, real_open = os.rename, builtins.open
if __name__ == "sitecustomize":
    builtins.__import__ = import_as_on_windows
    builtins.open = io.open = open_as_on_windows
    for removing in ("remove", "unlink", "rmdir", "rename", "replace"):
        setattr(os, removing, refusing(getattr(os, removing), removing in ("rename", "replace")))
    for standard in (sys.stdout, sys.stderr):
        if isinstance(standard, io.TextIOWrapper):
            standard.reconfigure(encoding="cp1252", newline="\r\n")
