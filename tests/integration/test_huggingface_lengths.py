"""Long lines and Hugging Face models: as many pieces as there are positions, whether these are weights or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from align import Search
from tests import hugging
from tests.integration.test_huggingface import change, open_model

pytest.importorskip("transformers")


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_a_line_that_is_too_long_for_any_kind_of_positions(tmp_path: Path, kind: str) -> None:
    hugging.save_model(kind, tmp_path)
    aligner = open_model(tmp_path, layer=1, head=1, output_layer=1, output_head=1)
    most, long = (1024, 1100) if kind in ("t5", "mt5") else (40, 50)
    starts = 2 if kind in ("bart", "m2m_100", "mbart-50") else 1  # of which one is counted with the pieces
    for pair, message in (
        (("das " * long, "the"), rf"source has [\d,]+ pieces with </s>, the model takes {most:,}: shorten it"),
        (("das", "the " * long), rf"target has [\d,]+ pieces with </s>, the model takes {most + 1 - starts:,}: "),
    ):
        with pytest.raises(ValueError, match=message):
            aligner.align(*pair)
        found = list(replace(aligner, too_long="blank")([pair, ("das", "the")]))
        assert [one.skipped for one in found] == ["too long", ""]


@pytest.mark.parametrize(("named", "most"), [(None, 1024), (600, 600), (10**6, 10_000)])
@pytest.mark.parametrize("kind", ["marian", "m2m_100", "t5"])
def test_as_many_positions_as_the_settings_say_within_reason(
    tmp_path: Path, kind: str, named: int | None, most: int
) -> None:
    hugging.save_model(kind, tmp_path)
    change(tmp_path, "config.json", max_position_embeddings=named)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "embed_positions" not in name}  # computed for 40
    save_file(kept, tmp_path / "model.safetensors")
    recorder: Any = open_model(tmp_path).forward.recorder
    assert recorder.max_positions == (most, most + 1 - len(recorder.start))
    assert recorder.translator(Search(), 1000).longest == most
