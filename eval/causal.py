"""Which heads of a decoder-only model align, how well, and at what cost; see `eval/run.py train-causal`.

Error rates of every layer and head, by weight and norm, in both positions and directions; of what is chosen without
gold and what is best with it; of links in one and two directions, with those of the encoder-decoders trained on the
same pairs; whether the same heads align in both directions; and time and memory relative to a pass of transformers that
returns all attentions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from benchmark_memory import peak_memory
from common import (
    PERMUTATIONS,
    Text,
    find_experiment,
    load_model,
    read_config,
    read_text,
    score_columns,
    score_row,
    swapped,
    write_table,
)
from numpy.typing import NDArray
from timing import COLUMNS as COST_COLUMNS
from timing import batches, in_turn, ratio

from align import Aligner, Direction, Gold, ModelOptions, Pair, Settings, load, two_way
from align.core.choice import all_cells, leading
from align.core.scores import collate, each_cell
from align.core.types import THRESHOLD, Cell, Null, Pieces, Position, PositionChoice, Score
from align.evaluation.metrics import SAMPLES, SEED, Counts, count_all, estimate
from align.evaluation.sweep import sweep
from align.evaluation.swept import POSITIONS, SCORES, Sweep, apply_rules
from align.evaluation.tables import Column, Value, interval, percent
from align.io.process import python
from align.io.signature import signature

NULLS: tuple[Null, ...] = ("eos", "mask")
"""Whether what is read outside the source counts as reading nothing, or is left out."""

DIRECTIONS = ("de-en", "en-de")

TOP = 5
"""How many of the most consistent heads are compared."""


def load_causal(folder: Path, direction: str, template: str) -> Aligner:
    """Load a model in one direction."""
    source, target = direction.split("-")
    return load(folder, device="cpu", options=ModelOptions(source_lang=source, target_lang=target, template=template))


def with_settings(aligner: Aligner, settings: Settings) -> Aligner:
    """Return an aligner of the same model."""
    return Aligner(Direction(aligner.forward.recorder, settings))


def gold_of(text: Text, direction: str) -> list[Gold]:
    """Return the gold links of a text as a direction reads it."""
    if direction == DIRECTIONS[0]:
        return text.gold
    return [Gold(*(frozenset((i, j) for j, i in links) for links in (gold.sure, gold.possible))) for gold in text.gold]


HEAD_COLUMNS = [
    *(Column(key, key) for key in ("direction", "null", "position", "score", "layer", "head")),
    Column("consistency", "consistency", 3),
    *(Column("aer", "AER", 1), Column("interval", "95 % CI", 1)),
]


def head_rows(direction: str, null: Null, swept: Sweep) -> Iterator[dict[str, Value]]:
    """Yield every layer and head in each position, by either score."""
    assert swept.counts is not None
    for (p, position), (s, score), (c, cell) in product(
        enumerate(POSITIONS), enumerate(SCORES), enumerate(swept.cells)
    ):
        value, low, high = map(percent, estimate(swept.counts[:, s, p, c]))
        row: dict[str, Value] = {"direction": direction, "null": null, "position": position, "score": score}
        row |= {"layer": cell.layer, "head": str(cell.head), "consistency": float(swept.consistency[s, p, c])}
        yield row | {"aer": value, "interval": interval(low, high)}


def chosen_settings(swept: Sweep, score: Score, position: PositionChoice, null: Null) -> Settings:
    """Return the settings that an aligner with layer and head "auto" reads a text by, without computing them again."""
    consistency = swept.consistency[SCORES.index(score)]
    cells = {one: swept.cells[int(consistency[p].argmax())] for p, one in enumerate(POSITIONS)}
    if position == "auto":
        one, *second = leading({one: float(consistency[p].max()) for p, one in enumerate(POSITIONS)})
        position = "both" if second else one
    first, output = cells["input" if position == "both" else position], cells["output"]
    settings = Settings(score, position, first.layer, first.head, null)
    return replace(settings, output_layer=output.layer, output_head=output.head) if position == "both" else settings


AGREEMENT_COLUMNS = [
    *(Column(key, key) for key in ("null", "position", "score")),
    Column("consistency", "de-en and en-de, consistency", 3),
    Column("aer", "de-en and en-de, AER", 3),
    Column("top", f"of the {TOP} most consistent heads, in both"),
    Column("ranks_de-en", "consistency and AER, de-en", 3),
    Column("ranks_en-de", "consistency and AER, en-de", 3),
]


def agreement_rows(null: Null, sweeps: dict[str, Sweep]) -> Iterator[dict[str, Value]]:
    """Yield rank correlations over heads: of the two directions, and of what needs no gold with what does."""
    heads = [n for n, cell in enumerate(sweeps[DIRECTIONS[0]].cells) if cell.head != "all"]
    for (p, position), (s, score) in product(enumerate(POSITIONS), enumerate(SCORES)):
        consistency = [sweeps[name].consistency[s, p, heads] for name in DIRECTIONS]
        rates = [sweeps[name].rates()[s, p, heads] for name in DIRECTIONS]
        top = [set(np.argsort(-values)[:TOP].tolist()) for values in consistency]
        row: dict[str, Value] = {"null": null, "position": position, "score": score}
        row |= {"consistency": rank_correlation(*consistency), "aer": rank_correlation(*rates)}
        row["top"] = len(set.intersection(*top))
        for name, values, errors in zip(DIRECTIONS, consistency, rates, strict=True):
            row[f"ranks_{name}"] = rank_correlation(values, -errors)
        yield row


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Spearman's correlation; equal values have the mean of their ranks."""
    ranks = [
        np.array([(values < x).sum() + ((values == x).sum() - 1) / 2 for x in values]) for values in (first, second)
    ]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def systems(
    name: str, models: dict[str, Aligner], text: Text, null: Null, sweeps: dict[str, Sweep]
) -> Iterator[tuple[str, Counts]]:
    """Yield what is linked without gold and with it, in one direction and in two."""
    for direction, swept in sweeps.items():
        assert swept.counts is not None
        for rule in ("lexical consistency, heads", "lowest AER, heads"):
            for choice in apply_rules(swept):
                if choice.rule == rule:
                    counts = swept.counts[:, SCORES.index(choice.score), POSITIONS.index(choice.position), choice.cell]
                    where = f"{choice.score}, {choice.position}, {swept.cells[choice.cell]}"
                    yield f"{name}, {direction}: {rule}: {where}", counts
    ways: list[tuple[Score, Any]] = [*product(SCORES, get_args(PositionChoice))]
    for score, position in ways:
        aligners = {
            direction: with_settings(model, chosen_settings(sweeps[direction], score, position, null))
            for direction, model in models.items()
        }
        for direction, aligner in aligners.items():
            pairs = text.pairs if direction == DIRECTIONS[0] else swapped(text.pairs)
            counts = count_all([alignment.links for alignment in aligner(pairs)], gold_of(text, direction))
            yield f"{name}, {direction}: {score}, {position}, threshold {THRESHOLD:g}", counts
        forward, reverse = aligners.values()
        both = two_way(forward, reverse, "soft")
        counts = count_all([alignment.links for alignment in both(text.pairs)], text.gold)
        yield f"{name}, both directions: {score}, {position}, soft", counts


def all_attentions(folder: Path) -> Callable[[Sequence[Pieces]], object]:
    """Return a pass of transformers' model that returns the attention of all layers and heads."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    model.eval()

    @torch.inference_mode()
    def forward(pieces: Sequence[Pieces]) -> object:
        batch = collate(pieces, 0)
        lengths = torch.tensor([len(each.source) for each in pieces])
        mask = (torch.arange(batch.source.shape[1]) < lengths[:, None]).long()
        return model.model(batch.source, attention_mask=mask, output_attentions=True).attentions

    return forward


def cells_read(aligner: Aligner, cells: Sequence[Cell], score: Score, position: Position) -> Callable[[Any], object]:
    """Return what reads some cells of batches."""
    recorder = aligner.forward.recorder
    return lambda pieces: [part.words.sum() for part in each_cell(recorder, pieces, {position: cells}, [score], "eos")]


def ways_of(folder: Path, template: str) -> tuple[Aligner, dict[str, Callable[[Any], object]]]:
    """Return a model, and the ways of reading it whose cost is measured."""
    aligner = load_causal(folder, DIRECTIONS[0], template)
    cells = all_cells(aligner.forward.recorder)
    middle = aligner.forward.recorder.layers // 2
    return aligner, {
        "transformers, all attentions": all_attentions(folder),
        "one head, weight": cells_read(aligner, [Cell(middle, 1)], "weight", "input"),
        "one head, norm": cells_read(aligner, [Cell(middle, 1)], "norm", "input"),
        "all heads, weight": cells_read(aligner, cells, "weight", "input"),
        "all heads, norm": cells_read(aligner, cells, "norm", "input"),
    }


def cost_rows(
    folder: Path, template: str, pairs: list[Pair], rounds: int, arguments: Sequence[str]
) -> Iterator[dict[str, Value]]:
    """Yield times and memory relative to transformers' pass over the same batches."""
    aligner, ways = ways_of(folder, template)
    made = batches(replace(aligner, buffer=len(pairs)), pairs)
    seconds = in_turn(ways, made, rounds)
    base, *ours = ways
    peaks = {}
    script = f"import runpy; runpy.run_path({str(Path(__file__).with_name('run.py'))!r}, run_name='__main__')"
    for way in ("nothing", *ways):
        command = python(script, "causal", str(folder), *arguments, "--only", way)
        peaks[way] = statistics.median(peak_memory(command) for _ in range(rounds))
    for way in ours:
        yield {"part": "time", "what": f"{way}, of {base}", "value": ratio(seconds, way, base), "unit": "times"}
    for way in ways:
        yield {"part": "memory", "what": way, "value": peaks[way] - peaks["nothing"], "unit": "MB above the model"}


def run(
    folder: Path,
    template: str,
    name: str,
    data: Path,
    config: Path,
    experiment: str,
    rounds: int,
    only: str | None,
    output: Path,
) -> None:
    """Measure, print, write; or do what is measured.

    Raises:
        argparse.ArgumentError: there is no such experiment.
        ModelError: the model cannot be read.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    if only:
        torch.set_num_threads(1)
        aligner, ways = ways_of(folder, template)
        for batch in batches(aligner, text.pairs) if only in ways else ():
            ways[only](batch)
        return
    models = {direction: load_causal(folder, direction, template) for direction in DIRECTIONS}
    names = [model.forward.recorder.name for model in models.values()]
    encoder_decoders = {
        direction: load_model(about[key][0], data, "cpu")
        for direction, key in zip(DIRECTIONS, ("models", "reverse_models"), strict=True)
    }
    heads: list[dict[str, Value]] = []
    agreement: list[dict[str, Value]] = []
    rates: list[tuple[str, Counts]] = []
    for kind, pair_of_models in (("decoder-only", models), ("encoder-decoder", encoder_decoders)):
        for null in NULLS:
            sweeps = {
                direction: sweep(
                    with_settings(model, Settings(null=null)),
                    text.pairs if direction == DIRECTIONS[0] else swapped(text.pairs),
                    gold_of(text, direction),
                )
                for direction, model in pair_of_models.items()
            }
            if kind == "decoder-only":
                agreement += agreement_rows(null, sweeps)
                for direction, swept in sweeps.items():
                    heads += head_rows(direction, null, swept)
            rates += systems(f"{kind}, null {null}", pair_of_models, text, null, sweeps)
    names += [model.forward.recorder.name for model in encoder_decoders.values()]
    parts: dict[str, Any] = {
        "gold": "+".join(text.names),
        "model": names,
        "template": template,
        "ci": f"percentile-{SAMPLES}",
    }
    sign = signature(parts | {"test": f"permutation-{PERMUTATIONS}", "seed": SEED}, "causal")
    default = dict(rates)["encoder-decoder, null eos, both directions: norm, both, soft"]
    rows = [
        {"system": system, **score_row(counts, text, None if counts is default else default)}
        for system, counts in rates
    ]
    write_table([Column("system", "system"), *score_columns(text)], rows, sign, output / f"{name}.systems.tsv")
    write_table(AGREEMENT_COLUMNS, agreement, sign, output / f"{name}.agreement.tsv")
    write_table(HEAD_COLUMNS, heads, sign, output / f"{name}.heads.tsv")
    arguments = ["--template", template, "--data", str(data), "--config", str(config), "--experiment", experiment]
    costs = [
        row | {"value": f"{row['value']:.3g}"} for row in cost_rows(folder, template, text.pairs, rounds, arguments)
    ]
    write_table(COST_COLUMNS, costs, sign, output / f"{name}.costs.tsv")
