"""Tiny Hugging Face models with random weights, saved by transformers itself, and their vocabularies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from align.models.model_toml import ModelOptions

WORDS = [
    "das", "haus", "ist", "alt", "und", "gross", "wir", "sehen",
    "the", "house", "is", "old", "and", "big", "we", "see", "it", "now", ".", ",",
]  # fmt: skip
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
LANGUAGES = ("deu_Latn", "eng_Latn", "fra_Latn")
SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 40,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2, "dropout": 0.0,
}  # fmt: skip


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


def train_pieces(path: Path, **options: Any) -> list[str]:
    """Train a sentencepiece model of 40 pieces; returns those."""
    from sentencepiece import SentencePieceTrainer

    path.parent.mkdir(parents=True, exist_ok=True)
    text, prefix = path.parent / "text", path.parent / "trained"
    text.write_text("".join(f"{' '.join(WORDS[n:] + WORDS[:n])}\n" for n in range(len(WORDS)) for _ in range(5)))
    SentencePieceTrainer.train(input=str(text), model_prefix=str(prefix), vocab_size=40, minloglevel=2, **options)
    lines = Path(f"{prefix}.vocab").read_text(encoding="utf-8").splitlines()
    Path(f"{prefix}.model").rename(path)
    Path(f"{prefix}.vocab").unlink()
    text.unlink()
    return [line.split("\t")[0] for line in lines]


def _marian(folder: Path) -> int:
    """Two sentencepiece models and their common vocabulary."""
    pieces: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for name in ("source", "target"):
        for piece in train_pieces(folder / f"{name}.spm")[3:]:
            pieces.setdefault(piece, len(pieces))
    pieces["<pad>"] = len(pieces)
    (folder / "vocab.json").write_text(json.dumps(pieces))
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
        (folder / f"vocab-{name}.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["de", "en"], "do_lower_case": True}))
    return len(pieces)


def _with_languages(folder: Path) -> int:
    return _json_tokenizer(folder, LANGUAGES)


def _config(kind: str, size: int) -> Any:
    import transformers as hf

    some: dict[str, Any] = {"vocab_size": size, **SIZES}
    if kind == "marian":
        some |= {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "bos_token_id": 0}
        return hf.MarianConfig(**some, activation_function="swish", scale_embedding=True)
    if kind == "fsmt":
        del some["vocab_size"]
        return hf.FSMTConfig(**some, src_vocab_size=size, tgt_vocab_size=size, langs=["de", "en"], scale_embedding=True)
    if kind == "m2m_100":
        return hf.M2M100Config(**some, scale_embedding=True)
    if kind in ("mbart", "mbart-50"):
        return hf.MBartConfig(**some, scale_embedding=True)
    if kind in ("t5", "mt5"):
        heads: dict[str, Any] = {
            "num_heads": 4,
            "d_kv": 6,
            "num_layers": 2,
            "num_decoder_layers": 3,
            "d_ff": 24,
            "d_model": 16,
        }
        ids: dict[str, Any] = {"vocab_size": size, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
        gated: dict[str, Any] = {"feed_forward_proj": "gated-gelu"} if kind == "mt5" else {}
        return (hf.MT5Config if kind == "mt5" else hf.T5Config)(**heads, **ids, **gated, dropout_rate=0.0)
    if kind == "pegasus":
        return hf.PegasusConfig(**some, scale_embedding=True)
    return hf.BartConfig(**some)


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

MULTILINGUAL = ("m2m_100", "mbart", "mbart-50")


def options(kind: str) -> ModelOptions:
    """The languages of a family's tiny model, where it has some."""
    return ModelOptions(source_lang="deu_Latn", target_lang="eng_Latn") if kind in MULTILINGUAL else ModelOptions()


def is_computed(kind: str, name: str) -> bool:
    """Whether a parameter is a table of sinusoids."""
    return "embed_positions" in name and kind not in ("bart", "mbart", "mbart-50")


def randomise(kind: str, model: Any) -> None:
    """Weights with which each step attends to something else; with those that models are made with none does."""
    for name, weight in model.named_parameters():
        if not is_computed(kind, name):
            gain = "norm" in name and name.endswith("weight")
            sharp = any(part in name for part in ("embed", "shared", ".q", ".k"))  # what tells steps apart
            torch.nn.init.normal_(weight, float(gain), 0.7 if sharp else 0.2)


def save_model(
    kind: str, folder: Path, seed: int = 1, size: int = 0, fill: Callable[[str, Any], None] = randomise
) -> Any:
    """A model of a family, saved with its vocabulary; also transformers' own module."""
    from transformers import AutoModelForSeq2SeqLM

    folder.mkdir(parents=True, exist_ok=True)
    config = _config(kind, max(size, VOCABULARIES[kind](folder)))
    torch.manual_seed(seed)
    model = AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager").eval()
    fill(kind, model)
    model.tie_weights()
    model.save_pretrained(folder)
    if kind == "mbart-50":
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MBart50Tokenizer"}))
    return model
