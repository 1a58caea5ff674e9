"""Programs with Hugging Face models: the bundled ones in that format give what the bundled ones give."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from align import ModelError
from align.cli import baseline, extract, sweep
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import BUNDLED
from examples.to_hugging_face import convert
from tests.cli.conftest import Result
from tests.conftest import EXAMPLES, ROOT, needs_fast_align

pytestmark = pytest.mark.usefixtures("one_thread")

NUMBER = re.compile(rb"(?<![\w.])\d+\.\d+(?![\w.])")


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both models."""
    folder = tmp_path_factory.mktemp("moved")
    for name in ("de-en", "en-de"):
        convert(name, folder / name)
    return folder


def test_two_directions(run_main: Callable[..., Result], moved: Path) -> None:
    result = run_main(extract.main, "-q", EXAMPLES, "-m", moved / "de-en", "--reverse-model", moved / "en-de")
    assert (result.code, result.err) == (0, "")
    assert result.out == run_main(extract.main, "-q", EXAMPLES, "--reverse-model", "en-de").out


@needs_fast_align
def test_pieces_for_a_statistical_aligner(run_main: Callable[..., Result], moved: Path) -> None:
    options = ("fast_align", EXAMPLES, "--threads", "1", "--pieces")
    ours, theirs = (run_main(baseline.main, *options, model) for model in ("de-en", moved / "de-en"))
    assert ours.code == theirs.code == 0
    assert ours.out == theirs.out
    assert "|pieces:huggingface:de-en@" in theirs.err


def test_a_model_that_cannot_be_converted_leaves_no_folder(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(BUNDLED / "de-en", model)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileExistsError):
        convert("de-en", tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        convert("de-en", tmp_path / "file" / "x")
    with pytest.raises(ModelError, match="no such"):
        convert(str(tmp_path / "nothing"), tmp_path / "out")
    state = load_checkpoint(model / "checkpoint.pt")
    damages: list[tuple[str, torch.Tensor | None, str]] = [
        ("encoder.layers.0.fc1.weight", None, "encoder.layers.0.fc1.weight"),
        ("decoder.embed_tokens.weight", torch.tensor(1.0), "not this model's dictionary"),
    ]
    for name, weight, message in damages:
        weights = {**state["model"], name: weight}
        weights = {key: value for key, value in weights.items() if value is not None}
        torch.save({**state, "model": weights}, model / "checkpoint.pt")
        with pytest.raises(ValueError, match=message):
            convert(str(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_program_converts_or_says_why_not(tmp_path: Path) -> None:
    program = [sys.executable, "examples/to_hugging_face.py"]
    subprocess.run([*program, "de-en", tmp_path / "moved"], cwd=ROOT, check=True)
    assert (tmp_path / "moved" / "model.safetensors").exists()
    result = subprocess.run(
        [*program, "de-en", tmp_path / "moved" / "model.toml"], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("examples/to_hugging_face.py: error: ")


def test_nothing_outside_of_the_folder_is_converted(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(BUNDLED / "de-en", model)
    (model / "dict...").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "de.spm").write_bytes(b"secret")
    text = (model / "model.toml").read_text(encoding="utf-8")
    (model / "model.toml").write_text(text.replace('source = "de"', 'source = "../secret/de"'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"model\.toml: '\.\./secret/de' is not a language code"):
        convert(str(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sweep(run_main: Callable[..., Result], moved: Path) -> None:
    gold = ("-g", ROOT / "examples" / "de-en.gold.talp")
    result = run_main(sweep.main, "-q", "-m", moved / "de-en", EXAMPLES, *gold)
    assert (result.code, result.err) == (0, "")
    *expected, _ = run_main(sweep.main, "-q", EXAMPLES, *gold).out.splitlines()
    *found, signature = result.out.splitlines()
    assert b"huggingface:de-en@" in signature
    assert [NUMBER.sub(b"0", line) for line in found] == [NUMBER.sub(b"0", line) for line in expected]
    numbers, wanted = ([float(n) for line in lines for n in NUMBER.findall(line)] for lines in (found, expected))
    assert numbers == pytest.approx(wanted, abs=2e-3)  # the last digits are the processor's
