"""Load a checkpoint into fairseq's own modules.

fairseq is imported and patched only here and in the plugin.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.core.errors import ModelError, one_line
from align.core.types import Dtype
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.folder import ModelFolder
from align.training.compat import install


def load_own_model(folder: ModelFolder, languages: Sequence[str], device: str = "cpu", dtype: Dtype = "float32") -> Any:
    """Load a checkpoint into fairseq's own modules."""
    install()
    import fairseq  # noqa: F401  (first: if it is missing, nothing else matters)
    from fairseq.data import Dictionary

    state = load_checkpoint(folder.checkpoint)
    paths = [folder.dictionary(language) for language in languages]
    dictionaries = [Dictionary.load(StringIO(path.read_text(encoding="utf-8"))) for path in paths]
    model = _build(saved_settings(state), dictionaries, state["model"], folder.checkpoint)
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    return model.eval().requires_grad_(False).to(device=device, dtype=kind)


def _build(saved: Any, dictionaries: Sequence[Any], weights: dict[str, Tensor], checkpoint: Path) -> Any:
    from fairseq import models

    settings = model_settings(saved, weights)
    if _model_class(settings.arch) is None:
        name = settings.arch or "without a name"
        message = f"fairseq cannot build this model ({name}): no Transformer for translation"
        raise ModelError(message, file=str(checkpoint))
    task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
    try:
        model = models.build_model(settings, task)
        model.load_state_dict(weights, strict=True, model_cfg=settings)
    except Exception as error:  # unusual settings make fairseq raise any exception
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error)):
            raise
        message = f"fairseq cannot build this model ({settings.arch}): {one_line(error)}"
        raise ModelError(message, file=str(checkpoint)) from None
    return model


def _model_class(architecture: str | None) -> type | None:
    """Return the class that fairseq builds for an architecture, if it is one of those that this package trusts.

    Other classes evaluate their settings, or open files that the settings name.
    """
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.models.bart import BARTModel
    from fairseq.models.transformer import TransformerModel
    from fairseq.models.transformer_align import TransformerAlignModel

    model_class: type | None = ARCH_MODEL_REGISTRY.get(architecture)
    return model_class if model_class in (TransformerModel, BARTModel, TransformerAlignModel) else None
