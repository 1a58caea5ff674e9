"""What lexical consistency picks in hard cases, beside the best there is: eval/results/EXPERIMENT.choosing.tsv.

    .venv/bin/python eval/run.py choosing --data DIR [--models MODEL ...]

Texts of few lines, and texts of which a share of the lines have another line's target, are drawn from the validation
text. What is picked from each is worth the AER on gold of the default reading there, input and output position joined.
The oracle is the lowest AER of all pairs of cells, chosen on that gold, and the stored calibration, which is read below
50 lines, what the model's folder says. Models are those of the experiment, and those of --models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
from common import Text, find_experiment, load_model, read_config, read_text, swapped, write_table
from doubts import shuffled
from numpy.typing import NDArray
from positions import readable
from torch import Tensor
from variants_table import turned as turn

import align
from align import Aligner, Direction, Pair, Settings
from align.core.backend import Recorder
from align.core.batching import BATCH_TOKENS, chunks, cut, encode
from align.core.choice import all_cells
from align.core.consistency import Vocabulary, lexical_consistency
from align.core.extraction import each_cell
from align.core.scores import both_positions
from align.core.settings import THRESHOLD
from align.core.soft import links_above, sharpen, soft_scores
from align.core.types import Cell, Place, Position
from align.evaluation.metrics import SEED, aer, count_all
from align.evaluation.sweep import Linked, link_all
from align.evaluation.swept import POSITIONS, SCORES
from align.evaluation.tables import Column, Value
from align.io.signature import signature

SIZES = (10, 20, 50, 200, 1000)
WRONG = (0.0, 0.1, 0.3, 0.5, 0.7)
DRAWS = 20


COLUMNS = [
    Column("model", "model"),
    Column("text", "chosen by"),
    Column("lines", "lines"),
    Column("draws", "draws"),
    Column("mean", "mean AER", 1),
    Column("worst", "worst", 1),
    Column("most", "most often"),
    Column("share", "% of draws", 0),
]


def consistencies(linked: Sequence[Linked], score: int, position: int) -> NDArray[np.float64]:
    """Lexical consistency of the best words in each cell `[C]`."""
    sources, targets = Vocabulary(), Vocabulary()
    found, words, lengths = [], [], [0]
    for one in linked:
        best = one.words[score, position]  # [C, J]
        found.append(np.where(best >= 0, best + lengths[-1], -1))
        words.append((sources.numbers(one.pair.source), targets.numbers(one.pair.target)))
        lengths.append(lengths[-1] + len(one.pair.source))
    source, target = (np.concatenate([sides[n] for sides in words]) for n in (0, 1))
    rows = np.concatenate(found, axis=1)  # [C, J]
    return np.array([lexical_consistency(source[row[row >= 0]], target[row >= 0], len(target)) for row in rows])


def pick(linked: Sequence[Linked], cells: Sequence[Cell]) -> Place:
    """The most consistent cell of either position."""
    score = SCORES.index("norm")
    best: dict[Position, Cell] = {
        position: cells[int(np.argmax(consistencies(linked, score, p)))] for p, position in enumerate(POSITIONS)
    }
    return Place(**best)


def rates_of(recorder: Recorder, text: Text, turned: bool) -> NDArray[np.float64]:
    """AER on gold of the default reading at each cell of the input and each of the output position `[C, C]`, in %."""
    cells = all_cells(recorder)
    encoded = [encode(recorder, pair) for pair in (swapped(text.pairs) if turned else text.pairs)]
    counts = np.zeros((len(cells), len(cells), 4), dtype=np.int64)
    for numbers, batch in cut(encoded, BATCH_TOKENS):
        gold = [text.gold[n] for n in numbers]
        parts = each_cell(recorder, batch, {"input": cells, "output": cells}, ["norm"], "eos")
        words: dict[tuple[Position, Cell], Tensor] = {
            (part.position, cell): part.words[:, c] for part in parts for c, cell in enumerate(part.cells)
        }
        for (a, read), (b, predicted) in product(enumerate(cells), enumerate(cells)):
            joined = both_positions(words["input", read], words["output", predicted])
            found = [frozenset(links) for links in links_above(soft_scores(sharpen(joined, "eos")), THRESHOLD)]
            counts[a, b] += count_all(turn(found) if turned else found, gold).sum(0)
    return 100 * aer(counts)


def rows_of(name: str, aligner: Aligner, text: Text, turned: bool, pairs: list[Pair]) -> Iterator[dict[str, Value]]:
    """A row for each share of wrong pairs and number of lines, after those of the oracle and of what is stored."""
    cells = all_cells(aligner.forward.recorder)
    rates = rates_of(aligner.forward.recorder, text, turned)

    def rate(place: Place) -> float:
        read, predicted = place.cells().values()
        return float(rates[cells.index(read), cells.index(predicted)])

    empty: dict[str, Value] = dict.fromkeys(column.key for column in COLUMNS)
    oracle = min((Place(*both) for both in product(cells, cells)), key=rate)
    yield empty | {"model": name, "text": "oracle", "mean": rate(oracle), "most": str(oracle)}
    if set(aligner.forward.calibration) >= {("norm", "input"), ("norm", "output")}:
        stored = Place(*(aligner.forward.calibration["norm", position] for position in POSITIONS))
        yield empty | {"model": name, "text": "stored", "mean": rate(stored), "most": str(stored)}
    for wrong in WRONG:
        random = Random(SEED)
        changed = shuffled(wrong)([*pairs, pairs[-1]], random)
        encoded = readable(aligner.forward.recorder, swapped(changed) if turned else changed)
        linked = [one for chunk in chunks(iter(encoded), aligner.buffer) for one in link_all(aligner, chunk) if one]
        for size in SIZES:
            draws = max(2, min(DRAWS, DRAWS * 200 // size))
            places = [pick(random.sample(linked, min(size, len(linked))), cells) for _ in range(draws)]
            found = [rate(place) for place in places]
            most, times = Counter(places).most_common(1)[0]
            yield {
                **{"model": name, "text": f"{wrong:.0%} wrong", "lines": size, "draws": draws},
                **{"mean": float(np.mean(found)), "worst": max(found), "most": str(most), "share": 100 * times / draws},
            }


def run(data: Path, config: Path, experiment: str, models: list[str], output: Path) -> None:
    """Choose, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    train = settings["train"][about["train"][0]]
    text = read_text(settings, about["gold"], data)
    source, target = (str(data / name) for name in train["valid"])
    valid = [pair for pair in align.read_text(source, target) if not pair.blank]
    rows: list[dict[str, Value]] = []
    names: list[str] = []
    for name in (about["models"][0], about["reverse_models"][0], *models):
        loaded = load_model(name, data, "cpu", too_long="blank")
        aligner = Aligner(
            Direction(loaded.forward.recorder, Settings(), calibration=loaded.forward.calibration), too_long="blank"
        )
        names.append(aligner.forward.recorder.name)
        rows += rows_of(
            Path(name).name, aligner, text, aligner.forward.recorder.languages != tuple(train["languages"]), valid
        )
    write_table(
        COLUMNS, rows, signature({"model": names, "seed": SEED}, "choosing"), output / f"{experiment}.choosing.tsv"
    )
