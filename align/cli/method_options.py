"""The options of `extract-align` and `transfer-align` that say where in the models' attention to read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from align.cli.options import add_null_option, language_code, number_or, one_or_two
from align.core.settings import PositionChoice, Settings
from align.core.types import Score

OF_REVERSE = ("reverse_layer", "reverse_head", "reverse_source_lang", "reverse_target_lang")
"""Options of the reverse model."""

METHOD = "method (Kobayashi et al., EMNLP 2020)"
"""The heading of the options that say how."""


def add_method_options(group: Any) -> None:
    """Add the options of reading attention."""
    group.add_argument(
        "--score",
        choices=get_args(Score),
        default="norm",
        help="attention weight, or norm of the attention-weighted vector",
    )
    group.add_argument(
        "--position",
        choices=get_args(PositionChoice),
        default="both",
        help="align a target word by the decoder step that reads it (input), predicts it (output), or by both, "
        "which is more accurate; input is the fastest",
    )
    group.add_argument(
        "--layer",
        type=one_or_two(number_or("auto")),
        default="auto",
        metavar="N[,N]",
        help="decoder layer (1 is the lowest); 1,2 sets those of the input and the output position; auto: chosen by "
        "lexical consistency on the first buffer of lines",
    )
    group.add_argument(
        "--head",
        type=one_or_two(number_or("auto", "all")),
        default="auto",
        metavar="N[,N]",
        help="attention head (1 is the first), or all heads together; 1,all as for --layer",
    )
    add_null_option(group)


def add_reverse_options(group: Any) -> None:
    """Add the options of a reverse model, and of where to read it."""
    group.add_argument(
        "--reverse-model",
        metavar="MODEL",
        help="align with this model too, which translates target to source, and symmetrise; a bundled model, a folder, "
        "a checkpoint with its model.toml, or a Hugging Face name. A model of many languages may be given for both "
        "directions: it is loaded once, and --source-lang and --target-lang are swapped",
    )
    add_reverse_languages(group)
    group.add_argument(
        "--reverse-layer",
        metavar="N[,N]",
        type=one_or_two(number_or("auto")),
        default="auto",
        help="as --layer, of the reverse model",
    )
    group.add_argument(
        "--reverse-head",
        metavar="N[,N]",
        type=one_or_two(number_or("auto", "all")),
        default="auto",
        help="as --head, of the reverse model",
    )


def add_reverse_languages(group: Any) -> None:
    """Add the languages of a multilingual reverse model."""
    group.add_argument(
        "--reverse-source-lang",
        metavar="LANG",
        type=language_code,
        help="source language of the reverse model, in its own codes (default: by its files, or the target language)",
    )
    group.add_argument(
        "--reverse-target-lang",
        metavar="LANG",
        type=language_code,
        help="its target language (default: by its files, or the source language)",
    )


Numbers = Sequence[Any]
"""One or two of a kind: of the input position, or the only one, and of the output position."""


def requested_settings(
    parser: argparse.ArgumentParser, args: argparse.Namespace, threshold: float | None
) -> tuple[Settings, Settings]:
    """Return the settings of the forward model and of the reverse model.

    Args:
        parser: who refuses, with exit code 2, two layers or heads for one position.
        args: the options.
        threshold: of each model by itself.
    """
    common = Settings(score=args.score, position=args.position, null=args.null, threshold=threshold)
    return (
        _read_at(parser, common, args.layer, args.head),
        _read_at(parser, common, args.reverse_layer, args.reverse_head),
    )


def _read_at(parser: argparse.ArgumentParser, settings: Settings, layers: Numbers, heads: Numbers) -> Settings:
    """Return the settings with these layers and heads."""
    if len(layers) + len(heads) > 2 and settings.position != "both":
        parser.error(f"two layers or heads require --position both, not {settings.position}")
    layer, output_layer = (*layers, "auto")[:2]
    head, output_head = (*heads, "auto")[:2]
    return replace(settings, layer=layer, head=head, output_layer=output_layer, output_head=output_head)
