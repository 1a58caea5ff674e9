"""Programs in this process, as in tests/cli."""

from tests.cli.conftest import run_main as run_main
