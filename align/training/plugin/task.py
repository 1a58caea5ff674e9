"""A translation task with fast training on CPUs, and with word alignments of its translations."""

import functools
import json
import logging
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import get_data_parallel_world_size
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II, DictConfig, OmegaConf, open_dict
from torch.nn.attention import SDPBackend, sdpa_kernel

from align.core.types import Settings
from align.io.process import keep_freed_memory
from align.training.plugin.lighter import lighten
from align.training.plugin.words import WordAligner

NAME = "translation_align"
EVERY = 1.0  # least number of seconds between two lines of progress

_progress = logging.getLogger("progress")


@dataclass
class TranslationAlignConfig(TranslationConfig):
    """fairseq's options for translation, and ours."""

    cpu_bf16: bool = field(
        default=False, metadata={"help": "on a CPU, do the matrix products of training steps in bfloat16"}
    )
    align_progress: bool = field(default=False, metadata={"help": "log the number of updates, at most once a second"})
    align_layer: Optional[int] = field(  # noqa: UP045  (fairseq reads the type's name)
        default=None, metadata={"help": "decoder layer to read word alignments from, from 1; required for alignments"}
    )
    align_head: str = field(default="all", metadata={"help": "its head, from 1, or all of them together"})
    align_score: str = field(default="norm", metadata={"help": "norm (of the weighted vectors) or weight"})
    align_position: str = field(
        default="input", metadata={"help": "align a word by the step that reads it (input) or predicts it (output)"}
    )
    align_null: str = field(
        default="eos",
        metadata={"help": "eos: words whose best match is </s> stay unaligned; mask: attention without </s>; none"},
    )
    write_alignment: Optional[str] = field(  # noqa: UP045
        default=None, metadata={"help": "file for the word alignments of what is validated, one A- line for each pair"}
    )
    align_subwords: Optional[str] = II("common_eval.post_process")  # noqa: UP045
    align_subsets: str = II("dataset.valid_subset")


@register_task(NAME, dataclass=TranslationAlignConfig)
class TranslationAlignTask(TranslationTask):
    """fairseq's translation task with word alignments.

    With `--print-alignment`, fairseq's `A-` lines contain alignments of words instead of pieces, computed under teacher
    forcing after the search. With `--write-alignment`, validation writes these lines for the references.
    """

    def __init__(self, cfg: Any, source_dictionary: Any, target_dictionary: Any) -> None:
        super().__init__(cfg, source_dictionary, target_dictionary)
        keep_freed_memory()
        self._began_writing = False
        self._logged = 0.0
        if cfg.write_alignment:
            _settings(cfg)
            if "," in cfg.align_subsets:
                raise ValueError(f"--write-alignment takes one of the subsets {cfg.align_subsets} at a time")

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build fairseq's model, with lighter training steps."""
        model = super().build_model(cfg, from_checkpoint)
        lighten(model)
        return model

    def train_step(self, sample: Any, *args: Any, **kwargs: Any) -> Any:
        """Run fairseq's training step, in the fast settings of this device; log the progress, if requested."""
        if self.cfg.align_progress and (now := time.monotonic()) >= self._logged + EVERY:
            self._logged = now
            _progress.info(json.dumps({"updates": kwargs["update_num"], "seconds": now}))
        device = sample["target"].device.type if sample else "cpu"
        if device != "cpu":
            return super().train_step(sample, *args, **kwargs)
        # the backward pass of fused attention is slow on short sentences
        with sdpa_kernel(SDPBackend.MATH), torch.autocast("cpu", torch.bfloat16, enabled=self.cfg.cpu_bf16):
            return super().train_step(sample, *args, **kwargs)

    def build_generator(self, models: Any, args: Any, seq_gen_cls: Any = None, **kwargs: Any) -> Any:
        """Build fairseq's generator; to print alignments, its standard one with a word aligner attached."""
        requested = getattr(args, "print_alignment", None)
        if not requested:
            return super().build_generator(models, args, seq_gen_cls, **kwargs)
        if requested == "soft":
            raise ValueError(
                f"--task {NAME} prints hard alignments of words only; extract-align --print-scores has shares"
            )
        if len(models) > 1:
            raise ValueError(f"alignments are read off one model, and --path names {len(models)}")
        generator = super().build_generator(models, args, seq_gen_cls or SequenceGenerator, **kwargs)
        generator.word_aligner = self._word_aligner(models[0])
        generator.printed = getattr(args, "nbest", 1)
        return generator

    def inference_step(
        self, generator: Any, models: Any, sample: Any, prefix_tokens: Any = None, constraints: Any = None
    ) -> Any:
        """Run fairseq's step; add word alignments to the hypotheses that will be printed, if requested."""
        beams = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if getattr(generator, "word_aligner", None):
            best = [hypotheses[: generator.printed] for hypotheses in beams]
            rows = zip(sample["net_input"]["src_tokens"], best, strict=True)
            sources = [row for row, hypotheses in rows for _ in hypotheses]
            printed = list(chain.from_iterable(best))
            alignments = generator.word_aligner(sources, [hypothesis["tokens"] for hypothesis in printed])
            for hypothesis, alignment in zip(printed, alignments, strict=True):
                hypothesis["alignment"] = list(alignment)
        return beams

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """Start a validation, whose alignments overwrite those of the previous one."""
        super().begin_valid_epoch(epoch, model)
        self._began_writing = False

    def valid_step(self, sample: Any, model: Any, criterion: Any) -> Any:
        """Run fairseq's step; then write alignments of sources and references, if requested."""
        result = super().valid_step(sample, model, criterion)
        if not self.cfg.write_alignment:
            return result
        if get_data_parallel_world_size() > 1:
            raise ValueError("--write-alignment: several processes cannot write one file; validate with one")
        if not self._began_writing:  # weights do not change during a validation
            self._aligner = self._word_aligner(model)
        alignments = self._aligner(sample["net_input"]["src_tokens"], sample["target"])
        with open(self.cfg.write_alignment, "a" if self._began_writing else "w", encoding="utf-8") as out:
            for number, alignment in zip(sample["id"].tolist(), alignments, strict=True):
                out.write(f"A-{number}\t{alignment}\n")
        self._began_writing = True
        return result

    def _word_aligner(self, model: Any) -> WordAligner:
        name = f"the {self.cfg.source_lang}-{self.cfg.target_lang} model"
        dictionaries = self.source_dictionary, self.target_dictionary
        return WordAligner(model, dictionaries, self.cfg.align_subwords, _settings(self.cfg), name)


def _settings(cfg: Any) -> Settings:
    if cfg.align_layer is None:
        raise ValueError(
            "alignments need --align-layer N, and perhaps --align-head N: extract-align prints the layer and "
            "head that lexical consistency picks for a model"
        )
    head: Any = cfg.align_head
    if head != "all":
        if not head.isdecimal():
            raise ValueError(f"--align-head must be a number from 1, or all; got {head!r}")
        head = int(head)
    if cfg.align_position == "both":
        raise ValueError("--align-position is input or output: layer and head of both are chosen by extract-align only")
    return Settings(
        score=cfg.align_score,
        position=cfg.align_position,
        layer=cfg.align_layer,
        head=head,
        null=cfg.align_null,
        threshold=None,
    )


def let_validation_choose_this_task() -> None:
    """Make `fairseq-validate --task translation_align` use this task, whichever task a checkpoint was trained with.

    fairseq-validate takes the task from the checkpoint, and uses command-line options only if the checkpoint has them.
    A second call has no effect.
    """
    overwrite = checkpoint_utils.overwrite_args_by_name
    if hasattr(overwrite, "__wrapped__"):
        return
    known, ours = TranslationConfig.__dataclass_fields__, TranslationAlignConfig.__annotations__

    @functools.wraps(overwrite)
    def overwrite_and_choose(cfg: DictConfig, overrides: dict[str, Any]) -> None:
        overwrite(cfg, overrides)
        if overrides.get("task") == NAME and isinstance(cfg.get("task"), DictConfig):
            saved: Any = OmegaConf.to_container(cfg.task, resolve=False)
            task = {name: value for name, value in saved.items() if name in known}
            with open_dict(cfg):
                cfg.task = {**task, **{name: overrides[name] for name in ours if name in overrides}, "_name": NAME}

    checkpoint_utils.overwrite_args_by_name = overwrite_and_choose
