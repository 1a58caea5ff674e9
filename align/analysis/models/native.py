"""A translation model as its framework's own module, which can be trained, and whose gradients are known; its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from align.core.errors import ModelError
from align.core.scores import PAD as PAD_WORD
from align.core.scores import collate
from align.core.types import Pieces
from align.models.engine.forward import Padded
from align.models.recorder import ModelRecorder

_modules: WeakKeyDictionary[ModelRecorder, Any] = WeakKeyDictionary()
"""Modules by the recorders of the same models."""


def own_model(recorder: ModelRecorder) -> Any:
    """Return the module of a recorder's model; the first call loads it, later ones return the same object.

    Raises:
        ValueError: there is no such module, or the framework cannot build it.
    """
    if recorder not in _modules:
        folder, device, dtype = recorder.origin
        if recorder.backend == "fairseq":
            from align.analysis.models.native_fairseq import load_own_model as load_fairseq

            _modules[recorder] = load_fairseq(folder, recorder.languages, device, dtype)
        elif recorder.backend == "huggingface":
            from align.analysis.models.native_transformers import load_own_model as load_huggingface

            _modules[recorder] = load_huggingface(folder, device, dtype)
        else:
            raise ModelError("models of this format have no module that can be trained here", file=recorder.name)
    return _modules[recorder]


def sentence_losses(recorder: ModelRecorder, batch: Sequence[Pieces]) -> Tensor:
    """Return the cross-entropy of each target with its `</s>`, in nats, summed over its pieces `[B]`.

    The recorder's native module runs with its current weights, and gradients flow if enabled.
    """
    module = own_model(recorder)
    collated = collate(batch, recorder.pad)
    logs = log_probabilities(module, *recorder.padded(collated))
    logs = logs[:, len(recorder.start) - 1 :]  # [B, T+1, V]
    real = (collated.target_words != PAD_WORD).to(logs.device)  # [B, T]
    lengths = real.sum(1, keepdim=True)  # [B, 1]
    ids = torch.nn.functional.pad(collated.target.to(logs.device), (0, 1))  # [B, T+1]
    ids = ids.scatter(1, lengths, end_of(module))
    counted = torch.arange(ids.shape[1], device=ids.device) <= lengths  # [B, T+1]
    return -(logs.gather(2, ids[..., None])[..., 0].double() * counted).sum(1)


def log_probabilities(module: Any, source: Padded, steps: Padded) -> Tensor:
    """Return the log probabilities of a module of fairseq or transformers at each step `[B, T, V]`."""
    if hasattr(module, "get_normalized_probs"):  # fairseq's
        output = module(source.ids, source.kept.sum(1), steps.ids)
        logs: Tensor = module.get_normalized_probs(output, log_probs=True)
        return logs
    output = module(
        input_ids=source.ids, attention_mask=source.kept.long(), decoder_input_ids=steps.ids, use_cache=False
    )
    logits: Tensor = output.logits
    return logits.log_softmax(-1)


def end_of(module: Any) -> int:
    """Return the id of `</s>` in a module's output."""
    of_fairseq = hasattr(module, "get_normalized_probs")
    end: int = module.decoder.dictionary.eos() if of_fairseq else module.config.eos_token_id
    return end
