"""The paper's table, what the rules choose, and statistical aligners beside it, from models, bitext and gold.

    .venv/bin/python eval/run.py reproduce --data DIR [--baseline-links DIR] [EXPERIMENT ...]

Experiments are in eval/experiments.toml. Each prints four tables and writes them, with heat maps, to eval/results/:
AER by layer (mean and sd over the models, which differ in their seed), layer and head by rules, scores and positions
paired, and systems; with several models a fifth, of systems over seeds. An experiment whose files are missing is named
and left out, unless it was asked for. Statistical aligners may take hours: their links can be kept, so that a command
that was stopped goes on with the next one, and one without these tools has their rows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from baselines import Baselines
from common import PERMUTATIONS, files_of, find_experiment, read_config, read_text, write_table
from reproduce_systems import load_models, of_baselines, of_models, seed_rows, system_rows
from reproduce_tables import comparison_rows, layer_rows, rule_rows

from align.core.settings import THRESHOLD
from align.core.symmetrize import SOFT
from align.evaluation.metrics import SAMPLES, SEED
from align.evaluation.sweep import sweep
from align.io.signature import signature
from align.view.sweep_tables import draw


def run(
    data: Path, config: Path, experiments: list[str], baseline_links: Path | None, format: str, output: Path
) -> None:
    """Run the experiments that were asked for, or all whose files are there.

    Raises:
        ArgumentError: there is no such experiment.
        ValueError: one that was asked for lacks a file.
    """
    settings = read_config(config)
    for name in experiments:
        find_experiment(settings, name)
    for name in experiments or settings["experiment"]:
        missing = [path for path in files_of(settings, find_experiment(settings, name), data) if not path.exists()]
        if missing:
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            message = f"{name}: missing {missing[0]}{more}; scripts/get_data says where data comes from"
            if experiments:
                raise ValueError(message)
            print(message, file=sys.stderr)
            continue
        reproduce(name, settings, Baselines(data, baseline_links), format, output)


def reproduce(name: str, config: dict[str, Any], baselines: Baselines, format: str, output: Path) -> None:
    """One experiment: its tables printed and written, its heat maps drawn."""
    experiment, data = find_experiment(config, name), baselines.data
    text = read_text(config, experiment["gold"], data)
    models, sweeps = [], []
    reverse_models = experiment.get("reverse_models") or [None] * len(experiment["models"])
    for names in zip(experiment["models"], reverse_models, strict=True):
        models.append(load_models(*names, data))
        sweeps.append(sweep(models[-1].forward, text.pairs, text.gold, models[-1].reverse))
    statistical, tools = of_baselines(experiment, config, baselines, text, models[0].forward.forward.recorder)
    counted = [*of_models(models, text, sweeps), *statistical]
    last = f"norm, both, {SOFT if experiment.get('reverse_models') else f'threshold {THRESHOLD:g}'}"
    default = next(system.name for system in counted if last in system.name)
    tables = {
        "layers": layer_rows(sweeps),
        "rules": rule_rows(sweeps),
        "comparisons": comparison_rows(sweeps),
        "systems": system_rows(counted, default, text),
        **({"seeds": seed_rows(counted)} if len(models) > 1 else {}),
    }
    used = [part for some in models for part in some.signature()]
    parts: dict[str, str | int | list[str] | None] = {
        "name": name,
        "gold": "+".join(text.names),
        "model": used,
        "tool": tools,
        "pieces": used[0] if tools and experiment.get("pieces") else None,
        "trained": "train+test" if tools else None,
        "ci": f"percentile-{SAMPLES}",
        "test": f"permutation-{PERMUTATIONS}",
        "seed": SEED,
    }
    sign = signature(parts, "reproduce")
    for table, (columns, rows) in tables.items():
        print(f"\n{name}, {table}\n")
        write_table(columns, rows, sign, output / f"{name}.{table}.tsv", format)
    mean = np.mean([100 * found.rates() for found in sweeps], axis=0)
    forward = [some.forward.forward.recorder.name for some in models]
    draw(mean, "AER", sweeps[0].cells[-1].layer, output / name, forward, len(text.pairs))
