"""What engines send to other processes: arguments without a model, which each process loads once."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from align import ModelError, ModelOptions, TableAligner, align_table, load, two_way
from align.jobs import table_aligner
from tests import toy
from tests.conftest import ROOT

pa = pytest.importorskip("pyarrow")

TABLE = pa.table({"id": [7, 8], "de": ["das haus ist alt", ""], "en": ["the house is old", "it"]})
COLUMNS: dict[str, Any] = {"source": "de", "target": "en", "id": "id"}


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    toy.save_model(tmp_path / "de-en")
    return tmp_path / "de-en", toy.save_reverse_model(tmp_path / "en-de")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are loaded from here on, in a process that has none yet."""
    names: list[str] = []

    def counted(model: str, **options: Any) -> Any:
        names.append(Path(model).name)
        return load(model, **options)

    monkeypatch.setattr(table_aligner, "load", counted)
    table_aligner._loaded.clear()
    return names


@pytest.mark.parametrize("options", [{"threshold": 0.2}, {"threshold": None, "method": "union", "links": "pharaoh"}])
def test_it_aligns_as_align_table_does(models: tuple[Path, Path], options: dict[str, Any]) -> None:
    threshold, method = options["threshold"], options.get("method", "soft")
    forward, reverse = (load(model, threshold=threshold, device="cpu") for model in models)
    both = two_way(forward, reverse, method, threshold=threshold or 0.5)
    columns = {**COLUMNS, "links": options.get("links", "structs")}
    for batch in (TABLE, TABLE.to_batches()[0]):
        found = TableAligner(models[0], reverse=models[1], device="cpu", **COLUMNS, **options)(batch)
        assert found.equals(align_table(TABLE, both, **columns))
        found = TableAligner(models[0], device="cpu", **COLUMNS, **options)(batch)
        assert found.equals(align_table(TABLE, forward, **columns))


def test_a_process_loads_its_models_once(models: tuple[Path, Path], loads: list[str]) -> None:
    aligner = TableAligner(models[0], reverse=models[1], device="cpu", **COLUMNS)
    assert loads == []
    before = pickle.dumps(aligner)
    found = aligner(TABLE)
    for again in (aligner, pickle.loads(before), copy.deepcopy(aligner), TableAligner(*models[:1], **COLUMNS)):
        again(TABLE)
    assert loads == ["de-en", "en-de", "de-en"]  # the last has no reverse model
    assert pickle.dumps(aligner) == before
    assert len(before) < 1000
    assert pickle.loads(before)(TABLE).equals(found)


def test_options_are_of_the_first_model(models: tuple[Path, Path], loads: list[str]) -> None:
    (models[0] / "dict.de.txt").rename(models[0].parent / "dict.de.txt")
    (models[0] / "dict.en.txt").rename(models[0].parent / "dict.en.txt")
    options = ModelOptions(dictionaries=models[0].parent)
    TableAligner(models[0], reverse=models[1], options=options, **COLUMNS)(TABLE)
    with pytest.raises(ModelError, match="dict"):
        TableAligner(models[0], **COLUMNS)(TABLE)


def test_threads_that_come_at_once_get_one_model(models: tuple[Path, Path], loads: list[str]) -> None:
    aligner, together = TableAligner(models[0], device="cpu", **COLUMNS), Barrier(3)

    def align(_: int) -> Any:
        together.wait(60)
        return aligner(TABLE)

    with ThreadPoolExecutor(3) as threads:
        first, *others = threads.map(align, range(3))
    assert all(other.equals(first) for other in others)
    assert loads == ["de-en"]


def test_only_so_many_are_kept(models: tuple[Path, Path], loads: list[str]) -> None:
    for layer in (1, 2):
        for null in ("eos", "mask", "none"):
            TableAligner(models[0], layer=layer, null=null, device="cpu", **COLUMNS)(TABLE)
    assert len(loads) == 6
    assert len(table_aligner._loaded) == table_aligner.MAX_LOADED


@pytest.mark.parametrize(
    ("reverse", "expected"), [(None, "de-en-fast"), ("en-de-fast", "de-en-fast"), ("en-de", "de-en")]
)
def test_the_default_model_suits_the_reverse_one(reverse: str | None, expected: str) -> None:
    aligner = table_aligner._loaded_once(*TableAligner(reverse=reverse, device="cpu")._models)
    recorder: Any = aligner.forward.recorder
    assert recorder.origin[0].root.name == expected


def test_what_can_be_checked_without_a_model_is() -> None:
    with pytest.raises(ValueError, match="links is one of structs, pharaoh; not 'both'"):
        TableAligner(links="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threshold is a number from 0 to 1 for the method soft"):
        TableAligner(reverse="en-de", threshold=None)


def test_what_the_models_refuse_is_said_by_the_first_call(models: tuple[Path, Path]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'beam'"):
        TableAligner(models[0], beam=5, **COLUMNS)(TABLE)
    with pytest.raises(ModelError, match="missing"):
        TableAligner(str(models[0] / "missing"), **COLUMNS)(TABLE)
    with pytest.raises(ValueError, match="the method is one of soft, "):
        TableAligner(models[0], reverse=models[1], method="best", **COLUMNS)(TABLE)


HASH = """
from functools import partial
from datasets.fingerprint import Hasher
from align import ModelOptions, TableAligner, align_table, load
made = TableAligner("de-en", reverse="en-de", layer=2, options=ModelOptions(case="lower"), source="de", id="id")
print(Hasher.hash(made), Hasher.hash(partial(align_table, aligner=load("de-en").fixed(), source="de")))
"""


def test_datasets_knows_it_again_in_another_process() -> None:
    hasher = pytest.importorskip("datasets.fingerprint").Hasher
    shown = subprocess.run([sys.executable, "-c", HASH], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    options: dict[str, Any] = {"layer": 2, "options": ModelOptions(case="lower"), "source": "de", "id": "id"}
    made = TableAligner("de-en", reverse="en-de", **options)
    with_aligner = partial(align_table, aligner=load("de-en").fixed(), source="de")
    assert shown.split() == [hasher.hash(made), hasher.hash(with_aligner)]
    assert hasher.hash(TableAligner("de-en", reverse="en-de", **{**options, "layer": 1})) != hasher.hash(made)
