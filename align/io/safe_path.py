"""First of all imports: `python -m align...` takes no modules from the current folder.

Python puts that folder first on the module path, so that a `random.py` in a downloaded model folder would be run.
This module has nothing to import but what Python itself has always loaded: not even `__future__`.
"""

import sys


def _leave_current_folder() -> None:
    """Take the current folder off the module path where `-m` has put it there, unless it is where we are from."""
    if sys.argv[:1] != ["-m"] or getattr(sys.flags, "safe_path", False):
        return  # not so started, or not put there
    started = sys.orig_argv[-len(sys.argv)].removeprefix("-m")  # `-m NAME` and `-mNAME` are the same
    package = __name__.partition(".")[0]
    home = __file__.rsplit("/", 3)[0]
    if started.partition(".")[0] == package and sys.path[0] != home:
        del sys.path[0]


_leave_current_folder()
