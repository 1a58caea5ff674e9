"""Frameworks' own modules: which there are, and what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from align import load
from align.analysis.models.native import own_model
from tests import hugging


def test_a_module_of_transformers_needs_version_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hugging.save_model("marian", tmp_path)
    import transformers  # which replaces its entry in sys.modules when it is first used

    recorder: Any = load(tmp_path).forward.recorder
    with monkeypatch.context() as patched:
        patched.setattr(transformers, "__version__", "4.57.1")
        with pytest.raises(ModuleNotFoundError, match=r"transformers 4\.57\.1 is .* needs 5 or later"):
            own_model(recorder)
    assert own_model(recorder) is own_model(recorder)
