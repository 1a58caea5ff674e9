"""eflomal (Östling and Tiedemann 2016): run the package in separate processes."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from align.baselines.process import Files, Job, run_program
from align.io.process import python

_ALIGN = """
import sys, eflomal
source, target, forward, reverse, *priors = sys.argv[1:]
with open(source) as s, open(target) as t:
    eflomal.Aligner().align(s, t, forward, reverse, priors_input=open(priors[0]) if priors else None)
"""

_PRIORS = """
import sys, eflomal
with open(sys.argv[5], "w") as priors:
    eflomal.write_priors(priors, *eflomal.calculate_priors(*map(open, sys.argv[1:5])))
"""


def find_eflomal() -> Callable[[Job], Files]:
    """Return the function that aligns with the package."""
    if not find_spec("eflomal"):
        raise ModuleNotFoundError("eflomal is not installed: pip install eflomal (it is built with gcc and make)")
    return _eflomal


def _eflomal(job: Job) -> Files:
    """Align with the package's defaults; if the test text is separate, with the training text's counts as priors."""
    output = job.folder / "forward", job.folder / "reverse"
    run_program("eflomal", python(_ALIGN, *job.text, *output), job)
    if job.test:
        priors = job.folder / "priors"
        run_program("eflomal", python(_PRIORS, *job.text, *output, priors), job)
        run_program("eflomal", python(_ALIGN, *job.test, *output, priors), job)
    return output
