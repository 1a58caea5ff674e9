"""Input and output are not off by one: a model whose attention is forced to a known pattern.

Each decoder step attends to the source piece that is the same symbol as the piece it reads. So in the input
position a word is aligned to its own copy, and in the output position to the copy of the word before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from align import Aligner, Direction
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from tests import toy
from tests.conftest import plain


@pytest.fixture
def copier(tmp_path: Path) -> Any:
    """A recorder of a one-layer model that attends to copies."""
    words = len(toy.SOURCE_WORDS) + 4
    size = 16
    shape = {
        "share_all_embeddings": True, "encoder_layers": 1, "decoder_layers": 1, "no_token_positional_embeddings": True,
        "encoder_normalize_before": True, "decoder_normalize_before": True, "encoder_attention_heads": 1,
        "decoder_attention_heads": 1, "no_scale_embedding": True,
    }  # fmt: skip
    model, _ = toy.build_model(shape, toy.SOURCE_WORDS, toy.SOURCE_WORDS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1)
        model.encoder.embed_tokens.weight.copy_(torch.eye(words, size))
        attention = model.decoder.layers[0].encoder_attn
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.copy_(1.5 * torch.eye(size))
        attention.v_proj.weight.copy_(torch.eye(size))
        attention.out_proj.weight.copy_(torch.eye(size))
    checkpoint = toy.save_model(tmp_path / "copier", shape, model=model)
    return load_fairseq(find_model(str(checkpoint), ModelOptions()))


SOURCE = "das haus ist alt"
TARGET = "alt das ist haus"
COPIES = {(3, 0), (0, 1), (2, 2), (1, 3)}
PREVIOUS = {(3, 1), (0, 2), (2, 3)}  # the first word is predicted by the step that reads </s>, which finds </s>: NULL


@pytest.mark.parametrize("score", ["weight", "norm"])
@pytest.mark.parametrize(("position", "expected"), [("input", COPIES), ("output", PREVIOUS)])
def test_a_word_is_aligned_by_the_step_that_reads_or_predicts_it(
    copier: Any, score: str, position: str, expected: set[tuple[int, int]]
) -> None:
    aligner = Aligner(Direction(copier, plain(score, position, 1, "all")))
    assert aligner.align(SOURCE, TARGET).links == expected
    padded = [(SOURCE, TARGET), ("haus", "haus"), (SOURCE + " und gross", TARGET)]
    assert next(aligner(padded)).links == expected


def test_null_words_are_linked_where_eos_may_not_win(copier: Any) -> None:
    for null in ("mask", "none"):
        alignment = Aligner(Direction(copier, plain("weight", "output", 1, "all", null))).align(SOURCE, TARGET)
        assert alignment.links >= PREVIOUS
        assert alignment.null == []
