"""`eval/run.py benchmark-huggingface`: both sides run the same model on the same batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from align import load
from align.core.batching import encode
from align.core.merging import PAD, collate
from tests.conftest import example_pairs
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def huggingface(door: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command's module, with models of its shapes that are small."""
    module = importlib.import_module("benchmark_huggingface")
    small = {"vocabulary": 4200, "layers": 3, "heads": 2, "width": 16, "hidden": 24}
    monkeypatch.setattr(module, "SHAPES", {name: shape._replace(**small) for name, shape in module.SHAPES.items()})
    return module


def test_table(data: Path, command: Callable[..., Result], huggingface: Any) -> None:
    text = ("-s", data / "gold.de", "-t", data / "gold.en")
    result = command("benchmark-huggingface", *text, "--lines", 20, "--rounds", 1, "--vocabulary", 4100)
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "benchmark_huggingface.tsv")
    assert sign.startswith("# python eval/run.py benchmark-huggingface -s gold.de -t gold.en --lines 20 --rounds 1 ")
    assert "marian of 4100 pieces (layer 1, all heads; output position: layer 2, all heads; last: layer 3" in sign
    assert sign[2:] in result.out
    assert [row["part"] for row in rows] == ["marian"] * 15 + ["nllb"] * 15
    assert all(float(row["value"]) > 0 for row in rows)
    found = {(row["part"], row["what"]): float(row["value"]) for row in rows}
    norm, weight = (found["nllb", f"links by {score}, last layer, int8 / forward pass"] for score in ("norm", "weight"))
    assert found["nllb", "links by norm / by weight, last layer, int8"] == pytest.approx(norm / weight, rel=0.01)


@pytest.mark.parametrize("name", ["marian", "nllb"])
def test_both_sides_run_the_same(name: str, huggingface: Any, tmp_path: Path) -> None:
    module, start = huggingface.save_model(huggingface.SHAPES[name], tmp_path)
    recorder = load(tmp_path, device="cpu").forward.recorder
    pieces = [one.pieces for pair in example_pairs()[:4] if (one := encode(recorder, pair)).pieces]
    inputs = huggingface.module_inputs(pieces, recorder.pad, start)
    module.set_attn_implementation("eager")
    own = module(**inputs, output_attentions=True, use_cache=False).cross_attentions[-1]
    batch = collate(pieces, recorder.pad)
    (found,) = recorder.record(batch, [3])
    kept = torch.nn.functional.pad(batch.target_words != PAD, (1, 0), value=True)
    rows = own[:, :, len(start) - 1 :].transpose(1, 2)[kept]
    torch.testing.assert_close(found.weights.transpose(1, 2)[kept], rows, rtol=0, atol=1e-5)


def test_an_unknown_shape_is_named(data: Path, command: Callable[..., Result]) -> None:
    result = command(
        "benchmark-huggingface", "-s", data / "gold.de", "-t", data / "gold.en", "--shapes", "marian", "huge"
    )
    assert (result.code, result.out) == (1, "")
    assert "shapes are marian, nllb; not 'huge'" in result.err
