"""extract-align: word alignments out of a trained Transformer translation model.

    from align import load
    aligner = load()
    print(aligner.align("wir haben heute zeit .", "we have time today ."))

Importing this package imports neither torch nor fairseq; loading a model does.
"""

from align import safe_path  # noqa: F401  (before all others)

# isort: split
import importlib
from typing import TYPE_CHECKING, Any

from align.quiet import quietly

__version__ = "0.3.0.dev0"

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.aligners.two_way import TwoWayAligner
    from align.backends.model_toml import ModelOptions
    from align.errors import DataError, LinksError, ModelError, PairError
    from align.links.evaluation import evaluate
    from align.links.formats import parse_marked, parse_pharaoh
    from align.links.gold import read_gold, read_hypotheses
    from align.links.labels import project_labels
    from align.links.markup import transfer_markup
    from align.links.metrics import aer, count_all
    from align.links.symmetrize import symmetrize
    from align.links.terms import check_terms, read_glossary
    from align.loading import load
    from align.scale.table_aligner import TableAligner
    from align.scale.tables import align_table
    from align.settings import Search, Settings
    from align.text.ids import IdPair, words_of_offsets, words_of_pieces
    from align.text.lines import read_text
    from align.text.words import LinePair
    from align.types import Alignment, Cell, Choice, Gold, Links, Pair, Place, TextWarning
    from align.view.grid import error_grid, grid, heat_grid

_HOMES = {
    "Aligner": "align.aligners.single",
    "Alignment": "align.types",
    "Cell": "align.types",
    "Choice": "align.types",
    "DataError": "align.errors",
    "Gold": "align.types",
    "IdPair": "align.text.ids",
    "LinePair": "align.text.words",
    "Links": "align.types",
    "LinksError": "align.errors",
    "ModelError": "align.errors",
    "ModelOptions": "align.backends.model_toml",
    "Pair": "align.types",
    "PairError": "align.errors",
    "Place": "align.types",
    "Search": "align.settings",
    "Settings": "align.settings",
    "TableAligner": "align.scale.table_aligner",
    "TextWarning": "align.types",
    "TwoWayAligner": "align.aligners.two_way",
    "aer": "align.links.metrics",
    "align_table": "align.scale.tables",
    "check_terms": "align.links.terms",
    "count_all": "align.links.metrics",
    "error_grid": "align.view.grid",
    "evaluate": "align.links.evaluation",
    "grid": "align.view.grid",
    "heat_grid": "align.view.grid",
    "load": "align.loading",
    "parse_marked": "align.links.formats",
    "parse_pharaoh": "align.links.formats",
    "project_labels": "align.links.labels",
    "read_glossary": "align.links.terms",
    "read_gold": "align.links.gold",
    "read_hypotheses": "align.links.gold",
    "read_text": "align.text.lines",
    "symmetrize": "align.links.symmetrize",
    "transfer_markup": "align.links.markup",
    "words_of_offsets": "align.text.ids",
    "words_of_pieces": "align.text.ids",
}

__all__ = [
    "Aligner",
    "Alignment",
    "Cell",
    "Choice",
    "DataError",
    "Gold",
    "IdPair",
    "LinePair",
    "Links",
    "LinksError",
    "ModelError",
    "ModelOptions",
    "Pair",
    "PairError",
    "Place",
    "Search",
    "Settings",
    "TableAligner",
    "TextWarning",
    "TwoWayAligner",
    "__version__",
    "aer",
    "align_table",
    "check_terms",
    "count_all",
    "error_grid",
    "evaluate",
    "grid",
    "heat_grid",
    "load",
    "parse_marked",
    "parse_pharaoh",
    "project_labels",
    "read_glossary",
    "read_gold",
    "read_hypotheses",
    "read_text",
    "symmetrize",
    "transfer_markup",
    "words_of_offsets",
    "words_of_pieces",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'align' has no attribute {name!r}")
    with quietly():
        value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
