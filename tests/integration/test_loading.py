"""From a model's name to an aligner and a translator: what is refused, and which backend is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from align import load
from align.backends.fairseq.translator import FairseqTranslator
from align.backends.model_folder import FAIRSEQ_FILES
from align.errors import ModelError
from align.loading import BACKENDS, Backend, load_translator
from align.types import Search
from tests import toy
from tests.known import KnownRecorder


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="dtype is one of float32, bfloat16; not 'float16'"):
        load(dtype="float16")


def test_the_recorders_name_tells_what_translates(tmp_path: Path) -> None:
    recorder = load(str(toy.save_model(tmp_path / "toy")), device="cpu").recorder
    translator = load_translator(recorder, Search(beam=2))
    assert isinstance(translator, FairseqTranslator)
    assert translator.search == Search(beam=2)
    with pytest.raises(ModelError, match="nothing translates with known: a backend is one of fairseq"):
        load_translator(KnownRecorder(), Search())


def test_a_backend_is_known_by_its_files_and_its_recorders_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.known").write_text("", encoding="utf-8")
    recorder = KnownRecorder()
    known = Backend(("*.known",), lambda folder, device, dtype: recorder, lambda *_: pytest.fail("nobody asked"))
    monkeypatch.setitem(BACKENDS, "known", known)
    for model in (tmp_path, tmp_path / "model.known"):
        assert str(load(str(model), layer=2, head=3).align("1 2 3", "3 1 2")) == "0-1 1-2 2-0"
    monkeypatch.setattr(recorder, "name", "other:1-2")
    with pytest.raises(ValueError, match="the recorder of backend known calls itself other:1-2"):
        load(str(tmp_path))
    assert BACKENDS["fairseq"].files == FAIRSEQ_FILES
