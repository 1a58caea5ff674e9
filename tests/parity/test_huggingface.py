"""What is recorded of a Hugging Face model is what transformers computes, for every family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from align import load
from align.core.scores import collate
from align.models.causal import families as causal_families
from align.models.engine import linear
from tests import hugging, naive_hugging
from tests.corpora import PAIRS

pytest.importorskip("transformers")


def reference(kind: str, model: Any, sentence: naive_hugging.Sentence) -> list[dict[str, torch.Tensor]]:
    """A full forward pass of transformers' own on one pair, with what each cross-attention put out."""
    seen: list[dict[str, torch.Tensor]] = []

    def keep(module: Any, args: Any, output: Any) -> None:
        bias = torch.zeros(1) if kind in ("t5", "mt5") else module.out_proj.bias
        seen.append({"output": output[0], "bias": bias})

    modules = [module for module, *_ in naive_hugging.cross_attentions(kind, model)]
    handles = [module.register_forward_hook(keep) for module in modules]
    found = naive_hugging.forward(kind, model, sentence)
    for handle in handles:
        handle.remove()
    for own, weights in zip(seen, found.cross_attentions, strict=True):
        own["weights"] = weights
        if own["output"].shape[0] != 1:  # FSMT's layout
            own["output"] = own["output"].transpose(0, 1)
    return seen


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_weighted_vectors_and_bias_add_up_to_the_modules_output(kind: str, tmp_path: Path) -> None:
    model = hugging.save_model(kind, tmp_path)
    recorder = load(tmp_path, options=hugging.options(kind)).forward.recorder
    layers = range(1, recorder.layers + 1)
    close = 3e-5 if kind in ("t5", "mt5") else 1e-5  # they do not divide the products of queries and keys by √d
    pieces = [recorder.encode(pair) for pair in PAIRS]
    recorded = list(recorder.record(collate(pieces, recorder.pad), layers))
    assert [attention.layer for attention in recorded] == list(layers)
    for b, (one, pair) in enumerate(zip(pieces, PAIRS, strict=True)):
        sentence = naive_hugging.encode(kind, tmp_path, model, pair)
        first = sentence.label_words.index(0)  # the row that predicts the first piece
        rows, columns = len(one.target) + 1, len(one.source)
        for attention, own in zip(recorded, reference(kind, model, sentence), strict=True):
            expected = own["weights"][0, :, first : first + rows]
            weights = attention.weights[b, :, :rows, :columns]
            torch.testing.assert_close(weights, expected, atol=close, rtol=1e-5)
            vectors = attention.values[b, :, :columns] @ attention.out_proj  # [H, S, D]
            added = torch.einsum("hts,hsd->td", weights, vectors) + own["bias"]
            torch.testing.assert_close(added, own["output"][0, first : first + rows], atol=close, rtol=1e-5)


def test_a_language_after_the_source_of_nllb_is_as_in_transformers(tmp_path: Path) -> None:
    from transformers import NllbTokenizer

    hugging.save_model("m2m_100", tmp_path, size=100)
    pieces = [*hugging.SPECIAL, "\u2581", ".", *"abcdefghijklmnopqrstuvwxyz"]
    own = NllbTokenizer(
        vocab={piece: n for n, piece in enumerate(pieces)},
        merges=[],
        src_lang="deu_Latn",
        tgt_lang="eng_Latn",
        extra_special_tokens=list(hugging.LANGUAGES),
        legacy_behaviour=True,
    )
    own.save_pretrained(tmp_path)
    recorder: Any = load(tmp_path).forward.recorder
    source = recorder.encode(PAIRS[0]).source
    assert list(source) == own(" ".join(PAIRS[0].source))["input_ids"]
    assert source[-1] == own.convert_tokens_to_ids("deu_Latn")
    assert recorder.start == (2, own.convert_tokens_to_ids("eng_Latn"))


def test_activations_are_those_that_transformers_has_by_their_names() -> None:
    from transformers.activations import ACT2FN

    x = torch.linspace(-6, 6, 1001)
    for name, ours in causal_families.ACTIVATIONS.items():
        assert torch.allclose(linear.ACTIVATIONS[ours](x.clone()), ACT2FN[name](x.clone()), atol=1e-5), name
