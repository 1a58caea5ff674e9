"""Read a fairseq checkpoint from a file that torch saved."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import Tensor

from align.core.errors import ModelError
from align.models.recognise import HUGGING_FACE, OTHER_TOOLKIT
from align.models.saved.unpickle import NotWanted, load_saved, plain_weights


def load_checkpoint(path: Path, mapped: bool = False) -> dict[str, Any]:
    """Read a fairseq checkpoint on the CPU, with torch's restricted unpickler.

    Returns:
        The saved state: "model" (names to dense tensors of numbers) and "cfg" (a dict) or, before fairseq 0.10, "args"
        (a Namespace). The content of these two is as untrusted as the file: `model_settings` picks what is needed.

    Raises:
        ValueError: the file is missing or damaged, would run code, takes more memory than its size accounts for, or is
            not a fairseq checkpoint; the message names another format if it is recognised.
    """
    return load_saved(path, _checked, "a fairseq checkpoint", mapped)


def _checked(state: Any, size: int) -> dict[str, Any]:
    """Return the state after checking that its weights are plain tensors that fit into a file of this size."""
    weights = state.get("model") if isinstance(state, dict) else None
    configured = weights is not None and (
        isinstance(state.get("args"), argparse.Namespace) or isinstance(state.get("cfg"), dict)
    )
    if not (configured and isinstance(weights, dict)):
        if isinstance(state, dict) and {"opt", "vocab"} <= state.keys():
            raise ModelError("an OpenNMT-py model", remedy=OTHER_TOOLKIT)
        if isinstance(state, dict) and state and all(isinstance(weight, Tensor) for weight in state.values()):
            raise ModelError("weights alone, as Hugging Face models have them", remedy=HUGGING_FACE)
        raise NotWanted("no model with its configuration in it")
    return {**state, "model": plain_weights(weights, size)}
