"""What is recorded of a Hugging Face model is what transformers computes, for every family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from align import load
from align.attention.merging import collate
from align.backends.model_folder import ModelOptions
from align.types import Pair
from tests import hugging

pytest.importorskip("transformers")

PAIRS = [
    Pair(("das", "haus", "ist", "alt", "."), ("the", "house", "is", "old", "now", "."), 1),
    Pair(("wir", "sehen"), ("we",), 2),
    Pair(("unbekannt", ",", "das", "und"), ("we", "see", "it"), 3),
]


def options(kind: str) -> ModelOptions:
    """The languages of a family's tiny model, where it has some."""
    return (
        ModelOptions(source_lang="deu_Latn", target_lang="eng_Latn") if kind in hugging.MULTILINGUAL else ModelOptions()
    )


def decoder_input(kind: str, model: Any, pieces: list[int]) -> list[int]:
    """What the decoder is given for these pieces, by transformers' own shifting of labels."""
    config = model.config
    if kind in ("m2m_100", "mbart-50", "mbart"):
        english = 4 + len(hugging.WORDS) + 27 + 1  # after the vocabulary, the second language
        labels = [*pieces, config.eos_token_id, english] if kind == "mbart" else [english, *pieces, config.eos_token_id]
    elif kind == "bart":
        labels = [config.bos_token_id, *pieces, config.eos_token_id]
    else:
        labels = [*pieces, config.eos_token_id]
    if kind == "mbart":  # the last one comes first
        return [labels[-1], *labels[:-1]]
    return [config.decoder_start_token_id, *labels[:-1]]


def reference(kind: str, model: Any, pieces: Any) -> list[dict[str, torch.Tensor]]:
    """A full forward pass of transformers' own on one pair, with what each cross-attention put out."""
    seen: list[dict[str, torch.Tensor]] = []

    def keep(module: Any, args: Any, output: Any) -> None:
        bias = torch.zeros(1) if kind in ("t5", "mt5") else module.out_proj.bias
        seen.append({"output": output[0], "bias": bias})

    if kind in ("t5", "mt5"):
        modules = [block.layer[1].EncDecAttention for block in model.decoder.block]
    else:
        modules = [layer.encoder_attn for layer in model.model.decoder.layers]
    handles = [module.register_forward_hook(keep) for module in modules]
    steps = torch.tensor([decoder_input(kind, model, pieces.target)])
    with torch.inference_mode():
        found = model(
            input_ids=torch.tensor([pieces.source]), decoder_input_ids=steps, output_attentions=True, use_cache=False
        )
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
    recorder = load(tmp_path, options=options(kind)).recorder
    layers = range(1, recorder.layers + 1)
    pieces = [recorder.encode(pair) for pair in PAIRS]
    recorded = list(recorder.record(collate(pieces, recorder.pad), layers))
    assert [attention.layer for attention in recorded] == list(layers)
    for b, one in enumerate(pieces):
        rows, columns = len(one.target) + 1, len(one.source)
        for attention, own in zip(recorded, reference(kind, model, one), strict=True):
            first = own["weights"].shape[2] - rows - (kind == "mbart")
            expected = own["weights"][0, :, first : first + rows]
            weights = attention.weights[b, :, :rows, :columns]
            torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-4)
            vectors = attention.values[b, :, :columns] @ attention.out_proj  # [H, S, D]
            added = torch.einsum("hts,hsd->td", weights, vectors) + own["bias"]
            torch.testing.assert_close(added, own["output"][0, first : first + rows], atol=1e-4, rtol=1e-4)


def own_tokenizers(kind: str, folder: Path) -> tuple[Any, Any]:
    """What cuts a source and a target into numbers of pieces, by transformers."""
    import transformers

    hf: Any = transformers
    if kind == "marian":
        files = {name: str(folder / f"{name}.spm") for name in ("source", "target")}
        own = hf.MarianTokenizer(files["source"], files["target"], str(folder / "vocab.json"))
        return own, lambda text, **more: own(text_target=text, **more)
    if kind == "fsmt":
        files = {f"{name}_vocab_file": str(folder / f"vocab-{name}.json") for name in ("src", "tgt")}
        own = hf.FSMTTokenizer(langs=["de", "en"], merges_file=str(folder / "merges.txt"), do_lower_case=True, **files)
        return own, own
    own = hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return own, own


@pytest.mark.parametrize("kind", ["marian", "fsmt", "t5"])
def test_pieces_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    hugging.save_model(kind, tmp_path)
    recorder = load(tmp_path).recorder
    for pair in [
        *PAIRS,
        Pair(("Das", "große", "Häuschen", ",", "s'ist"), ("The", "don't", "well-known", "x²", "."), 4),
    ]:
        pieces = recorder.encode(pair)
        inner = [n for n, word in zip(pieces.source, pieces.source_words, strict=True) if word >= 0]
        sides = zip(own_tokenizers(kind, tmp_path), (pair.source, pair.target), (inner, pieces.target), strict=True)
        for tokenize, words, ours in sides:
            assert list(ours) == tokenize(" ".join(words), add_special_tokens=False)["input_ids"]


def test_languages_of_m2m100_are_those_of_transformers(tmp_path: Path) -> None:
    from transformers import M2M100Tokenizer

    hugging.save_model("marian", tmp_path / "marian")
    known = json.loads((tmp_path / "marian" / "vocab.json").read_text())
    folder = tmp_path / "m2m"
    size = len(known) + 200
    hugging.save_model("m2m_100", folder, size=size)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(known))
    own = M2M100Tokenizer(
        str(folder / "vocab.json"), str(tmp_path / "marian" / "source.spm"), src_lang="de", tgt_lang="en"
    )
    own.save_pretrained(folder)
    recorder: Any = load(folder, options=ModelOptions(source_lang="de", target_lang="en")).recorder
    pieces = recorder.encode(PAIRS[0])
    expected = own(" ".join(PAIRS[0].source))["input_ids"]
    assert list(pieces.source)[:-1] == expected[:-1]  # this vocabulary's </s> is not the model's
    assert recorder.start[1] == own.get_lang_id("en")
