"""extract-align: word alignments out of a trained Transformer translation model.

    from align import load
    aligner = load()
    print(aligner.align("wir haben heute zeit .", "we have time today ."))

Importing this package imports neither torch nor fairseq; using it does.
"""

from align import safe_path  # noqa: F401  (before all others)

# isort: split
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.aligners.two_way import TwoWayAligner
    from align.backends.model_folder import ModelOptions
    from align.errors import DataError, PairError
    from align.loading import load
    from align.types import Alignment, Cell, Choice, Gold, Links, Pair, Place, Settings
    from align.view.grid import error_grid, grid, heat_grid

_HOMES = {
    "Aligner": "align.aligners.single",
    "Alignment": "align.types",
    "Cell": "align.types",
    "Choice": "align.types",
    "DataError": "align.errors",
    "Gold": "align.types",
    "Links": "align.types",
    "ModelOptions": "align.backends.model_folder",
    "Pair": "align.types",
    "PairError": "align.errors",
    "Place": "align.types",
    "Settings": "align.types",
    "TwoWayAligner": "align.aligners.two_way",
    "error_grid": "align.view.grid",
    "grid": "align.view.grid",
    "heat_grid": "align.view.grid",
    "load": "align.loading",
}

__all__ = [
    "Aligner",
    "Alignment",
    "Cell",
    "Choice",
    "DataError",
    "Gold",
    "Links",
    "ModelOptions",
    "Pair",
    "PairError",
    "Place",
    "Settings",
    "TwoWayAligner",
    "__version__",
    "error_grid",
    "grid",
    "heat_grid",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'align' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
