"""`align` without what Windows lacks; see sitecustomize.py. CI runs the portable tests on Windows itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="needs typeshed")

from tests.conftest import ROOT
from tests.windows import sitecustomize as windows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

TESTS = """
unit/test_formats.py
cli/test_combine.py::test_bytes_of_the_methods
cli/test_resume.py::test_stopped_it_goes_on_to_the_same_bytes[links-arguments0]
cli/test_transfer_documents.py::test_messages_with_numbered_tags
cli/test_view.py::test_systems_beside_gold
scale/test_shards.py::test_lines_come_out_as_file_by_file
service/test_server.py::test_it_starts_answers_and_stops
"""
"""Some of the portable tests: of formats, several workers, a stopped run, documents, a page, jobs and the service."""


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python as on Windows."""
    path = os.pathsep.join((str(Path(windows.__file__).parent), str(ROOT)))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "COV_CORE_SOURCE"):
        environment.pop(name, None)
    return subprocess.run([sys.executable, *arguments], capture_output=True, env=environment, cwd=ROOT)


def test_names_of_other_systems_are_found() -> None:
    absent = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
    assert absent <= {name for name in sys.stdlib_module_names if windows.is_absent(name)}
    for module, names in {
        "os": "O_CLOEXEC O_NOFOLLOW O_NONBLOCK WNOHANG fork geteuid killpg mkfifo openpty register_at_fork setsid",
        "signal": "SIGCHLD SIGHUP SIGKILL SIG_BLOCK alarm pthread_sigmask",
        "socket": "AF_UNIX",
        "time": "tzset",
    }.items():
        assert {*names.split()} <= windows.hidden_names(module)
    assert not {"kill", "open", "replace", "umask", "O_CREAT"} & windows.hidden_names("os")


SCRIPT = r"""
__package__ = "align"
import os, pathlib, signal, sys, tempfile

def is_refused(error, action):
    try:
        action()
    except error:
        return True

with tempfile.TemporaryDirectory() as folder:
    path, other = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
    other.touch()
    with path.open("w", encoding="utf-8") as file:
        file.write("\u00e9\n")
        file.flush()
        print(
            sys.platform,
            is_refused(PermissionError, path.unlink),
            is_refused(PermissionError, lambda: other.replace(path)),
            is_refused(PermissionError, lambda: os.rename(path, other)),
            is_refused(PermissionError, lambda: os.rename(folder, folder + "b")),
            is_refused(EncodingWarning, lambda: open(other)),
            is_refused(ModuleNotFoundError, lambda: __import__("fcntl", globals())),
            is_refused(AttributeError, lambda: signal.SIGHUP),
        )
    other.replace(path)
    print(path.write_text("1\n", encoding="utf-8"), path.read_bytes(), "\u00e9")
"""


def test_what_is_refused() -> None:
    result = run("-c", SCRIPT)
    assert result.returncode == 0, result.stderr
    assert result.stdout == b"win32" + b" True" * 7 + b"\r\n2 b'1\\r\\n' \xe9\r\n"


def test_some_portable_tests_pass() -> None:
    result = run("-m", "pytest", "-p", "no:cacheprovider", "-q", *(f"tests/{test}" for test in TESTS.split()))
    assert result.returncode == 0, result.stdout[-5000:].decode(errors="replace")
