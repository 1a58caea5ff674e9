"""From a model's name to an aligner and a translator: what is refused, and which backend is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from align import load
from align.backends.model_folder import FAIRSEQ_FILES
from align.loading import BACKENDS, Backend
from tests.known import KnownRecorder


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="dtype is one of float32, bfloat16; not 'float16'"):
        load(dtype="float16")


def test_a_backend_is_known_by_its_files_and_its_recorders_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.known").write_text("", encoding="utf-8")
    recorder = KnownRecorder()
    known = Backend(("*.known",), lambda folder, device, dtype: recorder)
    monkeypatch.setitem(BACKENDS, "known", known)
    for model in (tmp_path, tmp_path / "model.known"):
        assert str(load(str(model), layer=2, head=3).align("1 2 3", "3 1 2")) == "0-1 1-2 2-0"
    monkeypatch.setattr(recorder, "name", "other:1-2")
    with pytest.raises(ValueError, match="the recorder of backend known calls itself other:1-2"):
        load(str(tmp_path))
    assert BACKENDS["fairseq"].files == FAIRSEQ_FILES
