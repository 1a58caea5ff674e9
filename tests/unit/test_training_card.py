"""The metadata of model cards, as the Hugging Face hub reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.models.folder import BUNDLED
from align.training.card import Quality, write_card
from align.training.prepare import Prepared
from align.training.recipe import read_recipe


def test_the_hub_reads_the_card_of_a_trained_model(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    (tmp_path / "checkpoint.pt").symlink_to(BUNDLED / "de-en" / "checkpoint.pt")
    languages, path = ("deu_Latn", "no"), tmp_path / "README.md"
    prepared = Prepared({"seen before": 2}, train=7, valid=1_500, pieces=30)
    quality, checkpoints = Quality(1.0, 2.0, 21.94, "nrefs:1"), [Path("checkpoint_best.pt")]
    write_card(path, languages, read_recipe("small"), 1, prepared, [], quality, checkpoints, "train", "")
    card = hub.ModelCard.load(path)
    assert (card.data.language, card.data.library_name) == (["de", "no"], "extract-align")
    assert card.data.license is None
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.metric_type, result.metric_value) == ("deu_Latn-no", "bleu", 21.9)
    assert result.dataset_name == "validation text, 1,500 pairs"
    assert card.text.startswith("\n# deu_Latn-no: a translation model")
    assert "| seen before | 2 |" in card.text
