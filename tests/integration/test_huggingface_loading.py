"""What loading a Hugging Face model costs: memory for each parameter, and no mapped file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from align import ModelOptions, load
from tests.conftest import needs_int8
from tests.hub_models import find_model, write_model

SHAPE = {
    "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
}  # fmt: skip
PARAMETERS = 73_800_000
"""Of OPUS-MT's shape with 58,101 pieces."""

MEASURE = """
import sys, threading, time
from align.io.process import keep_freed_memory
keep_freed_memory()
import torch
from align import load
torch.set_num_threads(1)
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
peak = first = anonymous()
def watch():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.002)
threading.Thread(target=watch, daemon=True).start()
aligner = load(sys.argv[1], dtype=sys.argv[2], device="cpu")
print(peak - first, sum(sys.argv[1] in line for line in open("/proc/self/maps")))
"""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """OPUS-MT at its full width, as float32 and bfloat16 safetensors and as torch saved it."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    root = tmp_path_factory.mktemp("full")
    model = find_model("Helsinki-NLP/opus-mt-de-en")
    whole = root / "float32"
    whole.mkdir()
    model.text(whole, model)
    ids = {"pad_token_id": model.rows - 1, "decoder_start_token_id": model.rows - 1, "vocab_size": model.rows}
    config = AutoConfig.for_model("marian", **SHAPE, **ids, **model.settings)
    config.save_pretrained(whole)
    with torch.device("meta"):  # weights of 0 take as much memory as others, and no time to draw
        module: Any = AutoModelForSeq2SeqLM.from_config(config)
    assert sum(weight.numel() for weight in module.parameters()) == pytest.approx(PARAMETERS, rel=0.02)
    weights = {name: torch.zeros(weight.shape) for name, weight in module.named_parameters()}
    save_file(weights, whole / "model.safetensors")
    for name in ("bfloat16", "torch"):
        shutil.copytree(whole, root / name, ignore=lambda *_: ["model.safetensors"])
    save_file({name: weight.bfloat16() for name, weight in weights.items()}, root / "bfloat16" / "model.safetensors")
    torch.save(weights, root / "torch" / "pytorch_model.bin")
    yield root
    shutil.rmtree(root)


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("stored", "dtype", "bytes_each"),
    [pytest.param("float32", "int8", 1, marks=needs_int8), ("bfloat16", "bfloat16", 2), ("torch", "float32", 4)],
)
def test_memory_is_that_of_the_parameters(full: Path, stored: str, dtype: str, bytes_each: int) -> None:
    """At most 1.3 times the parameters in the number format of the model, and 220 MB for its text and for libraries.

    Nothing of the file stays mapped: a model that is replaced on disk must not end the process.
    """
    command = [sys.executable, "-c", MEASURE, str(full / stored), dtype]
    measured = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()
    assert int(measured[0]) < 1.3 * PARAMETERS * bytes_each + 220_000_000
    assert measured[1] == "0"


def test_tied_tables_are_one(tmp_path: Path) -> None:
    """In both formats, though torch saves a name for each side."""
    module, _ = write_model(find_model("facebook/m2m100_418M").with_pieces(1200), tmp_path)
    options = ModelOptions(source_lang="de", target_lang="en")
    for _ in range(2):
        transformer = load(tmp_path, options=options).forward.recorder.transformer  # type: ignore[attr-defined]
        assert transformer.encoder.embedding.pieces is transformer.decoder.embedding.pieces
        (tmp_path / "model.safetensors").unlink(missing_ok=True)
        torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
