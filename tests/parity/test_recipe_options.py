"""What a recipe may say is what fairseq understands, and none of what makes fairseq read, write or run something."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import align.training.plugin.task  # noqa: F401
from align.training.recipe import OPTIONS


def all_options() -> Iterator[str]:
    """Every option of fairseq-train for our task and a Transformer, whatever optimiser, schedule and criterion."""
    from fairseq import options
    from fairseq.dataclass.utils import gen_parser_from_dataclass
    from fairseq.models import MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_REGISTRY

    kinds = [cls for registry in REGISTRIES.values() for cls in registry["registry"].values()]
    kinds += [MODEL_REGISTRY["transformer"], TASK_REGISTRY["translation_align"]]
    parsers = [options.get_training_parser()]
    for cls in kinds:
        parsers.append(argparse.ArgumentParser())
        if hasattr(cls, "add_args"):
            cls.add_args(parsers[-1])
        elif getattr(cls, "__dataclass", None):
            gen_parser_from_dataclass(parsers[-1], cls.__dataclass())
    for parser in parsers:
        for action in parser._actions:
            yield from (name.removeprefix("--") for name in action.option_strings)


def test_a_recipe_may_say_what_fairseq_knows_and_nothing_that_names_a_file_or_a_service() -> None:
    known = set(all_options())
    assert len(known) > 250
    assert OPTIONS - known == set()
    elsewhere = r"path|file|dir\b|directory|from|repo\b|\blog|wandb|tensorboard|azureml|user|distributed|plasma|profile"
    elsewhere += r"|reset|restore|finetune|continue|pretrained|load|suffix|shard|async|no-save$|last-checkpoints|export"
    assert {name for name in OPTIONS if re.search(elsewhere, name)} == set()
    refused = known - OPTIONS
    for name in ("user-dir", "save-dir", "restore-file", "encoder-embed-path", "tensorboard-logdir", "plasma-path"):
        assert name in refused
