"""The loss of a translation model's own module, sentence by sentence, when it is given the translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from align.core.merging import PAD as PAD_WORD
from align.core.merging import collate
from align.core.types import Pieces
from align.models.engine.forward import Padded
from align.models.recorder import ModelRecorder


def sentence_losses(recorder: ModelRecorder, batch: Sequence[Pieces]) -> Tensor:
    """Cross-entropy of each target with its `</s>`, in nats, summed over its pieces `[B]`.

    Args:
        recorder: whose own module it is of, with the weights that this has now; gradients flow where they are on.
        batch: B pairs with pieces on either side.
    """
    module = recorder.own_model()
    collated = collate(batch, recorder.pad)
    logs = log_probabilities(module, *recorder.padded(collated))
    logs = logs[:, len(recorder.start) - 1 :]  # [B, T+1, V]
    there = (collated.target_words != PAD_WORD).to(logs.device)  # [B, T]
    lengths = there.sum(1, keepdim=True)  # [B, 1]
    ids = torch.nn.functional.pad(collated.target.to(logs.device), (0, 1))  # [B, T+1]
    ids = ids.scatter(1, lengths, end_of(module))
    counted = torch.arange(ids.shape[1], device=ids.device) <= lengths  # [B, T+1]
    return -(logs.gather(2, ids[..., None])[..., 0].double() * counted).sum(1)


def log_probabilities(module: Any, source: Padded, steps: Padded) -> Tensor:
    """What a module predicts at each step, logarithms of probabilities `[B, T, V]`.

    Args:
        module: fairseq's TransformerModel, or an encoder-decoder of transformers'.
        source: what the encoder reads `[B, S]`.
        steps: what the decoder reads `[B, T]`.
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
    """The id of `</s>` in a module's output."""
    of_fairseq = hasattr(module, "get_normalized_probs")
    end: int = module.decoder.dictionary.eos() if of_fairseq else module.config.eos_token_id
    return end
