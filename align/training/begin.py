"""Initial models for training: checks compatibility, and prepares the weights, with word vectors for a new language."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from align.models.fairseq.checkpoint import load_checkpoint
from align.models.fairseq.dictionary import SPECIAL, Dictionary, read_dictionary
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.models.preprocess import TextRules
from align.training.recipe import Start, TextRecipe

TABLES = (
    ("encoder.embed_tokens.weight",),
    ("decoder.embed_tokens.weight", "decoder.output_projection.weight", "decoder.embed_out"),
)
"""Weights with one row per piece: of the source, and of the target, which may have one table or two."""


def find_start(model: str, languages: tuple[str, str], text: TextRecipe) -> Start:
    """Find an initial model; check that it has the recipe's text processing, and one language on the same side."""
    folder = find_model(model, ModelOptions())
    if folder.backend != "fairseq":
        raise ValueError(f"{model}: not a fairseq model")
    recorder = load_fairseq(folder)
    own = recorder.languages
    if own[0] != languages[0] and own[1] != languages[1]:
        raise ValueError(f"{model}: translates {own[0]} to {own[1]}, neither from {languages[0]} nor to {languages[1]}")
    pieces: list[Path | None] = []
    for language, rules in zip(languages, (side.rules for side in recorder.sides), strict=True):
        expected = TextRules(language, text.case, text.tokenizer, "sentencepiece", rules.subword_file)
        if rules.language == language and (rules != expected or not rules.subword_file):
            raise ValueError(f"{model}: its text is {rules}; the recipe's is {expected}")
        pieces.append(rules.subword_file if rules.language == language else None)
    source, target = (folder.dictionary(language) for language in own)
    return Start(recorder.name, own, folder.checkpoint, (source, target), (pieces[0], pieces[1]))


def save_start(
    start: Start, dictionaries: tuple[Path, Path], seed: int, path: Path, say: Callable[[str], None]
) -> None:
    """Write a model's weights as an initial checkpoint for fairseq.

    A side whose language changes gets new word vectors, see `transplant`; all other weights stay.
    """
    weights = dict(load_checkpoint(start.checkpoint)["model"])
    for tables, unchanged, *paths in zip(TABLES, start.kept, start.dictionaries, dictionaries, strict=True):
        if unchanged:
            continue
        old, new = map(read_dictionary, paths)
        shared = len(old.ids().keys() & new.ids().keys())
        say(f"{shared:,} of {len(new.ids()):,} new pieces are in {paths[0].name}, too, and keep their vectors")
        for name in sorted(weights.keys() & set(tables)):
            if weights[name].dim() != 2 or len(weights[name]) != len(old):
                raise ValueError(f"{start.checkpoint}: {name} has no row for each piece of {paths[0]}")
            weights[name] = transplant(weights[name], old, new, seed)
    history = {"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}  # fairseq fails without them
    content = io.BytesIO()  # torch raises its own errors when a disk is full
    torch.save({"model": weights, "optimizer_history": [history], "extra_state": {}}, content)
    path.write_bytes(content.getvalue())


def transplant(table: Tensor, old: Dictionary, new: Dictionary, seed: int) -> Tensor:
    """Return word vectors `[W, D]` for another language's W pieces, from those of V old pieces `[V, D]`.

    Pieces in both dictionaries and special symbols keep their vectors; all others get random ones with the same
    standard deviation. Equal tables, e.g. those of a model that reads and predicts with one, stay equal.
    """
    vectors = torch.randn(len(new), table.shape[1], generator=torch.Generator().manual_seed(seed))  # [W, D]
    vectors *= table.float().std()
    vectors[: len(SPECIAL)] = table[: len(SPECIAL)].float()
    rows = old.ids()
    shared = {row: rows[piece] for piece, row in new.ids().items() if piece in rows}
    vectors[list(shared)] = table[list(shared.values())].float()
    return vectors.to(table.dtype)
