"""Process setup before heavy imports; it does nothing when the package is imported as a library."""

from __future__ import annotations

import os
import sys
import warnings

from align.io.process import start_quietly

PROGRAMS = (
    *("extract-align", "combine-align", "baseline-align", "eval-align", "sweep-align", "transfer-align"),
    *("view-align", "analyse-attention"),
)


def is_ours() -> bool:
    """Tell whether this process runs one of our programs."""
    package = getattr(sys.modules["__main__"], "__package__", None) or ""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name in (*PROGRAMS, "-m") or package.split(".")[0] == "align"  # "-m" as long as python looks for the module


def start() -> None:
    """Make Ctrl-C quiet and idle threads sleep, unless the environment says otherwise.

    OpenMP's idle threads would spin and take the processor from others. OpenMP reads the environment when torch is
    imported, and child processes inherit it, as they inherit the setting that keeps the current folder off their module
    path.
    """
    if is_ours():
        start_quietly()
        warnings.simplefilter("ignore")  # of libraries during import; `show_warnings` lets ours through
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("PYTHONSAFEPATH", "1")
