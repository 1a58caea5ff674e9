"""Little text: models that were trained on 8,000 verses, an encoder, and statistical aligners.

All systems but the encoder read the experiment's training text and the text of its gold, without links. thot is used as
by the word alignment job of machine.py (Serval), except that words are those of the gold. Ensembles are means with
equal weights, at the default threshold. Nothing is chosen here.

"estimate" is what takes the place of AER in `extract-align eval --without-gold`: the error rate of the same sentences
against fast_align's links of the whole text. p is that of paired tests against eflomal and thot.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from align import Pair, load
from align.baselines.tools import REFERENCE, lower_case
from align.core.symmetrize import mean_links, share_of_directions
from align.core.types import THRESHOLD, Gold, Links
from align.evaluation.metrics import SAMPLES, SEED, compare, count_all, estimate
from align.evaluation.tables import Column, Value, percent
from align.io.signature import signature
from eval.baselines import Baseline, Baselines, read_kept, write_kept
from eval.common import (
    PERMUTATIONS,
    find_experiment,
    path_of,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    write_table,
)
from eval.encoder import models_of, soft_scores
from eval.reproduce import symmetrized

METHODS = ("intersection", "grow-diag-final-and")

THOT = ("hmm", "eflomal", "fast_align")
"""Its models; the job's default is the first."""

REFERENCES = {"eflomal": "eflomal: grow-diag-final-and", "thot": "thot, hmm: grow-diag-final-and"}
"""What p compares with."""


def thot_links(model: str, text: Sequence[Pair], pairs: Sequence[Pair], kept: Path | None) -> Baseline:
    """Train thot on a text, and return the links of pairs that both heuristics make of its two directions.

    Raises:
        ModuleNotFoundError: machine.py or thot is not installed.
    """
    if kept and kept.exists():
        return read_kept(kept, len(pairs))
    from machine.translation import SymmetrizedWordAlignmentModelTrainer
    from machine.translation.thot import ThotWordAlignmentModelTrainer, create_thot_symmetrized_word_alignment_model

    segments = [(pair.source, pair.target) for pair in map(lower_case, pairs)]
    found: list[list[Links]] = []
    with tempfile.TemporaryDirectory(prefix="align-") as name:
        folder = Path(name)
        files = folder / "source", folder / "target"
        for path, side in zip(files, ("source", "target"), strict=True):
            lines = (" ".join(getattr(pair, side)) for pair in map(lower_case, text))
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        models = folder / "direct", folder / "inverse"
        directions = zip((files, files[::-1]), models, strict=True)
        trainers = (ThotWordAlignmentModelTrainer(model, both, path) for both, path in directions)
        with SymmetrizedWordAlignmentModelTrainer(*trainers) as trainer:
            trainer.train()
            trainer.save()
        with create_thot_symmetrized_word_alignment_model(model, *models) as aligner:
            for aligner.heuristic in METHODS:
                links = (matrix.to_aligned_word_pairs() for matrix in aligner.align_batch(segments))
                found.append([frozenset((link.source_index, link.target_index) for link in pair) for pair in links])
    result = Baseline(
        f"thot:sil-thot-{version('sil-thot')},sil-machine-{version('sil-machine')}", [*zip(*found, strict=True)]
    )
    if kept:
        write_kept(result, kept)
    return result


def run(data: Path, config: Path, experiment: str, model: str, baseline_links: Path | None, output: Path) -> None:
    """Measure, print, write.

    Raises:
        ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    gold = read_text(settings, about["gold"], data)
    train = settings["train"][about["train"][0]]
    text = [*read_train(train, data), *gold.pairs]
    systems: dict[str, Sequence[Links]] = {}
    tools, partners = list[str](), {}
    for tool in about["baselines"]:
        try:
            described, directions = Baselines(data, baseline_links).align(tool, train, gold)
        except ModuleNotFoundError as error:
            print(f"without {tool}: {error}", file=sys.stderr)
            continue
        tools.append(described)
        partners[tool] = [share_of_directions(*both) for both in directions]
        systems |= {f"{tool}: {method}": symmetrized(directions)[method] for method in METHODS}
    try:
        for name in THOT:
            kept = baseline_links / f"thot-{name}-{experiment}.links" if baseline_links else None
            described, both = thot_links(name, text, gold.pairs, kept)
            systems |= {f"thot, {name}: {way}": [links[n] for links in both] for n, way in enumerate(METHODS)}
        tools.append(described)
    except ModuleNotFoundError as error:
        print(f"without thot: {error}", file=sys.stderr)
    encoder = load(model, device="cpu", too_long="blank")
    systems[model] = [alignment.links for alignment in encoder(gold.pairs)]
    names = [encoder.forward.recorder.name]
    forward, reverse = (path_of(about[key][0], data) for key in ("models", "reverse_models"))
    for aligner, name in models_of([(forward, reverse)]):
        names += [direction.recorder.name for direction in aligner.directions]
        soft = soft_scores(aligner, gold.pairs)
        for partner, scores in {"": None, **partners}.items():
            voices = ((one,) for one in soft) if scores is None else zip(soft, scores, strict=True)
            systems[f"{name}, {partner}".removesuffix(", ")] = [frozenset(mean_links(v, THRESHOLD)) for v in voices]
    counts = {name: count_all(links, gold.gold) for name, links in systems.items()}
    stand_in = [*map(Gold, *(systems.get(f"{REFERENCE}: {method}", ()) for method in METHODS))]  # as `reference_links`
    rows = []
    for name, links in systems.items():
        row: dict[str, Value] = {"system": name, **score_row(counts[name], gold, None)}
        del row["p"]
        for key, other in REFERENCES.items():
            row[f"p_{key}"] = None
            if name != other and other in counts:
                row[f"p_{key}"] = compare(counts[name], counts[other], "permutation", samples=PERMUTATIONS)[1]
        row["estimate"] = percent(estimate(count_all(links, stand_in), samples=0).value) if stand_in else None
        rows.append(row)
    columns = [Column("system", "system"), *score_columns(gold)[:-1]]
    columns += [Column(f"p_{key}", f"p, {key}", 4) for key in REFERENCES] + [Column("estimate", "estimate", 1)]
    parts: dict[str, Any] = {"gold": "+".join(gold.names), "model": list(dict.fromkeys(names)), "tool": tools}
    parts |= {"ci": f"percentile-{SAMPLES}", "test": f"permutation-{PERMUTATIONS}", "seed": SEED}
    write_table(columns, rows, signature(parts, experiment), output / f"{experiment}.tsv")
