"""A translation task that trains fast on CPUs, and whose translations come with word alignments."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch.nn.attention import SDPBackend, sdpa_kernel

from align.memory import keep_freed_memory


@dataclass
class TranslationAlignConfig(TranslationConfig):
    """fairseq's options for translation, and ours."""

    cpu_bf16: bool = field(
        default=False, metadata={"help": "on a CPU, do the matrix products of training steps in bfloat16"}
    )


@register_task("translation_align", dataclass=TranslationAlignConfig)
class TranslationAlignTask(TranslationTask):
    """fairseq's translation task."""

    def __init__(self, cfg: Any, source_dictionary: Any, target_dictionary: Any) -> None:
        super().__init__(cfg, source_dictionary, target_dictionary)
        keep_freed_memory()

    def train_step(self, sample: Any, *args: Any, **kwargs: Any) -> Any:
        """Fairseq's own, in what makes it fast on this device."""
        device = sample["target"].device.type if sample else "cpu"
        with _fast(device, self.cfg.cpu_bf16):
            return super().train_step(sample, *args, **kwargs)


@contextmanager
def _fast(device: str, narrow: bool) -> Iterator[None]:
    """On a CPU: no fused attention, whose backward pass is slow on short sentences, and bfloat16 if asked for."""
    if device != "cpu":
        yield
        return
    with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        yield
