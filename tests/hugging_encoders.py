"""Tiny BERT-like encoders with random weights, saved by transformers itself, and their tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.hugging import WORDS

KINDS = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24,
    "max_position_embeddings": 40,
}  # fmt: skip


def _word_pieces() -> tuple[Any, int]:
    """BERT's tokenizer, and the number of its pad."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({p: n for n, p in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer, 0


def _byte_level() -> tuple[Any, int]:
    """RoBERTa's, which marks a word's first letter, and the number of its pad."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", letter) for letter in LETTERS]
    pieces = [*specials, *letters, *(a + b for a, b in merges)]
    tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    tokenizer.add_special_tokens(specials)
    return tokenizer, 1


def save_encoder(folder: Path, kind: str = "bert", module: str = "", seed: int = 1) -> Path:
    """Write a folder with an encoder; returns it."""
    import transformers as hf

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, pad = (_byte_level if "roberta" in kind or kind == "camembert" else _word_pieces)()
    tokenizer.save(str(folder / "tokenizer.json"))
    config: Any = hf.CONFIG_MAPPING[kind]
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": pad, **SIZES}
    if kind == "distilbert":
        names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
        sizes = {{**names, "intermediate_size": "hidden_dim"}.get(name, name): size for name, size in sizes.items()}
    if kind == "electra":
        sizes["embedding_size"] = 12
    torch.manual_seed(seed)
    model = getattr(hf, module)(config(**sizes)) if module else hf.AutoModel.from_config(config(**sizes))
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, mean=float("LayerNorm.weight" in name or "layer_norm.weight" in name), std=0.3)
    model.save_pretrained(folder)
    return folder
