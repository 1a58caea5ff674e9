"""The metadata of model cards, as the Hugging Face hub reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.models.folder import BUNDLED
from align.training.card import Card, Quality, describe, write_card
from align.training.prepare import Prepared
from align.training.recipe import read_recipe

LABELS = {"news": 3, "org/set-1": 2, "": 1, "a: b\n---": 1, "../x": 1, "deux mots": 1, "é": 1}


def made(languages: tuple[str, str], kept: dict[str, int]) -> Card:
    prepared = Prepared(Path("work"), kept, {}, train=7, valid=1_500, pieces=30)
    quality = Quality(1.0, 2.0, 21.94, "nrefs:1")
    return Card(languages, read_recipe("small"), 1, prepared, [], quality, [Path("checkpoint_best.pt")], "train", "")


def test_the_hub_reads_the_card_of_a_trained_model(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    (tmp_path / "checkpoint.pt").symlink_to(BUNDLED / "de-en" / "checkpoint.pt")
    write_card(tmp_path / "README.md", made(("deu_Latn", "no"), LABELS))
    card = hub.ModelCard.load(tmp_path / "README.md")
    assert card.data.to_dict() == describe(made(("deu_Latn", "no"), LABELS))
    assert (card.data.language, card.data.library_name) == (["de", "no"], "extract-align")
    assert card.data.datasets == ["news", "org/set-1"]
    assert card.data.license is None
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.metric_type, result.metric_value) == ("deu_Latn-no", "bleu", 21.9)
    assert result.dataset_name == "validation text, 1,500 pairs"
    assert card.text.startswith("\n# deu_Latn-no: a translation model")


def test_labels_that_are_numbers_in_yaml_1_2_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").symlink_to(BUNDLED / "de-en" / "checkpoint.pt")
    write_card(tmp_path / "README.md", made(("de", "en"), dict.fromkeys(("1e3", "0o17", "2014", "1e3x"), 1)))
    card = (tmp_path / "README.md").read_text(encoding="utf-8").splitlines()
    assert card[(first := card.index("datasets:") + 1) : first + 4] == ["- '0o17'", "- '1e3'", "- 1e3x", "- '2014'"]


def test_a_card_without_labels_names_no_data_sets() -> None:
    assert "datasets" not in describe(made(("de", "en"), {"": 7}))
