"""Loss of a translation model's native module per sentence, with forced translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from align.analysis.models.native import own_model
from align.core.scores import PAD as PAD_WORD
from align.core.scores import collate
from align.core.types import Pieces
from align.models.engine.forward import Padded
from align.models.recorder import ModelRecorder


def sentence_losses(recorder: ModelRecorder, batch: Sequence[Pieces]) -> Tensor:
    """Return the cross-entropy of each target with its `</s>`, in nats, summed over its pieces `[B]`.

    Args:
        recorder: recorder of the model; its native module runs with the recorder's current weights, and gradients flow
            if enabled.
        batch: B pairs with pieces on both sides.
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
    """Return a module's log probabilities at each step `[B, T, V]`.

    Args:
        module: fairseq's TransformerModel, or an encoder-decoder of transformers.
        source: input of the encoder `[B, S]`.
        steps: input of the decoder `[B, T]`.
    """
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
