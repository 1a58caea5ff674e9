"""Where a Hugging Face model's weights come from: the hub's cache, and files of which there are several."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from align import load
from align.models.huggingface.files import read_weights
from tests import hugging
from tests.hostile.code import pickles
from tests.integration.test_huggingface import in_cache, links

NAME = "some/model"


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    """A tiny model."""
    hugging.save_model("marian", tmp_path / "marian")
    return tmp_path / "marian"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub's client, without a network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def in_parts(folder: Path) -> list[Path]:
    """Save a model's weights anew, in two files that torch writes and the index that names them."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = [folder / f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
    for n, part in enumerate(parts):
        torch.save({name: weights[name] for name in names[n::2]}, part)
    places = {name: parts[n % 2].name for n, name in enumerate(names)}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return parts


def test_what_torch_saved_in_parts(marian: Path, cache: Path) -> None:
    expected, weights = links(load(marian)), load_file(marian / "model.safetensors")
    parts = in_parts(marian)
    found = read_weights(marian / "pytorch_model.bin.index.json")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    in_cache(NAME, marian, cache)
    for model in (str(marian), str(marian / "pytorch_model.bin.index.json"), NAME):
        assert links(load(model)) == expected
    parts[1].unlink()
    with pytest.raises(ValueError, match=r"pytorch_model-00002-of-00002\.bin: no such file"):
        load(marian)


def test_what_torch_saved_in_parts_runs_no_code(marian: Path, tmp_path: Path) -> None:
    *_, last = in_parts(marian)
    for _, content in pickles(tmp_path / "mark"):
        last.write_bytes(content)
        with pytest.raises(ValueError, match=last.name):
            load(marian)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("place", ["../pytorch_model-1.bin", "a.safetensors"])
def test_parts_elsewhere_are_not_read(marian: Path, place: object) -> None:
    part, _ = in_parts(marian)
    part.rename(marian.parent / "pytorch_model-1.bin")
    (marian / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": place}}))
    with pytest.raises(ValueError, match="which is no file of weights next to it"):
        load(marian)


def test_parts_are_fetched_where_there_are_no_safetensors(
    marian: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, allow_patterns: list[str]) -> str:
        cache.mkdir(exist_ok=True)
        for file in marian.iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                (cache / file.name).write_bytes(file.read_bytes())
        return str(cache)

    expected = links(load(marian))
    parts = in_parts(marian)
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert links(load(NAME)) == expected
    assert {part.name for part in parts} <= {file.name for file in cache.iterdir()}
