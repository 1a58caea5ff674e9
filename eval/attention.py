"""Error rates of the attention that CTranslate2 returns, by the layer that a model names.

Our engine reads it; tests/parity/test_ctranslate2.py shows that both are the same.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from align import load
from align.core.consistency import CHOOSING_PAIRS
from align.core.stream import encode
from align.evaluation.heads import best_layer
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from eval.common import (
    find_experiment,
    path_of,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    write_table,
)


def run(data: Path, config: Path, experiment: str, output: Path) -> None:
    """Align with the first model, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text, name = read_text(settings, about["gold"], data), path_of(about["models"][0], data)
    forward = load(name, device="cpu").forward
    sample = islice(read_train(settings["train"][about["train"][0]], data), CHOOSING_PAIRS)
    encoded = [item for pair in sample if (item := encode(forward.recorder, pair, "blank")).pieces]
    best, last = best_layer(forward.recorder, encoded, forward.settings.null), forward.recorder.layers
    rows: list[dict[str, Value]] = []
    for named, layer, head in (
        ("last layer, first head (converters of Marian and transformers)", last, 1),
        ("last layer, all heads (converter of fairseq)", last, "all"),
        (f"layer {best}, all heads (`models describe --heads model.bin`)", best, "all"),
    ):
        reading: dict[str, Any] = {
            "score": "weight",
            "position": "output",
            "layer": layer,
            "head": head,
            "null": "mask",
        }
        links = [alignment.links for alignment in load(name, device="cpu", scorer=None, **reading)(text.pairs)]
        rows.append({"named": named, **score_row(count_all(links, text.gold), text, None)})
    sign = signature(
        {"model": [forward.recorder.name], "gold": "+".join(text.names), "pairs": len(encoded)}, "attention"
    )
    write_table(
        [Column("named", "attention"), *score_columns(text)[:-1]], rows, sign, output / f"{experiment}.attention.tsv"
    )
