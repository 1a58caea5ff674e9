"""Keep `python -m align...` from importing modules from the current folder; must be the first import.

Python puts that folder first on the module path, so that a `random.py` in a downloaded model folder would be run.
This module imports only what Python itself has always loaded: not even `__future__`.
"""

import sys


def _leave_current_folder() -> None:
    """Remove the current folder from the module path if `-m` has put it there, unless this package is in it."""
    if sys.argv[:1] != ["-m"] or getattr(sys.flags, "safe_path", False):
        return  # not started with -m, or the folder is not on the path
    started = sys.orig_argv[-len(sys.argv)].removeprefix("-m")  # `-m NAME` and `-mNAME` are the same
    package = __name__.partition(".")[0]
    home, first = (path.replace("\\", "/") for path in (__file__, sys.path[0]))  # as Windows writes them
    if started.partition(".")[0] == package and first != home.rsplit("/", 3)[0]:
        del sys.path[0]


_leave_current_folder()
