"""Options of fairseq that a recipe may set: none that reads, writes or runs what a recipe names.

fairseq has hundreds of options, and each release adds more, so this is a list of allowed options. They define the
model, its training, its batches, when it is validated, when training ends and which checkpoints are kept. Excluded are
options that name files, folders, modules, sockets or services, options of the machine, and options that would make a
resumed training differ from an uninterrupted one: `patience` and `lr-patience`, which fairseq counts in memory only,
and `reset-...`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from align.core.errors import shorten, show_value

_SIDES = """
attention-heads embed-dim ffn-embed-dim layerdrop layers layers-to-keep learned-pos normalize-before
"""

_MODEL = """
arch activation-dropout activation-fn adaptive-input adaptive-softmax-cutoff adaptive-softmax-dropout
adaptive-softmax-factor attention-dropout checkpoint-activations cross-self-attention decoder-output-dim dropout
layernorm-embedding no-decoder-final-norm no-scale-embedding no-token-positional-embeddings quant-noise-pq
quant-noise-pq-block-size quant-noise-scalar relu-dropout share-all-embeddings share-decoder-input-output-embed
tie-adaptive-proj tie-adaptive-weights
"""

_LEARNING = """
criterion ignore-prefix-size label-smoothing report-accuracy clip-norm sentence-avg update-freq
optimizer adadelta-eps adadelta-rho adafactor-eps adam-betas adam-eps adamax-betas adamax-eps anneal-eps beta1
clip-threshold decay-rate fp16-adam-stats lamb-betas lamb-eps momentum no-bias-correction relative-step scale-parameter
use-old-adam warmup-init weight-decay
lr lr-scheduler decay-steps end-learning-rate epoch2lr final-lr-scale force-anneal hold-steps init-lr-scale
lr-deacy-period lr-decay lr-period-updates lr-shrink lr-threshold max-lr min-lr phase-ratio power shrink-min t-mult
total-num-update update2lr warmup-init-lr warmup-steps warmup-updates
fp16-init-scale fp16-scale-tolerance fp16-scale-window min-loss-scale threshold-loss-scale
"""

_BATCHES = """
batch-size batch-size-valid curriculum data-buffer-size left-pad-source left-pad-target max-sentences
max-sentences-valid max-tokens max-tokens-valid num-batch-buckets num-workers required-batch-size-multiple
required-seq-len-multiple skip-remainder-batch truncate-source update-ordered-indices-seed
"""

_COURSE = """
validate-after-updates validate-interval validate-interval-updates max-valid-steps fixed-validation-seed
eval-bleu eval-bleu-args eval-bleu-detok eval-bleu-detok-args eval-bleu-print-samples eval-bleu-remove-bpe
eval-tokenized-bleu best-checkpoint-metric maximize-best-checkpoint-metric
max-epoch max-update stop-min-lr stop-time-hours
keep-best-checkpoints keep-interval-updates keep-interval-updates-pattern keep-last-epochs no-epoch-checkpoints
save-interval save-interval-updates
"""

OPTIONS = frozenset(
    [*_MODEL.split(), *_LEARNING.split(), *_BATCHES.split(), *_COURSE.split()]
    + [f"{side}-{name}" for side in ("encoder", "decoder") for name in _SIDES.split()]
)
"""Names of the options, without dashes."""

_NEVER_RIGHT = re.compile(r"__|\$\{|[\x00-\x1f\x7f-\x9f]")
"""Python's special names, omegaconf's interpolations, control characters."""


def check_options(options: Mapping[str, Any]) -> None:
    """Check a recipe's [fairseq] table.

    Raises:
        ValueError: a recipe may not set the option, or the value is invalid for all options.
    """
    if foreign := [name for name in options if name not in OPTIONS]:
        raise ValueError(
            f"[fairseq] {shorten(', '.join(foreign))} is not for a recipe to set: a recipe says what the model is, "
            "how it learns, when it ends and which checkpoints are kept, by fairseq-train's options without dashes"
        )
    for name, value in options.items():
        if isinstance(value, str):
            _check_text(name, value)
        elif not (_is_number(value) or (isinstance(value, list) and all(map(_is_number, value)))):
            raise ValueError(
                f"[fairseq] {name} is {show_value(value)}, but must be text, a number, true, false or numbers in []"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _check_text(name: str, value: str) -> None:
    if match := _NEVER_RIGHT.search(value):
        raise ValueError(f"[fairseq] {name} is {show_value(value)}, but no option's value has {match[0]!r} in it")
    if value.startswith("-"):
        raise ValueError(
            f"[fairseq] {name} is {show_value(value)}, which fairseq would take for an option; write numbers plain"
        )
