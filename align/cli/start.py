"""What a process of ours begins with, before all imports that take long; processes of others are left alone."""

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
    """Whether this process is one of our programs, and not another one that has imported us."""
    package = getattr(sys.modules["__main__"], "__package__", None) or ""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name in (*PROGRAMS, "-m") or package.split(".")[0] == "align"  # "-m" as long as python looks for the module


def start() -> None:
    """Make Ctrl-C quiet, and let threads that wait for work sleep, where the user has not said how they are to wait.

    OpenMP's threads would look for work all the time, and take the processor from all that have some. It looks at the
    environment when torch is imported, and what we start inherits that. So it does the order to import nothing from the
    current folder, which libraries that start Python with `-c` would do, multiprocessing's resource tracker among them.
    """
    if is_ours():
        start_quietly()
        warnings.simplefilter("ignore")  # of libraries during import; `show_warnings` lets ours through
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("PYTHONSAFEPATH", "1")
