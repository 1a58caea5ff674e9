"""Fixtures that run commands in this process."""

from tests.cli.conftest import run_main, write

__all__ = ["run_main", "write"]
