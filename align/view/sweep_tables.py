"""The tables of `sweep-align`: error rates by cell, what each rule takes, correlations, and the counts behind them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from align.aligners.rules import apply_rules, correlate
from align.aligners.swept import POSITIONS, SCORES, Sweep
from align.errors import Argument, as_argument
from align.links.formats import to_json
from align.links.metrics import SAMPLES, SEED, estimate
from align.types import Head
from align.view.tables import TABLES, Column, Rows, Value, percent, plain_rows, show_interval


def _column(key: str, head: Head, digits: int) -> Column:
    """A column for a head, or for all of them together."""
    return Column(f"{key}_{head}", "all heads" if head == "all" else f"head {head}", digits)


def cell_table(swept: Sweep, marked: bool) -> tuple[list[Column], Rows]:
    """A row for each score, position and layer, with AER (or lexical consistency) by head.

    The best cell of each score and position has a star where `marked`, else it is named in a column of its own.
    """
    heads = [cell.head for cell in swept.cells if cell.layer == 1]
    columns = [Column(key, key) for key in ("position", "score", "layer")]
    columns += [_column("head", head, 2) for head in heads]
    columns.append(Column("null", "</s> wins, %", 1))
    columns += [] if marked else [Column("metric", "metric"), Column("best", "best")]
    rows = []
    for (p, position), (s, score) in product(enumerate(POSITIONS), enumerate(SCORES)):
        gold = swept.counts is not None
        values, metric = values_of(swept)
        values = values[s, p]
        best = int(np.argmin(np.nan_to_num(values, nan=np.inf))) if gold else int(np.argmax(values))
        for c, cell in enumerate(swept.cells):
            if cell.head == "all":
                row: dict[str, Value] = {"position": position, "score": score, "layer": cell.layer}
                row |= {"null": percent(swept.null[s, p, c] / max(1, swept.target_words))}
                row |= {"metric": metric, "best": ""}
                rows.append(row)
            value = float(values[c]) if np.isfinite(values[c]) else None
            row[f"head_{cell.head}"] = f"*{value:.2f}" if marked and c == best and value is not None else value
            if c == best and value is not None:
                row["best"] = f"head {cell.head}, chosen {'with' if gold else 'without'} gold"
    return columns, rows


def norm_table(swept: Sweep) -> tuple[list[Column], Rows]:
    """Mean norm over all pairs of pieces, by position, layer and head."""
    heads = [cell.head for cell in swept.cells if cell.layer == 1]
    columns = [Column("position", "position"), Column("layer", "layer")]
    columns += [_column("norm", head, 4) for head in heads]
    rows: dict[tuple[str, int], dict[str, Value]] = {}
    for (p, position), (c, cell) in product(enumerate(POSITIONS), enumerate(swept.cells)):
        row = rows.setdefault((position, cell.layer), {"position": position, "layer": cell.layer})
        row[f"norm_{cell.head}"] = float(swept.norm[p, c])
    return columns, list(rows.values())


def rule_table(
    swept: Sweep, samples: int = SAMPLES, seed: int = SEED, in_columns: bool = False
) -> tuple[list[Column], Rows]:
    """What every rule chooses, whether it saw gold, and the AER of its choice.

    Args:
        swept: what the sweep has counted.
        samples: of the bootstrap; 0 for no intervals.
        seed: of the samples.
        in_columns: whether the ends of an interval have a column each, for programs; else they share one, for people.
    """
    columns = [Column(key, key) for key in ("position", "score", "rule", "chosen", "layer", "head")]
    columns.append(Column("consistency", "consistency", 2))
    if swept.reverse_cells:
        columns += [Column("reverse", "reverse"), Column("dice", "Dice", 3)]
    if swept.counts is not None:
        columns.append(Column("aer", "AER", 2))
        if in_columns:
            columns += [Column("aer_low", "", 2), Column("aer_high", "", 2)]
        else:
            columns.append(Column("interval", "95 % interval"))
    rows = []
    for choice in apply_rules(swept):
        s, p = SCORES.index(choice.score), POSITIONS.index(choice.position)
        cell = swept.cells[choice.cell]
        row: dict[str, Value] = {"position": choice.position, "score": choice.score}
        row |= {"rule": choice.rule, "chosen": "with gold" if choice.gold else "without gold"}
        row |= {"layer": cell.layer, "head": str(cell.head), "reverse": "", "dice": None}
        row["consistency"] = float(swept.consistency[s, p, choice.cell])
        if choice.reverse_cell is not None:
            row |= {"reverse": str(swept.reverse_cells[choice.reverse_cell])}
            row |= {"dice": float(swept.dice[s, p, choice.cell, choice.reverse_cell])}
        if swept.counts is not None:
            rate = estimate(swept.counts[:, s, p, choice.cell], samples=samples, seed=seed)
            row |= dict(zip(("aer", "aer_low", "aer_high"), map(percent, rate), strict=True))
            row["interval"] = show_interval(row["aer_low"], row["aer_high"], 2)
        rows.append(row)
    return columns, rows


def best_of_all(swept: Sweep, spell: Callable[[Argument], str] = as_argument) -> Iterator[str]:
    """The best setting of all by lexical consistency, and the best by gold, as `spell` writes them."""
    judged = [("without gold, by lexical consistency", swept.consistency)]
    if swept.counts is not None:
        judged.append(("WITH gold, by AER", -np.nan_to_num(values_of(swept)[0], nan=np.inf)))
    for how, values in judged:
        s, p, c = np.unravel_index(int(np.argmax(values)), values.shape)
        cell = swept.cells[int(c)]
        setting = {"score": SCORES[s], "position": POSITIONS[p], "layer": cell.layer, "head": cell.head}
        yield f"best of all {how}: {' '.join(spell(Argument(*argument)) for argument in setting.items())}"


def correlation_table(swept: Sweep) -> tuple[list[Column], Rows]:
    """Mean norm and AER of the norm score, over layers and over heads."""
    columns = [Column("position", "position"), Column("over", "mean norm and AER over"), Column("n", "n")]
    for name in ("spearman", "pearson"):
        columns += [Column(name, name.title(), 2), Column(f"{name}_p", "p", 4)]
    return columns, [correlation._asdict() for correlation in correlate(swept)]


def count_rows(swept: Sweep, per_sentence: bool) -> Iterator[dict[str, Any]]:
    """Integer counts of every setting, of the whole text or of each sentence with gold."""
    names = ("in_sure", "in_possible", "links", "sure")
    for s, score in enumerate(SCORES):
        for p, position in enumerate(POSITIONS):
            for c, cell in enumerate(swept.cells):
                key: dict[str, Any] = {
                    "score": score,
                    "position": position,
                    "layer": cell.layer,
                    "head": 0 if cell.head == "all" else cell.head,
                }
                if per_sentence and swept.counts is not None:
                    for n, counts in enumerate(swept.counts[:, s, p, c], 1):
                        yield {**key, "line": n, **dict(zip(names, map(int, counts), strict=True))}
                    continue
                row = {**key, "pairs": swept.pairs, "target_words": swept.target_words}
                row["null_words"] = int(swept.null[s, p, c])
                if swept.counts is not None:
                    row |= dict(zip(names, map(int, swept.counts[:, s, p, c].sum(0)), strict=True))
                row |= {"mean_norm": float(swept.norm[p, c]), "consistency": float(swept.consistency[s, p, c])}
                yield row


def write_counts(swept: Sweep, out: BinaryIO, path: str, per_sentence: bool, sign: str) -> None:
    """Write the counts as TSV or, where the name says so, Parquet; head 0 is all heads together."""
    rows = list(count_rows(swept, per_sentence))
    if path.endswith(".parquet"):
        import pyarrow.parquet

        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table.replace_schema_metadata({"signature": sign}), out)
        return
    text = io.StringIO()
    print(f"# {sign}", file=text)
    writer = csv.DictWriter(text, list(rows[0]), delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    out.write(text.getvalue().encode())


def report(
    swept: Sweep,
    sign: str,
    *,
    format: str = "text",
    samples: int = SAMPLES,
    seed: int = SEED,
    spell: Callable[[Argument], str] = as_argument,
) -> str:
    """All tables.

    Args:
        swept: what the sweep has counted.
        sign: the signature.
        format: a key of `align.view.tables.TABLES`.
        samples: of the bootstrap; 0 for no intervals.
        seed: of the samples.
        spell: how to write the arguments of the best setting.
    """
    tables = {"cells": cell_table(swept, marked=format in ("text", "latex"))}
    tables["rules"] = rule_table(swept, samples, seed, in_columns=format in ("json", "tsv"))
    tables["norms"] = norm_table(swept)
    if swept.counts is not None:
        tables["correlation"] = correlation_table(swept)
    if format == "json":
        rows = {name: plain_rows(*table) for name, table in tables.items()}
        return to_json({"signature": sign, **rows, "best": list(best_of_all(swept, spell))}, indent=1)
    gold = swept.counts is not None
    what = "AER; * marks the lowest of its position and score, chosen WITH gold"
    if not gold:
        what = "lexical consistency (nats per target word); * marks the highest of its position and score, without gold"
    notes = {
        "cells": [what, "</s> wins: by all heads together"],
        "norms": ["mean norm, </s> included"],
        "rules": [
            "consistency: lexical consistency, nats per target word",
            *(["AER of this direction's links; the lowest is the oracle: only gold can tell"] if gold else []),
            *best_of_all(swept, spell),
        ],
    }
    last = list(tables)[-1]
    shown = []
    for name, table in tables.items():
        signed = sign if name == last or format != "text" else ""
        shown.append(TABLES[format](*table, signed, notes.get(name, ())))
    return "\n\n".join(shown)


def values_of(swept: Sweep) -> tuple[NDArray[np.float64], str]:
    """The values to judge cells by, `[2, 2, C]`, and their name: AER in percent, or lexical consistency."""
    if swept.counts is None:
        return swept.consistency, "lexical consistency"
    return 100 * swept.rates(), "AER"


def draw(
    values: NDArray[np.float64], what: str, layers: int, prefix: Path, models: Sequence[str], pairs: int
) -> list[Path]:
    """Write heat maps of all layers and of all heads; matplotlib must be installed.

    Args:
        values: `[2, 2, C]`, cells by layer, all heads first.
        what: their name, as `values_of` has it.
        layers: how many the model has.
        prefix: the start of the files' names.
        models: the names of those whose mean the values are.
        pairs: of sentences.
    """
    from align.view.plots import head_maps, layer_map, save

    grid = values.transpose(1, 0, 2).reshape(len(POSITIONS) * len(SCORES), layers, -1)
    names = [f"{position}, {score}" for position in POSITIONS for score in SCORES]
    lowest = what == "AER"
    best = f"orange frame: the {'lowest' if lowest else 'highest'} {what} of the"
    # of a name such as fairseq:de-en@3c5b075 what people say
    model = models[0].rpartition("@")[0].partition(":")[2] or models[0]
    title = f"{f'mean of {len(models)} models' if models[1:] else model}, {pairs:,} sentence pairs"
    figures = {
        "layers": layer_map(grid[:, :, 0], names, what, f"{title}\nall heads together; {best} row", lowest),
        "heads": head_maps(grid, names, what, f"{title}\n{best} panel", lowest),
    }
    written = [save(figure, prefix.with_name(f"{prefix.name}.{name}")) for name, figure in figures.items()]
    return [path for paths in written for path in paths]
