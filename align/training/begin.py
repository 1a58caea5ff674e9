"""The weights that training begins with: a model's, all of them or all but the word vectors of a language."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import Tensor

from align.backends.fairseq.checkpoint import load_checkpoint
from align.backends.fairseq.dictionary import Dictionary, read_dictionary
from align.training.start import Start

TABLES = (
    ("encoder.embed_tokens.weight",),
    ("decoder.embed_tokens.weight", "decoder.output_projection.weight", "decoder.embed_out"),
)
"""Weights with a row for each piece: of the source, and of the target, which may have one table or two."""


def save_start(start: Start, dictionaries: tuple[Path, Path], seed: int, path: Path) -> None:
    """Write a model's weights, and nothing else, as what fairseq begins a training with.

    A side that is of another language gets word vectors of its own, see `transplant`; all else stays.

    Args:
        start: the model.
        dictionaries: of source and target, as they are to be trained.
        seed: of the new word vectors.
        path: gets the weights.

    Raises:
        ValueError: it is not a fairseq checkpoint, or a dictionary is none.
        OSError: a file cannot be read or written.
    """
    weights = dict(load_checkpoint(start.checkpoint)["model"])
    for tables, kept, old, new in zip(TABLES, start.kept, start.dictionaries, dictionaries, strict=True):
        if kept is None:
            for name in weights.keys() & set(tables):
                weights[name] = transplant(weights[name], read_dictionary(old), read_dictionary(new), seed)
    history = {"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}  # fairseq fails without them
    content = io.BytesIO()  # torch raises errors of its own where a disk is full
    torch.save({"model": weights, "optimizer_history": [history], "extra_state": {}}, content)
    path.write_bytes(content.getvalue())


def transplant(table: Tensor, old: Dictionary, new: Dictionary, seed: int) -> Tensor:
    """Word vectors for another language's pieces.

    Pieces that both dictionaries have, such as punctuation, digits and names, keep their vectors; all others get random
    ones that are as widely spread.

    Args:
        table: the vectors `[V, D]` of the old dictionary's pieces.
        old: V pieces.
        new: W pieces.
        seed: of the random vectors.

    Returns:
        `[W, D]`.
    """
    vectors = torch.randn(len(new), table.shape[1], generator=torch.Generator().manual_seed(seed))  # [W, D]
    vectors *= table.float().std()
    rows = {piece: row for row, piece in enumerate(old.pieces)}
    shared = [row for row, piece in enumerate(new.pieces) if piece in rows]
    vectors[shared] = table[[rows[new.pieces[row]] for row in shared]].float()
    return vectors.to(table.dtype)
