"""`eval/run.py choosing`: what is picked is what the library picks, and the oracle is the best of all."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Settings, load
from align.core.batching import encode
from align.core.choice import all_cells
from align.evaluation.sweep import link_all
from tests import corpora
from tests.eval.conftest import Result, read_table
from tests.eval.test_variants import rate

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_is_picked_and_the_best_there_is(data: Path, command: Callable[..., Result]) -> None:
    options = ("--data", data, "--config", data / "experiments.toml", "--experiment", "toy")
    result = command("choosing", *options, "--models", "models/two")
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.choosing.tsv")
    assert sign.startswith("# choosing|fairseq:de-en@")
    assert sign[2:] in result.out
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["one", "back", "two"]
    text = corpora.word_by_word(360)[:60]
    aligner = load(data / "models" / "one", device="cpu")
    cells = all_cells(aligner.forward.recorder)
    rates = [
        rate(
            replace(
                aligner,
                forward=replace(
                    aligner.forward,
                    settings=Settings(layer=a.layer, head=a.head, output_layer=b.layer, output_head=b.head),
                ),
            )(text)
        )
        for a, b in product(cells, cells)
    ]
    mine = [row for row in rows if row["model"] == "one"]
    assert mine[0]["text"] == "oracle"
    assert float(mine[0]["mean"]) == min(map(float, rates))
    assert all(float(row["mean"]) >= float(mine[0]["mean"]) for row in mine)
    whole = next(row for row in mine if (row["text"], row["lines"]) == ("0% wrong", "200"))  # of which there are 60
    assert whole["mean"] == rate(aligner(text))


def test_a_place_is_picked_as_an_aligner_picks_it(data: Path, door: Any) -> None:
    choosing = importlib.import_module("choosing")
    aligner: Aligner = load(data / "models" / "two", device="cpu")
    encoded = [encode(aligner.forward.recorder, pair) for pair in corpora.word_by_word(80)]
    linked = [one for one in link_all(aligner, encoded) if one]
    assert choosing.pick(linked, all_cells(aligner.forward.recorder)) == aligner.forward.choose(encoded).place
