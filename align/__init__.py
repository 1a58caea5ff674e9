"""extract-align: word alignments out of a trained Transformer translation model.

    from align import load
    aligner = load()
    print(aligner.align("wir haben heute zeit .", "we have time today ."))

Importing this package imports neither torch nor fairseq; loading a model does.
"""

from align.io import safe_path  # noqa: F401  (before all others)

# isort: split
import importlib
import sys
from typing import Any

from align._version import __version__

_HOMES = {
    "Aligner": "align.core.aligner",
    "Alignment": "align.core.types",
    "Cell": "align.core.types",
    "Choice": "align.core.types",
    "DataError": "align.core.errors",
    "Direction": "align.core.aligner",
    "Gold": "align.core.types",
    "IdPair": "align.core.text",
    "LinePair": "align.core.text",
    "Links": "align.core.types",
    "LinksError": "align.core.errors",
    "ModelError": "align.core.errors",
    "ModelOptions": "align.models.model_toml",
    "Pair": "align.core.types",
    "PairError": "align.core.errors",
    "Place": "align.core.types",
    "Search": "align.core.types",
    "Settings": "align.core.types",
    "TableAligner": "align.jobs.table_aligner",
    "TextWarning": "align.core.types",
    "aer": "align.evaluation.metrics",
    "align_table": "align.jobs.tables",
    "count_all": "align.evaluation.metrics",
    "error_grid": "align.view.grid",
    "evaluate": "align.evaluation.report",
    "grid": "align.view.grid",
    "heat_grid": "align.view.grid",
    "load": "align.models.load",
    "parse_marked": "align.evaluation.link_formats",
    "parse_pharaoh": "align.evaluation.link_formats",
    "project_labels": "align.transfer.labels",
    "read_gold": "align.evaluation.gold",
    "read_hypotheses": "align.evaluation.gold",
    "read_text": "align.io.reader",
    "soft_links": "align.compat.similarity",
    "symmetrize": "align.evaluation.dialects",
    "transfer_markup": "align.transfer.inline",
    "translate": "align.models.translate",
    "two_way": "align.models.load",
    "words_of_offsets": "align.models.ids",
    "words_of_pieces": "align.models.ids",
}

__all__ = ["__version__", *_HOMES]


NOT_ON_WINDOWS = "Linux or macOS is needed; on Windows, install and run it in WSL"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'align' has no attribute {name!r}")
    if sys.platform == "win32":
        raise ImportError(NOT_ON_WINDOWS)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
