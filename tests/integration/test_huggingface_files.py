"""Where a Hugging Face model's weights come from: the hub's cache, and files of which there are several."""

from __future__ import annotations

from pathlib import Path

import pytest

from align import load
from tests import hugging
from tests.integration.test_huggingface import in_cache

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


def test_a_cache_that_holds_no_weights(marian: Path, cache: Path) -> None:
    (marian / "model.safetensors").unlink()
    in_cache(NAME, marian, cache)
    with pytest.raises(ValueError, match=r"^some/model: no weights \(.*: fetch it .*: hf download some/model$"):
        load(NAME)
