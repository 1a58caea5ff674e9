"""Checkpoints are untrusted files, and fairseq's own programs run on this Python."""

from __future__ import annotations

import pickle
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


def test_damaged_and_other_files_are_refused_by_name(tmp_path: Path) -> None:
    whole = toy.save_model(tmp_path).read_bytes()
    path = tmp_path / "other.pt"
    for content in (whole[: len(whole) // 2], b"", b"plain text\n", pickle.dumps([1])):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"other\.pt: not a"):
            load_checkpoint(path)
    torch.save({"weights": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="weights alone, as Hugging Face models have them"):
        load_checkpoint(path)
    with pytest.raises(ValueError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "gone.pt")


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


def test_fairseq_imported_before_this_package_is_mended_all_the_same(tmp_path: Path) -> None:
    path = toy.save_model(tmp_path)
    script = "import align.training.compat as compat\n"
    script += "with compat._hashable_dataclasses():\n"

    script += "    import fairseq\n"
    script += "from align import load\n"
    script += f"print(load({str(path)!r}, layer=1, head=1).align('das haus', 'the house').pair.id)"
    result = python("-c", script)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "1"


def test_aligning_and_translating_do_without_frameworks(tmp_path: Path) -> None:
    path = toy.save_model(tmp_path)
    script = "from align import load, translate; import sys\n"
    script += f"aligner = load({str(path)!r}, layer=1, head=1)\n"
    script += "aligner.align('das haus', 'the house'), list(translate(aligner, ['das haus']))\n"
    script += "frameworks = ('fairseq', 'omegaconf', 'hydra', 'transformers', 'ctranslate2')\n"
    script += "print(any(name.partition('.')[0] in frameworks for name in sys.modules))"
    result = python("-c", script)
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr


def test_architectures_and_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = toy.save_model(tmp_path)
    for change, message in (
        ({"_name": "klingon", "arch": "klingon"}, r"cannot run this model \(klingon\)"),
        ({"_name": "\x1b[31m\n", "arch": "klingon"}, r"cannot run this model \(\\x1b\[31m\\n\)"),
        ({"encoder_layers": 3}, "weights and settings do not fit"),
    ):
        state = load_checkpoint(path)
        vars(state["cfg"]["model"]).update(change)
        torch.save(state, tmp_path / "changed.pt")
        with pytest.raises(ValueError, match=message):
            load_fairseq(find_model(str(tmp_path / "changed.pt"), ModelOptions()))


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, **options)


def test_stock_programs_preprocess_train_validate_and_generate(tmp_path: Path) -> None:
    """A model trained by fairseq itself, from the examples to links."""
    for name, side in (("de", "source"), ("en", "target")):
        sentences = [" ".join(getattr(pair, side)) for pair in example_pairs() if not pair.blank]
        (tmp_path / f"train.{name}").write_text("\n".join(sentences) + "\n", encoding="utf-8")

    def program(*arguments: str) -> str:
        result = python("-m", "align.fairseq_cli", *arguments, cwd=tmp_path)
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
