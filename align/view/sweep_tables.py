"""Build the tables of `extract-align sweep`: error rates by cell, the choice of each rule, and the counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from align.core.consistency import MIN_PAIRS
from align.core.errors import with_arguments
from align.evaluation.metrics import estimate
from align.evaluation.sweep import POSITIONS, SCORES, Sweep, apply_rules
from align.evaluation.tables import Best, Column, Table, Value, interval, percent
from align.view.findings import write_tables

MAX_HEADS = 4
"""Maximum number of heads per layer with a column each in text that fits a terminal; of more, it shows the best."""


def _head_columns(swept: Sweep, complete: bool, key: str, digits: int) -> list[Column]:
    """Return a column for all heads together and each head; only the former if there is no room for each."""
    heads = [cell.head for cell in swept.cells if cell.layer == 1]
    shown = heads if complete or len(heads) <= MAX_HEADS + 1 else heads[:1]
    return [Column(f"{key}_{head}", "all heads" if head == "all" else f"head {head}", digits) for head in shown]


def cell_table(swept: Sweep, complete: bool, named: bool) -> Table:
    """Return a row for each score, position and layer, with AER (or lexical consistency) by head.

    With `complete` every head has a column, else the best may represent them; with `named`, for programs, columns name
    the best cell of each score and position.
    """
    values, metric = values_of(swept)
    columns = [Column(key, key) for key in ("position", "score", "layer")]
    columns += (of_heads := _head_columns(swept, complete, "head", 2))
    columns += [] if of_heads[1:] else [Column("best_head", "best head"), Column("best_value", f"its {metric}", 2)]
    columns.append(Column("null", "NULL, %", 1))
    columns += [Column("metric", "metric"), Column("best", "best")] if named else []
    gold = swept.counts is not None
    goodness = np.nan_to_num(-values if gold else values, nan=-np.inf)
    rows = []
    for (p, position), (s, score) in product(enumerate(POSITIONS), enumerate(SCORES)):
        best = int(np.argmax(goodness[s, p]))
        for layer in range(1, swept.cells[-1].layer + 1):
            cells = [c for c, cell in enumerate(swept.cells) if cell.layer == layer]
            row: dict[str, Value] = {"position": position, "score": score, "layer": layer}
            row |= {"null": percent(swept.null[s, p, cells[0]] / max(1, swept.target_words))}
            row |= {"metric": metric, "best": ""}
            for c in cells:
                value = float(values[s, p, c]) if np.isfinite(values[s, p, c]) else None
                row[f"head_{swept.cells[c].head}"] = Best(value) if c == best and value is not None else value
            if best in cells and np.isfinite(values[s, p, best]):
                row["best"] = f"head {swept.cells[best].head}, chosen {'with' if gold else 'without'} gold"
            head = swept.cells[max(cells[1:], key=lambda c: goodness[s, p, c])].head
            row |= {"best_head": head, "best_value": row[f"head_{head}"]}
            rows.append(row)
    return Table(columns, rows)


def norm_table(swept: Sweep, complete: bool) -> Table:
    """Return the mean norm over all pairs of pieces, by position, layer and head."""
    columns = [Column("position", "position"), Column("layer", "layer")]
    columns += _head_columns(swept, complete, "norm", 4)
    rows: dict[tuple[str, int], dict[str, Value]] = {}
    for (p, position), (c, cell) in product(enumerate(POSITIONS), enumerate(swept.cells)):
        row = rows.setdefault((position, cell.layer), {"position": position, "layer": cell.layer})
        row[f"norm_{cell.head}"] = float(swept.norm[p, c])
    return Table(columns, list(rows.values()), ["mean norm, </s> included"])


def rule_table(swept: Sweep, in_columns: bool = False) -> Table:
    """Return the choice of each rule, whether it used gold, and its AER.

    The ends of an interval have a column each for programs (`in_columns`), and share one for people.
    """
    gold, back = swept.counts is not None, bool(swept.reverse_cells)
    columns = [Column(key, key, wide=key == "chosen") for key in ("position", "score", "rule", "chosen")]
    columns += [Column("layer", "layer"), Column("head", "head")]
    columns.append(Column("consistency", "consistency", 2, wide=gold or back))
    columns += [Column("reverse", "reverse"), Column("dice", "Dice", 3, wide=gold)] if back else []
    if gold:
        ends = [Column("aer_low", "", 2), Column("aer_high", "", 2)]
        columns += [Column("aer", "AER", 2), *(ends if in_columns else [Column("interval", "95 % CI", 2, wide=back)])]
    rows = []
    for choice in apply_rules(swept):
        s, p = SCORES.index(choice.score), POSITIONS.index(choice.position)
        cell = swept.cells[choice.cell]
        row: dict[str, Value] = {"position": choice.position, "score": choice.score, "rule": choice.rule}
        row["chosen"] = "with gold" if choice.gold else "without gold"
        row |= {"layer": cell.layer, "head": str(cell.head)}
        row |= {"consistency": float(swept.consistency[s, p, choice.cell]), "reverse": "", "dice": None}
        if choice.reverse_cell is not None:
            reverse = swept.reverse_cells[choice.reverse_cell]
            row["reverse"] = f"{reverse.layer}, {reverse.head}"
            row["dice"] = float(swept.dice[s, p, choice.cell, choice.reverse_cell])
        if swept.counts is not None:
            rate = list(map(percent, estimate(swept.counts[:, s, p, choice.cell])))
            row |= dict(zip(("aer", "aer_low", "aer_high"), rate, strict=True))
            row["interval"] = interval(*rate[1:])
        rows.append(row)
    return Table(columns, rows)


def write_counts(swept: Sweep, out: BinaryIO, path: str, per_sentence: bool, sign: str) -> None:
    """Write counts of every setting, of the whole text or of each sentence with gold; head 0 is all heads.

    The file is TSV or, if the path ends in .parquet, Parquet.
    """
    names = ("in_sure", "in_possible", "links", "sure")
    rows: list[dict[str, Any]] = []
    for (s, score), (p, position), (c, cell) in product(
        enumerate(SCORES), enumerate(POSITIONS), enumerate(swept.cells)
    ):
        key: dict[str, Any] = {"score": score, "position": position, "layer": cell.layer}
        key["head"] = 0 if cell.head == "all" else cell.head
        if per_sentence and swept.counts is not None:
            for n, counts in enumerate(swept.counts[:, s, p, c], 1):
                rows.append({**key, "line": n, **dict(zip(names, map(int, counts), strict=True))})
            continue
        row = {**key, "pairs": swept.pairs, "target_words": swept.target_words}
        row["null_words"] = int(swept.null[s, p, c])
        if swept.counts is not None:
            row |= dict(zip(names, map(int, swept.counts[:, s, p, c].sum(0)), strict=True))
        row |= {"mean_norm": float(swept.norm[p, c]), "consistency": float(swept.consistency[s, p, c])}
        rows.append(row)
    if path.endswith(".parquet"):
        import pyarrow.parquet

        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table.replace_schema_metadata({"signature": sign}), out)
        return
    lines = [f"# {sign}", "\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]
    out.write("".join(f"{line}\n" for line in lines).encode())


def report(
    swept: Sweep,
    sign: str,
    *,
    format: str = "text",
    wide: bool = False,
    write: Callable[[str], str] = with_arguments,
) -> str:
    """Return all tables, followed by the best settings and the signature.

    `wide` text does not fit a terminal; `write` writes the arguments in notes.
    """
    complete, for_programs = wide or format != "text", format in ("json", "tsv")
    mark = {"text": "*", "tsv": "best"}.get(format, "bold")
    best = []
    judged = [("without gold", swept.consistency)]
    if swept.counts is not None:
        judged.append(("WITH gold", -np.nan_to_num(values_of(swept)[0], nan=np.inf)))
    for how, values in judged:
        s, p, c = np.unravel_index(int(np.argmax(values)), values.shape)
        cell = swept.cells[int(c)]
        head = '"all"' if cell.head == "all" else cell.head
        setting = f'‹score="{SCORES[s]}"› ‹position="{POSITIONS[p]}"› ‹layer={cell.layer}› ‹head={head}›'
        best.append(f"best {how}: {write(setting)}")
    rules = ["layers: all heads of each together; heads: single heads too"]
    if swept.pairs - swept.skipped < MIN_PAIRS:
        rules.append(f"under {MIN_PAIRS} pairs: too few to choose by; aligners take the model's own calibration")
    rules += ["reverse: layer and head of the reverse model"] if swept.reverse_cells else []
    rules.append("consistency: lexical consistency, nats per target word; needs no gold")
    if swept.counts is None:
        cells = [f"lexical consistency, nats per target word; {mark}: the highest, chosen without gold"]
    else:
        cells = [f"AER; {mark}: the lowest of its position and score, chosen WITH gold"]
        rules.append("AER: of this direction's links; what has the lowest is chosen WITH gold")
    cells.append("NULL: target words for which </s> wins, by all heads together")
    cell_values = cell_table(swept, complete, named=for_programs)
    if any(column.key == "best_head" for column in cell_values.columns):
        cells.append(f"each head by itself: {write('‹wide›')}")
    tables = {
        "cells": cell_values._replace(notes=cells),
        "norms": norm_table(swept, complete),
        "rules": rule_table(swept, for_programs)._replace(notes=[*rules, *best]),
    }
    return write_tables(tables, sign, format=format, wide=wide, more={"best": best})


def values_of(swept: Sweep) -> tuple[NDArray[np.float64], str]:
    """Return the values to compare cells by, `[2, 2, C]`, and their name: AER in percent, or lexical consistency."""
    if swept.counts is None:
        return swept.consistency, "lexical consistency"
    return 100 * swept.rates(), "AER"


def draw(
    values: NDArray[np.float64], what: str, layers: int, prefix: Path, models: Sequence[str], pairs: int
) -> list[Path]:
    """Write heat maps of all layers and of all heads; matplotlib must be installed.

    `values` `[2, 2, C]`, and `what` they are, are those of `values_of`, or their mean over models of these
    names.
    """
    from align.view.plots import head_maps, layer_map, save

    grid = values.transpose(1, 0, 2).reshape(len(POSITIONS) * len(SCORES), layers, -1)
    names = [f"{position}, {score}" for position in POSITIONS for score in SCORES]
    lowest = what == "AER"
    best = f"orange frame: the {'lowest' if lowest else 'highest'} {what} of the"
    # the short name, e.g. de-en of fairseq:de-en@3c5b075
    model = models[0].rpartition("@")[0].partition(":")[2] or models[0]
    title = f"{f'mean of {len(models)} models' if models[1:] else model}, {pairs:,} sentence pairs"
    figures = {
        "layers": layer_map(grid[:, :, 0], names, what, f"{title}\nall heads together; {best} row", lowest),
        "heads": head_maps(grid, names, what, f"{title}\n{best} panel", lowest),
    }
    written = [save(figure, prefix.with_name(f"{prefix.name}.{name}")) for name, figure in figures.items()]
    return [path for paths in written for path in paths]
