"""Real checkpoints are read without a framework, and fairseq's own programs run on this Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from align.models.fairseq.checkpoint import load_checkpoint
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.models.saved import Inert
from tests import toy
from tests.conftest import example_pairs


@pytest.mark.parametrize("zipped", [True, False], ids=["as torch saves today", "as it did in 2019"])
def test_what_real_checkpoints_hold_beside_tensors_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    import numpy as np
    from fairseq.logging.meters import AverageMeter, StopwatchMeter, TimeMeter

    path = toy.save_model(tmp_path)
    state = load_checkpoint(path)
    state["extra_state"] = {
        "metrics": {"valid": [("_bleu_counts", np.array([1, 2, 3])), ("_bleu", np.float64(3.5))]},
        "train_meters": {"loss": AverageMeter(), "wps": TimeMeter(), "wall": StopwatchMeter()},
    }
    with monkeypatch.context() as patch:  # where fairseq had its meters in 2019
        meters: Any = ModuleType("fairseq.meters")
        meters.AverageMeter = type("AverageMeter", (), {"__module__": meters.__name__})
        patch.setitem(sys.modules, meters.__name__, meters)
        state["extra_state"]["wall"] = meters.AverageMeter()
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
    (_, counts), (_, bleu) = load_checkpoint(path)["extra_state"]["metrics"]["valid"]
    assert bleu == 3.5  # a number is of use to fairseq when it goes on from here, a bleu of n-gram counts is not
    assert type(counts) is Inert


def test_stock_programs_from_text_to_translations(tmp_path: Path, fairseq_programs: Path) -> None:
    """A model trained by fairseq itself, from the examples to links."""
    for name, side in (("de", "source"), ("en", "target")):
        sentences = [" ".join(getattr(pair, side)) for pair in example_pairs() if not pair.blank]
        (tmp_path / f"train.{name}").write_text("\n".join(sentences) + "\n", encoding="utf-8")

    def program(*arguments: str) -> str:
        command = [str(fairseq_programs / "fairseq_cli"), *arguments]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout

    pair = ("--source-lang", "de", "--target-lang", "en")
    program("preprocess", *pair, "--trainpref", "train", "--validpref", "train", "--destdir", "data", "--workers", "1")
    shape = "--arch transformer --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16"
    shape += " --encoder-attention-heads 2 --decoder-attention-heads 2"
    updates = "--optimizer adam --lr 0.01 --max-tokens 500 --max-update 3 --cpu --save-dir model --no-epoch-checkpoints"
    program("train", "data", *shape.split(), *updates.split())
    assert (tmp_path / "model" / "checkpoint_last.pt").is_file()
    common = ("data", "--path", "model/checkpoint_last.pt", "--cpu", "--max-tokens", "500")
    program("validate", *common, "--task", "translation", "--valid-subset", "valid")
    assert program("generate", *common, "--gen-subset", "valid", "--beam", "2", "--max-len-b", "5").count("\nH-") == 20

    folder = find_model(str(tmp_path / "model"), ModelOptions(dictionaries=tmp_path / "data"))
    recorder = load_fairseq(folder)
    assert (recorder.name[:14], recorder.layers, recorder.heads) == ("fairseq:de-en@", 1, 2)
