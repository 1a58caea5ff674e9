"""One aligner for threads, processes and web servers: the examples as they stand, and how an aligner is pickled."""

from __future__ import annotations

import ast
import copy
import gc
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Cell, Choice, ModelError, ModelOptions, Place, load
from tests import toy
from tests.conftest import ROOT

PAIR = ("das haus ist alt", "the house is old")


@pytest.fixture
def toy_model(tmp_path: Path) -> Path:
    toy.save_model(tmp_path / "toy")
    return tmp_path / "toy"


def load_toy(model: Path | str, **options: Any) -> Aligner:
    return load(model, position="input", layer=1, head=1, device="cpu", **options)


def forget() -> None:
    """Make this process one that has loaded nothing yet, whatever other tests hold."""
    from align.models import recorder as again

    again._kept.clear()
    again._loaded.clear()


def test_pickled_is_the_path_and_the_same_process_has_the_model_already(toy_model: Path) -> None:
    aligner = replace(
        load_toy(toy_model, threshold=0.2),
        forward=replace(load_toy(toy_model, threshold=0.2).forward, choice=Choice(Place(Cell(1, 1)), "mine")),
        buffer=7,
    )
    expected = aligner.align(*PAIR)
    pickled = pickle.dumps(aligner)
    assert len(pickled) < 2000
    for same in (pickle.loads(pickled), copy.deepcopy(aligner), pickle.loads(pickle.dumps(aligner.align)).__self__):
        assert same.forward.recorder is aligner.forward.recorder
        expected_fields = (aligner.forward.settings, 7, aligner.forward.choice)
        assert (same.forward.settings, same.buffer, same.forward.choice) == expected_fields
        assert same.align(*PAIR) == expected


def test_where_the_model_is_not_loaded_yet_it_is_loaded_once(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    aligner = load_toy("toy", options=ModelOptions(case="lower", dictionaries=Path("toy")))
    name, expected, pickled = aligner.forward.recorder.name, aligner.align(*PAIR), pickle.dumps(aligner)
    del aligner
    forget()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    again = pickle.loads(pickled)
    assert again.forward.recorder.name == name
    assert again.align(*PAIR) == expected
    same = id(again.forward.recorder)
    del again
    gc.collect()
    assert id(pickle.loads(pickled).forward.recorder) == same


def test_another_model_in_the_same_place_is_refused(toy_model: Path) -> None:
    pickled = pickle.dumps(load_toy(toy_model))
    forget()
    toy.save_model(toy_model, {"decoder_layers": 1})
    with pytest.raises(ModelError, match=r"toy: (\w+:[\w-]+@)\w+ was pickled, but what is there now is \1"):
        pickle.loads(pickled)


def test_the_example_of_processes_prints_the_links_of_one() -> None:
    tree = ast.parse((ROOT / "examples" / "spawn.py").read_text(encoding="utf-8"))
    values = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    pairs = zip(*(ast.literal_eval(values[side]) for side in ("SOURCES", "TARGETS")), strict=True)
    command = [sys.executable, "examples/spawn.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [str(alignment) for alignment in load().fixed()(pairs)]
