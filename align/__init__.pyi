"""Public names for type checkers and documentation; `align/__init__.py` imports each on first use."""

from align._version import __version__ as __version__
from align.compat.similarity import soft_links as soft_links
from align.core.aligner import Aligner as Aligner
from align.core.aligner import Direction as Direction
from align.core.errors import DataError as DataError
from align.core.errors import LinksError as LinksError
from align.core.errors import ModelError as ModelError
from align.core.errors import PairError as PairError
from align.core.text import IdPair as IdPair
from align.core.text import LinePair as LinePair
from align.core.types import Alignment as Alignment
from align.core.types import Cell as Cell
from align.core.types import Choice as Choice
from align.core.types import Gold as Gold
from align.core.types import Links as Links
from align.core.types import Pair as Pair
from align.core.types import Place as Place
from align.core.types import Search as Search
from align.core.types import Settings as Settings
from align.core.types import TextWarning as TextWarning
from align.evaluation.dialects import symmetrize as symmetrize
from align.evaluation.gold import read_gold as read_gold
from align.evaluation.gold import read_hypotheses as read_hypotheses
from align.evaluation.link_formats import parse_marked as parse_marked
from align.evaluation.link_formats import parse_pharaoh as parse_pharaoh
from align.evaluation.metrics import aer as aer
from align.evaluation.metrics import count_all as count_all
from align.evaluation.report import evaluate as evaluate
from align.io.reader import read_text as read_text
from align.jobs.table_aligner import TableAligner as TableAligner
from align.jobs.tables import align_table as align_table
from align.models.ids import words_of_offsets as words_of_offsets
from align.models.ids import words_of_pieces as words_of_pieces
from align.models.load import ensemble as ensemble
from align.models.load import load as load
from align.models.load import two_way as two_way
from align.models.model_toml import ModelOptions as ModelOptions
from align.models.translate import translate as translate
from align.transfer.inline import transfer_markup as transfer_markup
from align.transfer.labels import project_labels as project_labels
from align.view.grid import error_grid as error_grid
from align.view.grid import grid as grid
from align.view.grid import heat_grid as heat_grid

NOT_ON_WINDOWS: str
