"""extract-align: word alignments out of a trained Transformer translation model.

    from align import load
    aligner = load()
    print(aligner.align("wir haben heute zeit .", "we have time today ."))

Importing this package imports neither torch nor fairseq; loading a model does.
"""

from align.io import safe_path  # noqa: F401  (before all others)

# isort: split
import ast
import importlib
import logging
from pathlib import Path
from typing import Any

from align._version import __version__ as __version__

_NAMES = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {node.names[0].name: str(node.module) for node in _NAMES.body if isinstance(node, ast.ImportFrom)}
"""Public names, and the modules in which the stub next to this file finds them."""

__all__ = [*_HOMES]

logging.getLogger("align").addHandler(logging.NullHandler())  # messages appear where a program asks for them


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'align' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
