"""How well the guided head of Marian students aligns, by the links that guided it; `recipes/guided.py` trains them.

For each student saved in FOLDER: the cross-entropy of the validation text that Marian printed then, in nats per piece;
the AER of its guided head, the first of the last layer, by the best weight of each target word, as `hard` alignment of
Marian shows it for pieces; and that of the layers and heads, positions and norms that extract-align chooses itself. p
is that of a paired test against the student that was guided by eflomal's links for as many updates.
"""

from __future__ import annotations

import re
from functools import partial
from importlib.metadata import version
from pathlib import Path

from align import Aligner, load
from align.evaluation.metrics import Counts, count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.model_toml import ModelOptions
from eval.common import find_experiment, read_config, read_text, score_columns, score_row, write_table

RIVAL = "eflomal"
"""Whose student the others are compared with."""


def readings(model: Path) -> dict[str, Aligner]:
    """Return a student read at its guided head, and as it is by default without a link scorer."""
    options = ModelOptions(source_lang="de", target_lang="en", case="lower", tokenizer="moses")
    read = partial(load, model, options=options, device="cpu", too_long="blank", scorer=None)
    chosen = read()
    last = chosen.forward.recorder.layers
    guided = read(score="weight", position="output", layer=last, head=1, threshold=None)
    return {"guided head": guided, "chosen": chosen}


def losses(log: Path) -> dict[int, float]:
    """Return the cross-entropy per piece of each validation of Marian, by the number of updates before it."""
    validations = re.findall(r"Up\. (\d+) : ce-mean-words : ([0-9.]+)", log.read_text(encoding="utf-8"))
    return {int(updates): float(loss) for updates, loss in validations}


def run(folder: Path, data: Path, config: Path, experiment: str, output: Path) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    text = read_text(settings, find_experiment(settings, experiment)["gold"], data)
    counts: dict[tuple[int, str, str], Counts] = {}
    for model in sorted(folder.glob("*/model.iter*.npz")):
        updates = int(model.suffixes[0].removeprefix(".iter"))
        for name, aligner in readings(model).items():
            links = [alignment.links for alignment in aligner(text.pairs)]
            counts[updates, name, model.parent.name] = count_all(links, text.gold)
    rows: list[dict[str, Value]] = []
    for (updates, name, links_of), count in sorted(counts.items(), key=lambda item: item[0]):
        loss = losses(folder / links_of / "valid.log")[updates]
        row: dict[str, Value] = {"updates": updates, "read": name, "links": links_of, "loss": f"{loss:.3f}"}
        rival = counts.get((updates, name, RIVAL))
        rows.append(row | score_row(count, text, None if links_of == RIVAL else rival))
    columns = [*(Column(name, name) for name in ("updates", "read", "links", "loss")), *score_columns(text)]
    pairs = (folder / "train.de").read_text(encoding="utf-8").count("\n")
    sign = signature({"gold": "+".join(text.names), "pairs": pairs, "pymarian": version("pymarian")}, "guided")
    write_table(columns, rows, sign, output / "guided.tsv")
