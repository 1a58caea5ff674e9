"""Narrow Hugging Face models with random weights, saved by transformers itself, and vocabularies of a few words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from align.models.model_toml import ModelOptions
from align.models.preprocess import sentencepiece_pieces

WORDS = [
    "das", "haus", "ist", "alt", "und", "gross", "wir", "sehen",
    "the", "house", "is", "old", "and", "big", "we", "see", "it", "now", ".", ",",
]  # fmt: skip
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
LANGUAGES = ("deu_Latn", "eng_Latn", "fra_Latn")
MULTILINGUAL = ("m2m_100", "mbart", "mbart-50")
T5_KINDS = ("t5", "mt5", "umt5")

SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "dropout": 0.0,
}  # fmt: skip
T5_SIZES = {"d_model": 16, "num_heads": 4, "d_kv": 6, "num_layers": 2, "num_decoder_layers": 3, "d_ff": 24}
USUAL_IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
MARIAN = {"activation_function": "swish", "scale_embedding": True, "bos_token_id": 0, "eos_token_id": 0}
T5_TOY_IDS = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "bart": USUAL_IDS,
    **{kind: {**USUAL_IDS, "scale_embedding": True} for kind in ("fsmt", "m2m_100", "mbart", "mbart-50", "pegasus")},
    "marian": MARIAN,
    "mt5": {**T5_TOY_IDS, "feed_forward_proj": "gated-gelu"},
    "t5": T5_TOY_IDS,
}


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def change(folder: Path, name: str, **values: Any) -> None:
    """Other values in a JSON file."""
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    write_json(folder / name, {**content, **values})


def _json_tokenizer(folder: Path, languages: tuple[str, ...] = ()) -> int:
    """A tokenizer.json of whole words, and the size of its vocabulary."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    pieces = [*((piece, 0.0) for piece in SPECIAL), *((f"\u2581{word}", -1.0) for word in WORDS)]
    pieces += [(character, -5.0) for character in "\u2581abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in (*SPECIAL, *languages)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def _with_languages(folder: Path) -> int:
    return _json_tokenizer(folder, LANGUAGES)


def train_pieces(path: Path, **options: Any) -> list[str]:
    """Train a sentencepiece model of 40 pieces; returns those."""
    from sentencepiece import SentencePieceTrainer

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(WORDS[n:] + WORDS[:n]) for n in range(len(WORDS)) for _ in range(5)]
    with path.open("wb") as file:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=file, vocab_size=40, minloglevel=2, **options
        )
    return sentencepiece_pieces(path)


def _marian(folder: Path) -> int:
    """Two sentencepiece models and their common vocabulary."""
    pieces: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for name in ("source", "target"):
        for piece in train_pieces(folder / f"{name}.spm")[3:]:
            pieces.setdefault(piece, len(pieces))
    pieces["<pad>"] = len(pieces)
    write_json(folder / "vocab.json", pieces)
    return len(pieces)


def _fsmt(folder: Path) -> int:
    """FastBPE's codes, which make pieces of some words, and a vocabulary for each side."""
    letters = sorted({letter for word in WORDS for letter in word})
    pieces = [*SPECIAL, *(f"{x}{end}" for x in letters for end in ("", "</w>"))]
    merges = []
    for word in ("the", "das", "house", "haus", "old", "alt"):
        for n in range(1, len(word)):
            end = "</w>" if n == len(word) - 1 else ""
            merges.append(f"{word[:n]} {word[n]}{end}")
            pieces.append(f"{word[: n + 1]}{end}")
    (folder / "merges.txt").write_text("\n".join([*merges, ""]))
    for name in ("src", "tgt"):
        write_json(folder / f"vocab-{name}.json", {piece: n for n, piece in enumerate(pieces)})
    write_json(folder / "tokenizer_config.json", {"langs": ["de", "en"], "do_lower_case": True})
    return len(pieces)


VOCABULARIES: Mapping[str, Callable[[Path], int]] = {
    "bart": _json_tokenizer,
    "fsmt": _fsmt,
    "m2m_100": _with_languages,
    "marian": _marian,
    "mbart": _with_languages,
    "mbart-50": _with_languages,
    "mt5": _json_tokenizer,
    "pegasus": _json_tokenizer,
    "t5": _json_tokenizer,
}
"""For each family, what writes its vocabulary and says how large that is."""


def options(kind: str) -> ModelOptions:
    """The languages of a family's tiny model, where it has some."""
    return ModelOptions(source_lang="deu_Latn", target_lang="eng_Latn") if kind in MULTILINGUAL else ModelOptions()


def is_computed(kind: str, name: str) -> bool:
    """Whether a parameter is a table of sinusoids."""
    return "embed_positions" in name and kind not in ("bart", "mbart", "mbart-50")


def randomise(kind: str, model: Any) -> None:
    """Weights with which each step attends to something else; with those that models are made with none does."""
    from torch.nn.init import normal_

    for name, weight in model.named_parameters():
        if not is_computed(kind, name):
            gain = "norm" in name and name.endswith("weight")
            sharp = any(part in name for part in ("embed", "shared", ".q", ".k"))  # what tells steps apart
            wide = 0.35 if kind in T5_KINDS else 0.7  # the scores of T5 are not scaled down
            normal_(weight, float(gain), wide if sharp else 0.2)


def write_weights(
    kind: str,
    folder: Path,
    rows: int,
    positions: int,
    settings: Mapping[str, Any],
    fill: Callable[[str, Any], None] = randomise,
) -> Any:
    """Save a model of a number of pieces with its settings; returns transformers' own module."""
    import torch
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    sizes = {**T5_SIZES} if kind in T5_KINDS else {**SIZES, "max_position_embeddings": positions}
    if kind == "fsmt":
        sizes |= {"src_vocab_size": rows, "tgt_vocab_size": rows, "langs": ["de", "en"]}
    else:
        sizes["vocab_size"] = rows
    if kind == "marian":
        sizes |= {"pad_token_id": rows - 1, "decoder_start_token_id": rows - 1}
    config = AutoConfig.for_model(kind.removesuffix("-50"), **{**sizes, **settings})
    torch.manual_seed(1)
    model: Any = AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager").eval()
    fill(kind, model)
    model.tie_weights()
    model.save_pretrained(folder)
    return model


def save_model(kind: str, folder: Path, size: int = 0, fill: Callable[[str, Any], None] = randomise) -> Any:
    """A model of a family, saved with a tiny vocabulary; also transformers' own module."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = max(size, VOCABULARIES[kind](folder))
    model = write_weights(kind, folder, rows, 40, SETTINGS[kind], fill)
    if kind == "mbart-50":
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer"})
    return model
