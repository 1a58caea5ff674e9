"""Whether a Marian model's pieces and links are those that transformers' own tokenizer and attention give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot
from transformers import MarianMTModel, MarianTokenizer

from align import Aligner, Pair, Settings
from align.core.types import Links, Pieces, Position

ROWS: dict[Position, slice] = {"input": slice(1, None), "output": slice(None, -1)}
"""Of the decoder's steps, those of the target's pieces."""


def same_pieces(folder: Path, aligner: Aligner, pairs: Sequence[Pair]) -> int:
    """How many pairs have the same numbers on both sides, with the source's `</s>`."""
    tokenizer: Any = MarianTokenizer.from_pretrained(folder)
    same = 0
    for pair in pairs:
        pieces = aligner.forward.recorder.encode(pair)
        source = tokenizer(" ".join(pair.source))["input_ids"]
        target = tokenizer(text_target=" ".join(pair.target))["input_ids"][:-1]
        same += (list(pieces.source), list(pieces.target)) == (source, target)
    return same


def same_links(folder: Path, aligner: Aligner, pairs: Sequence[Pair]) -> int:
    """How many pairs have the same links by weight in every head of every layer, in both positions."""
    model: Any = MarianMTModel.from_pretrained(folder, attn_implementation="eager")
    model.eval()
    cells = list(product(range(1, aligner.forward.recorder.layers + 1), range(1, aligner.forward.recorder.heads + 1)))
    ours: list[list[Links]] = [[] for _ in pairs]
    for position, (layer, head) in product(ROWS, cells):
        settings = Settings("weight", position, layer=layer, head=head, threshold=None)
        for links, alignment in zip(
            ours, replace(aligner, forward=replace(aligner.forward, settings=settings))(pairs), strict=True
        ):
            links.append(alignment.links)
    same = 0
    for pair, links in zip(pairs, ours, strict=True):
        pieces = aligner.forward.recorder.encode(pair)
        weights = attention(model, pieces)  # [C, T+1, S]
        same += links == [best_words(one, pieces) for rows in ROWS.values() for one in weights[:, rows]]
    return same


@torch.inference_mode()
def attention(model: Any, pieces: Pieces) -> Tensor:
    """The weights of all heads, by layer, for each step of the decoder `[C, T+1, S]`."""
    steps = torch.tensor([[model.config.decoder_start_token_id, *pieces.target]])
    source = torch.tensor([pieces.source])
    found = model(input_ids=source, decoder_input_ids=steps, output_attentions=True, use_cache=False)
    return torch.cat([layer[0] for layer in found.cross_attentions])


def best_words(weights: Tensor, pieces: Pieces) -> Links:
    """Each target word with its best source word, unless that is `</s>`; weights of pieces are `[T, S]`."""
    end = pieces.words[0]
    sources = one_hot(torch.tensor([end if word < 0 else word for word in pieces.source_words])).float()  # [S, I+1]
    targets = one_hot(torch.tensor(pieces.target_words), pieces.words[1]).float()  # [T, J]
    words = targets.T @ weights @ sources  # [J, I+1]
    best = words.argmax(1).tolist()
    return frozenset((i, j) for j, i in enumerate(best) if i != end and j in set(pieces.target_words))
