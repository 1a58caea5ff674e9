"""No file of a model folder runs code, whichever way it tries."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from align import Aligner, Direction, ModelOptions, Settings
from align.core.errors import ModelError
from align.models.fairseq.model import load_fairseq
from align.models.folder import BUNDLED, find_model
from align.models.saved import Inert, load_saved
from align.training.compat import evaluate_literal
from tests import toy
from tests.hostile import code


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A sound model folder, where hostile ones are to lie, and the file that must not appear."""
    toy.save_model(tmp_path / "sound")
    return tmp_path / "sound", tmp_path / "hostile", tmp_path / "mark"


def test_no_variant_runs(places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sound, folder, mark = places
    tried, ran = [], []
    outcomes: Counter[str] = Counter()
    for name, damage in list(code.variants(folder, mark)):
        code.prepare(sound, folder, mark)
        damage()
        monkeypatch.chdir(folder)
        outcomes["refused"] += 1
        with suppress(ValueError):
            recorder = load_fairseq(find_model(str(folder), ModelOptions(source_lang="de", target_lang="en")))
            str(Aligner(Direction(recorder, Settings(layer=1, head=1))).align("das haus", "the house"))
            outcomes["refused"] -= 1
        tried.append(name)
        if mark.exists():
            ran.append(name)
    assert ran == []
    assert len(tried) >= 90
    assert 10 <= outcomes["refused"] < len(tried) - 10  # what is not needed is passed over, and the rest refused


def test_the_settings_would_run_in_fairseq_as_it_is(places: tuple[Path, Path, Path]) -> None:
    ran = code.run_unguarded(*places)
    assert {name.split()[0] for name in ran} >= {"transformer", "bart_base", "fconv", "lstm", "wav2vec"}
    assert len(ran) >= 15


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("transformer adaptive_softmax_cutoff namespace", "is not a number, a string, or a list of them"),
        ("plain pickle os.system", "Weights only load failed"),
    ],
)
def test_generate_runs_nothing_of_a_checkpoint(places: tuple[Path, Path, Path], case: str, message: str) -> None:
    _, folder, mark = places
    code.prepare(BUNDLED / "de-en", folder, mark)
    dict(code.variants(folder, mark))[case]()
    program = [sys.executable, "-m", "align.fairseq_cli", "generate", str(folder), "-s", "de", "-t", "en"]
    program += ["--path", str(folder / "checkpoint.pt"), "--cpu"]
    environment = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # which has no say here
    result = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode != 0
    assert message in result.stderr
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(0.9, 0.98)", (0.9, 0.98)),
        (" {'name': None, 'sizes': [-1, 2.5]}", {"name": None, "sizes": [-1, 2.5]}),
        ("True", True),
    ],
)
def test_literals_are_what_eval_makes_of_them(text: str, value: Any) -> None:
    assert evaluate_literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(
            "print(1)",
            "__import__('os')",
            "[1] * 10 ** 9",
            "[0] * 99999999",
            "2 ** 9999",
            "'a' * 10",
            "[i for i in ()]",
        ),
        *("(lambda: 1)()", "[1].append", "f'{1}'", "1 if 1 else 2", "(" * 500, "", "'a' + 'b'", "a", "-[1]"),
        *("\0", "[i for i in ()]", "0" * 200_000, "[1] * True", "[1] * -1.0", "[[1] * 99999] * 99999 + [2]"),
    ],
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a number|are too many for a setting"):
        evaluate_literal(text)


@pytest.mark.parametrize("value", [True, None, 3, ["1"], b"1"])
def test_what_is_no_string_is_a_type_error_as_with_eval(value: Any) -> None:
    with pytest.raises(TypeError):
        evaluate_literal(value)


def test_every_module_of_fairseqs_that_evaluates_has_the_other_eval() -> None:
    import fairseq.models.lightconv_lm
    import fairseq.optim.adam

    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq"):
            assert vars(module).get("eval") is evaluate_literal, name
    settings = Namespace(adam_betas="__import__('os').abort()", adam_eps=1e-8, weight_decay=0.0, lr=[0.1])
    adam = object.__new__(fairseq.optim.adam.FairseqAdam)
    adam.cfg = settings
    with pytest.raises(ValueError, match="is not a number, a string, or a list"):
        _ = adam.optimizer_config


def test_a_name_of_old_checkpoints_stands_for_no_class_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are checked, but only torch's restricted unpickler has inert objects for them."""
    from fairseq.logging import meters

    built = []

    class AverageMeter:
        def __setstate__(self, state: Any) -> None:
            built.append(state)

    AverageMeter.__module__, AverageMeter.__qualname__ = meters.__name__, "AverageMeter"
    monkeypatch.setattr(meters, "AverageMeter", AverageMeter)
    meter = AverageMeter()
    vars(meter)["val"] = 1.0
    torch.save({"meter": meter}, tmp_path / "old.pt")
    torch.load(tmp_path / "old.pt", weights_only=False)
    assert built == [{"val": 1.0}]
    assert isinstance(load_saved(tmp_path / "old.pt", lambda state, size: state, "a checkpoint")["meter"], Inert)
    assert len(built) == 1


class Allowed:
    """A class that the process has allowed for files of its own."""


def test_what_the_process_allows_for_other_files_is_not_built(tmp_path: Path) -> None:
    torch.save({"own": Allowed()}, tmp_path / "own.pt")
    with torch.serialization.safe_globals([Allowed]):
        torch.load(tmp_path / "own.pt", weights_only=True)
        with pytest.raises(ModelError, match=r"asks to run tests\.hostile\.test_code\.Allowed"):
            load_saved(tmp_path / "own.pt", lambda state, size: state, "a checkpoint")
        torch.load(tmp_path / "own.pt", weights_only=True)


def test_the_process_allows_no_more_than_before(places: tuple[Path, Path, Path]) -> None:
    class Own:
        pass

    torch.save(numpy.ones(2), places[0] / "counts.pt")
    registry: Any = torch.serialization
    registry.add_safe_globals([Own])
    before = set(registry.get_safe_globals())
    load_fairseq(find_model(str(places[0]), ModelOptions()))
    assert set(registry.get_safe_globals()) == before
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        torch.load(places[0] / "counts.pt", weights_only=True)
