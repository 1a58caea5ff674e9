"""Training recipes: one TOML file with everything that decides the result of a training run, except the text."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.core.errors import shorten, show_value
from align.models.model_toml import check_names, parse_toml
from align.models.preprocess import CASES, TOKENIZERS

if TYPE_CHECKING:
    from importlib.abc import Traversable


_SIDES = """
attention-heads embed-dim ffn-embed-dim layerdrop layers layers-to-keep learned-pos normalize-before
"""

_OPTIONS = """
arch activation-dropout activation-fn adaptive-input adaptive-softmax-cutoff adaptive-softmax-dropout
adaptive-softmax-factor attention-dropout checkpoint-activations cross-self-attention decoder-output-dim dropout
layernorm-embedding no-decoder-final-norm no-scale-embedding no-token-positional-embeddings quant-noise-pq
quant-noise-pq-block-size quant-noise-scalar relu-dropout share-all-embeddings share-decoder-input-output-embed
tie-adaptive-proj tie-adaptive-weights

criterion ignore-prefix-size label-smoothing report-accuracy clip-norm sentence-avg update-freq
optimizer adadelta-eps adadelta-rho adafactor-eps adam-betas adam-eps adamax-betas adamax-eps anneal-eps beta1
clip-threshold decay-rate fp16-adam-stats lamb-betas lamb-eps momentum no-bias-correction relative-step scale-parameter
use-old-adam warmup-init weight-decay
lr lr-scheduler decay-steps end-learning-rate epoch2lr final-lr-scale force-anneal hold-steps init-lr-scale
lr-deacy-period lr-decay lr-period-updates lr-shrink lr-threshold max-lr min-lr phase-ratio power shrink-min t-mult
total-num-update update2lr warmup-init-lr warmup-steps warmup-updates
fp16-init-scale fp16-scale-tolerance fp16-scale-window min-loss-scale threshold-loss-scale

batch-size batch-size-valid curriculum data-buffer-size left-pad-source left-pad-target max-sentences
max-sentences-valid max-tokens max-tokens-valid num-batch-buckets num-workers required-batch-size-multiple
required-seq-len-multiple skip-remainder-batch truncate-source update-ordered-indices-seed

validate-after-updates validate-interval validate-interval-updates max-valid-steps fixed-validation-seed
eval-bleu eval-bleu-args eval-bleu-detok eval-bleu-detok-args eval-bleu-print-samples eval-bleu-remove-bpe
eval-tokenized-bleu best-checkpoint-metric maximize-best-checkpoint-metric
max-epoch max-update stop-min-lr stop-time-hours
keep-best-checkpoints keep-interval-updates keep-interval-updates-pattern keep-last-epochs no-epoch-checkpoints
save-interval save-interval-updates
"""

OPTIONS = frozenset(
    [*_OPTIONS.split(), *(f"{side}-{name}" for side in ("encoder", "decoder") for name in _SIDES.split())]
)
"""Names of the options, without dashes: model, learning, batches, and course of the training."""

SCHEDULE = (
    *("max-update", "warmup-updates", "total-num-update", "warmup-steps", "hold-steps", "decay-steps"),
    *("lr-period-updates", "validate-after-updates"),
)
"""Options that count updates from the start."""

COUNTS = (*SCHEDULE, "save-interval-updates", "stop-time-hours")
"""Options whose value is a count of updates or hours, which this program reads too."""

WHOLE = frozenset(COUNTS) - {"stop-time-hours", "total-num-update", "lr-period-updates"}
"""Counts that fairseq refuses with a point or an exponent."""

_NEVER_RIGHT = re.compile(r"__|\$\{|[\x00-\x1f\x7f-\x9f]")
"""Python's special names, omegaconf's interpolations, control characters."""


def check_options(options: Mapping[str, Any]) -> None:
    """Check a recipe's [fairseq] table: names that a recipe may set, and values that no program would evaluate."""
    if foreign := [name for name in options if name not in OPTIONS]:
        raise ValueError(
            f"[fairseq] {shorten(', '.join(foreign))} is not for a recipe to set: a recipe sets what the model is, "
            "how it learns, when it ends and which checkpoints are kept, by fairseq-train's options without dashes"
        )
    for name, value in options.items():
        wrong = ""
        if isinstance(value, str):
            if match := _NEVER_RIGHT.search(value):
                wrong = f"but no option's value has {match[0]!r} in it"
            elif value.startswith("-"):
                wrong = "which fairseq would read as an option; write numbers plain"
        elif not (_is_number(value) or (isinstance(value, list) and all(map(_is_number, value)))):
            wrong = "but must be text, a number, true, false or numbers in []"
        if wrong:
            raise ValueError(f"[fairseq] {name} is {show_value(value)}, {wrong}")
    for name in COUNTS:
        read_count(options, name)


def read_count(options: Mapping[str, Any], name: str) -> float:
    """Return a count of updates or hours in a recipe's [fairseq] table; 0 if the table does not have it."""
    value = options.get(name, 0)
    try:
        count = math.nan if isinstance(value, bool | list) else float(value)
    except (ValueError, OverflowError):
        count = math.nan
    least = -1 if name == "lr-period-updates" else 0  # fairseq's default of that
    if not least <= count < MOST or (name in WHOLE and not re.fullmatch(r"-?\d+", str(value))):
        number = "whole number" if name in WHOLE else "number"
        raise ValueError(f"[fairseq] {name} is {show_value(value)}, but must be a {number} from {least} to {MOST:,}")
    return count


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


@dataclass(frozen=True)
class Start:
    """An initial model; a side whose language changes has no sentencepiece model, and gets new pieces."""

    name: str
    languages: tuple[str, str]
    checkpoint: Path
    dictionaries: tuple[Path, Path]
    pieces: tuple[Path | None, Path | None]

    @property
    def kept(self) -> tuple[Path | None, Path | None]:
        """The dictionaries of the sides that keep their language; None for the others."""
        (source, target), pieces = self.dictionaries, self.pieces
        return source if pieces[0] else None, target if pieces[1] else None

    def describe(self) -> str:
        """Return the model's name and the parts of it that are used, in Markdown."""
        shared = [language for language, pieces in zip(self.languages, self.pieces, strict=True) if pieces]
        return f"`{self.name}`, its weights and " + ("pieces" if len(shared) == 2 else f"{shared[0]} pieces")

    def files(self) -> list[Path]:
        """Return all files."""
        return [self.checkpoint, *self.dictionaries, *filter(None, self.pieces)]


DEFAULT_RECIPE = "small"
MOST = 2**31  # exclusive upper limit of all numbers in a recipe
SELECTIONS = ("best", "last", "average")


@dataclass(frozen=True)
class DataRecipe:
    """Selection of training pairs; a character of Chinese, Japanese, Thai and the like is a word."""

    valid_lines: int = 1000  # of the end of the training text, if there is no validation text
    max_words: int = 120  # pairs with a longer side are skipped
    max_ratio: float = 9.0  # pairs with one side more than this many times as long as the other are skipped


@dataclass(frozen=True)
class TextRecipe:
    """Conversion of text to pieces."""

    case: str = "lower"  # or "keep"
    tokenizer: str = "moses"  # a key of `align.models.preprocess.TOKENIZERS`
    vocabulary: int = 4000  # number of pieces of each language's sentencepiece BPE
    min_count: int = 10  # rarer pieces become unknown, so that the model learns to read unknown pieces
    dummy_prefix: bool = True  # whether a sentence's first word is split as if it followed a blank
    max_pieces: int = 1024  # of one side, `</s>` included; longer pairs are skipped; also the model's limit


@dataclass(frozen=True)
class CheckpointRecipe:
    """Selection of weights: "best" in validation, "last", or "average", the mean of the last few checkpoints."""

    select: str = "best"
    average: int = 5


@dataclass(frozen=True)
class Recipe:
    """A complete recipe."""

    name: str
    seeds: tuple[int, ...]  # one for each model
    minutes: float  # that all updates take on two CPU cores; 0 if unknown
    data: DataRecipe
    text: TextRecipe
    checkpoint: CheckpointRecipe
    fairseq: Mapping[str, Any] = field(default_factory=dict)  # options of fairseq-train without their dashes

    def flags(self) -> list[str]:
        """Return fairseq-train's command-line options."""
        arguments = []
        for name, value in self.fairseq.items():
            if value is not False:
                arguments += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return arguments


def bundled_recipes() -> dict[str, Traversable]:
    """Return the recipes in the package, by name."""
    recipes = (files("align.training") / "recipes").iterdir()
    return {file.name.removesuffix(".toml"): file for file in recipes if file.name.endswith(".toml")}


def read_recipe(name: str | Path = DEFAULT_RECIPE) -> Recipe:
    """Read and check a recipe: a bundled one, or a file."""
    bundled = bundled_recipes()
    if str(name) not in bundled and not Path(name).exists():
        raise ValueError(f"{name}: no such file, nor a bundled recipe (these are: {', '.join(sorted(bundled))})")
    path = bundled.get(str(name), Path(name))
    try:
        content = parse_toml(path.read_text(encoding="utf-8"))
        check_names("the file", content, ("seeds", "minutes", "data", "text", "checkpoint", "fairseq"))
        for table in ("data", "text", "checkpoint", "fairseq"):
            if not isinstance(content.get(table, {}), dict):
                raise ValueError(f"{table} is {show_value(content[table])}, but must be a table: [{table}]")
        options = content.get("fairseq", {})
        check_options(options)
        recipe = Recipe(
            path.name.removesuffix(".toml"),
            tuple(content.get("seeds", [1])),
            float(content.get("minutes", 0)),
            _table(DataRecipe, content, "data"),
            _table(TextRecipe, content, "text"),
            _table(CheckpointRecipe, content, "checkpoint"),
            options,
        )
        for value, allowed, where in (
            (recipe.text.case, CASES, "[text] case"),
            (recipe.text.tokenizer, tuple(TOKENIZERS), "[text] tokenizer"),
            (recipe.checkpoint.select, SELECTIONS, "[checkpoint] select"),
        ):
            if value not in allowed:
                raise ValueError(f"{where} must be one of {', '.join(allowed)}; got {show_value(value)}")
        if not 0 <= recipe.minutes < MOST:
            raise ValueError(f"minutes must be a number from 0 to {MOST:,}")
        if not recipe.seeds or not all(type(seed) is int and 0 <= seed < MOST for seed in recipe.seeds):
            raise ValueError(f"seeds are whole numbers from 0 to {MOST:,}, one at least")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    return recipe


def _table(kind: Any, content: Mapping[str, Any], name: str) -> Any:
    """Read a table into a dataclass, whose defaults have the types of its values."""
    values, defaults = dict(content.get(name, {})), {f.name: f.default for f in fields(kind)}
    check_names(f"[{name}]", values, defaults)
    for key, value in values.items():
        expected: Any = type(defaults[key])
        if expected is float and type(value) is int:
            value = values[key] = float(value)
        if type(value) is not expected:
            raise ValueError(f"[{name}] {key} is {show_value(value)}, but must be of type {expected.__name__}")
        if expected in (int, float) and not 0 < value < MOST:
            raise ValueError(f"[{name}] {key} must be more than 0 and less than {MOST:,}")
    return kind(**values)
