"""Compare the heads of a model on a text: by lexical consistency, and by links that they agree with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch

from align.core.backend import Recorder
from align.core.choice import all_cells, consistency_of, leading
from align.core.scores import AttentionReader, best_words, each_cell
from align.core.stream import BATCH_TOKENS, Encoded, OnBatch, cut
from align.core.types import Cell, Null, Place, Position, PositionChoice, Score
from align.models.model_toml import Cells


def calibrate(
    recorder: Recorder,
    encoded: Sequence[Encoded],
    null: Null,
    choice: PositionChoice,
    on_batch: OnBatch | None = None,
) -> tuple[Cells, str]:
    """Return the most consistent cell of a text for each score and position, and a TSV of heads.

    `choice` leaves out positions that are not to be read. `on_batch` receives pairs once for each score.
    """
    cells, positions = all_cells(recorder), get_args(Position)
    chosen: Cells = {}
    rows: list[tuple[float, str]] = []
    for score in get_args(Score):
        reader = AttentionReader(recorder, score, null)
        values = consistency_of(reader, encoded, dict.fromkeys(positions, cells), on_batch=on_batch)
        best = {position: float(values[position].max()) for position in positions}
        for position in leading(best) if choice == "auto" else positions:
            if choice in ("auto", "both", position):
                chosen[score, position] = cells[int(values[position].argmax())]
        for position in positions if score == "norm" else ():
            for cell, value in zip(cells, values[position].tolist(), strict=True):
                if cell.head != "all":
                    rows.append((value, f"{cell.layer}\t{cell.head}\t{value:.4f}\t{position}\n"))
    lines = [line for _, line in sorted(rows, key=lambda row: -row[0])]
    return chosen, "".join(("layer\thead\tscore\tposition\n", *lines))


def best_layer(recorder: Recorder, encoded: Sequence[Encoded], null: Null) -> int:
    """Return the layer whose heads have, in the steps that predict words, the most consistent mean attention."""
    cells: list[Cell] = [Cell(layer, "all") for layer in range(1, recorder.layers + 1)]
    values = consistency_of(AttentionReader(recorder, "weight", null), encoded, {"output": cells})
    return 1 + int(values["output"].argmax())


def alignment_heads(recorder: Recorder, encoded: Sequence[Encoded], place: Place, null: Null) -> dict[str, Any]:
    """Return how often each head attends most to the source word of a link, in the step that predicts the target word.

    Such lists ("token alignment heads", AlignAtt) are otherwise made with the links of another aligner. Here the links
    are each target word's best source word by the norms at a place of the same model. `encoded` have pieces.
    """
    cells = [cell for cell in all_cells(recorder) if cell.head != "all"]
    linking = AttentionReader(recorder, null=null)
    agreed, total = torch.zeros(len(cells)), 0
    for _, batch in cut(encoded, BATCH_TOKENS):
        links = best_words(linking.scores(batch, place), linking.null)[0]  # [B, J]
        linked = links >= 0
        total += int(linked.sum())
        same = [
            ((best_words(part.words, "mask")[0] == links[:, None]) & linked[:, None]).sum((0, 2))
            for part in each_cell(recorder, batch, {"output": cells}, ["weight"], "mask")
        ]
        agreed += torch.cat(same).cpu()
    shares = (agreed / max(1, total)).tolist()
    ranked = sorted(zip(shares, cells, strict=True), key=lambda pair: -pair[0])
    return {
        "model": recorder.name,
        "language_pair": "-".join(recorder.languages),
        "num_layers": recorder.layers,
        "num_heads": recorder.heads,
        "num_sentences": len(encoded),
        "total_alignable_tokens": total,
        "token_alignment_heads": [
            {"layer": cell.layer - 1, "head": int(cell.head) - 1, "ts": round(share, 4)} for share, cell in ranked
        ],
    }
