"""Tiny fairseq checkpoints with random weights, one for every shape of Transformer that users bring."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from align.core.types import Cell
from align.models.model_toml import ModelOptions, format_model_toml
from align.training.compat import install

install()  # before any import of fairseq

SOURCE_WORDS = ["das", "haus", "ist", "alt", "und", "gross", ".", ",", "wir", "sehen"]
TARGET_WORDS = ["the", "house", "is", "old", "and", "big", ".", ",", "we", "see", "it", "now"]

SMALL = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 16, "decoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24, "decoder_ffn_embed_dim": 24, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "max_source_positions": 40, "max_target_positions": 40, "dropout": 0.0,
}  # fmt: skip

SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "layernorm of embeddings": {"layernorm_embedding": True},
    "wider encoder": {"encoder_embed_dim": 32, "encoder_attention_heads": 2},
    "deeper encoder": {"encoder_layers": 3, "decoder_layers": 1},
    "shared decoder embeddings": {"share_decoder_input_output_embed": True},
    "all embeddings shared": {"share_all_embeddings": True},
    "GELU, no scale": {"activation_fn": "gelu_accurate", "no_scale_embedding": True},
    "no positions": {"no_token_positional_embeddings": True},
    "scaled parts": {"scale_attn": True, "scale_heads": True, "scale_fc": True, "scale_resids": True},
    "pre-norm, no last norm": {"decoder_normalize_before": True, "no_decoder_final_norm": True},
    "quantisation noise": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    "activation checkpointing": {"checkpoint_activations": True},
    "layer drop": {"encoder_layerdrop": 0.9, "decoder_layerdrop": 0.9},
}


def save_dictionary(path: Path, words: list[str]) -> None:
    """A fairseq dictionary of these words."""
    path.write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")


def build_model(shape: dict[str, Any], source_words: list[str], target_words: list[str]) -> tuple[Any, Namespace]:
    """A model with random weights, and its settings."""
    pytest.importorskip("fairseq", reason="needs fairseq, which makes the toy model")
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerModel, base_architecture

    args = Namespace(arch="transformer", **{**SMALL, **shape})
    base_architecture(args)
    dictionaries = []
    for words in (source_words, target_words):
        dictionary = Dictionary()
        for word in words:
            dictionary.add_symbol(word)
        dictionaries.append(dictionary)
    torch.manual_seed(1)
    task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
    if args.share_all_embeddings:
        task.target_dictionary = task.source_dictionary
    model = TransformerModel.build_model(args, task).eval()
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.5)  # fairseq starts them at 0, where a forgotten one goes unseen
    for name, buffer in model.named_buffers():
        if name.endswith("._float_tensor"):
            buffer.fill_(float("nan"))  # fairseq leaves its value to chance
    return model, args


def save_model(folder: Path, shape: dict[str, Any] | None = None, *, old: bool = False, model: Any = None) -> Path:
    """Write a folder with a checkpoint (`old`: as before fairseq 0.10) and dictionaries; returns the checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape or {}
    target_words = SOURCE_WORDS if shape.get("share_all_embeddings") else TARGET_WORDS
    built, args = build_model(shape, SOURCE_WORDS, target_words)
    args.source_lang, args.target_lang, args.task = "de", "en", "translation"
    state: dict[str, Any] = {"model": (model or built).state_dict()}
    if old:
        state["args"] = args
    else:
        args._name = args.arch
        task = {"_name": "translation", "source_lang": "de", "target_lang": "en"}
        state |= {"args": None, "cfg": {"model": args, "task": task}}
    torch.save(state, folder / "checkpoint.pt")
    save_dictionary(folder / "dict.de.txt", SOURCE_WORDS)
    save_dictionary(folder / "dict.en.txt", target_words)
    return folder / "checkpoint.pt"


def store_cells(folder: Path, languages: tuple[str, str]) -> None:
    """Write a model.toml that says where to read a model."""
    cells = {
        ("norm", "input"): Cell(1, 2),
        ("norm", "output"): Cell(2, "all"),
        ("weight", "input"): Cell(1, 2),
        ("weight", "output"): Cell(2, "all"),
    }
    text = format_model_toml(ModelOptions(*languages), {"": cells})  # type: ignore[dict-item]
    (folder / "model.toml").write_text(text, encoding="utf-8")


def save_reverse_model(folder: Path, shape: dict[str, Any] | None = None) -> Path:
    """Write the folder of a model from English to German, with weights of its own; returns the folder."""
    source_words, target_words = TARGET_WORDS[: len(SOURCE_WORDS)], [*SOURCE_WORDS, "sie", "nun"]
    model, _ = build_model(shape or {}, source_words, target_words)
    torch.manual_seed(2)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.6)
    save_model(folder, shape, model=model)
    save_dictionary(folder / "dict.en.txt", source_words)
    save_dictionary(folder / "dict.de.txt", target_words)
    (folder / "model.toml").write_text('source = "en"\ntarget = "de"\n', encoding="utf-8")
    return folder


@cache
def train_model(encoder_layers: int, decoder_layers: int) -> Any:
    """Train a model to translate word by word, the n-th of SOURCE_WORDS to that of TARGET_WORDS."""
    shape = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    model, _ = build_model(shape, SOURCE_WORDS, TARGET_WORDS)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    numbers = torch.Generator().manual_seed(3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # products this small take many times longer where threads wait for each other
    for _ in range(400):
        length = int(torch.randint(1, 7, (1,), generator=numbers))
        words = torch.randint(4, 4 + len(SOURCE_WORDS), (64, length), generator=numbers)
        eos = torch.full((64, 1), 2)
        source, steps = torch.cat([words, eos], 1), torch.cat([eos, words], 1)
        output = model(source, torch.full((64,), length + 1), steps)[0]
        loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), source.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_num_threads(threads)
    return model


def save_trained_model(folder: Path, encoder_layers: int = 1, decoder_layers: int = 1) -> Path:
    """Write a model that has learned to translate word by word."""
    shape = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    return save_model(folder, shape, model=train_model(encoder_layers, decoder_layers))


if __name__ == "__main__":  # the models of golden files
    folder = Path(sys.argv[1])
    save_trained_model(folder / "de-en", 2, 2)
    save_trained_model(folder / "back", 2, 2)
    save_dictionary(
        folder / "back" / "dict.en.txt", TARGET_WORDS[: len(SOURCE_WORDS)]
    )  # the same weights, turned round
    save_dictionary(folder / "back" / "dict.de.txt", [*SOURCE_WORDS, "sie", "nun"])
    for model, source, target in (("de-en", "de", "en"), ("back", "en", "de")):
        (folder / model / "model.toml").write_text(f'source = "{source}"\ntarget = "{target}"\n', encoding="utf-8")
