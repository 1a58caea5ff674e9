"""Tiny decoder-only models with random weights, saved by transformers itself, and their tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tests.hugging import WORDS

SPECIAL = ("<unk>", "<s>", "</s>", "<|user|>", "<|end|>", "<|answer|>")
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|user|>{{ message['content'] | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|answer|>{% endif %}"
)

SIZES: dict[str, Any] = {
    "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
}  # fmt: skip

LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 8}),
    "llama 3": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "mistral": ("Mistral", {"sliding_window": 7, "head_dim": 4}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
    "gemma2": ("Gemma2", {"sliding_window": 8, "head_dim": 8, "query_pre_attn_scalar": 6}),
    "gemma3": (
        "Gemma3",
        {"sliding_window": 8, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"] * 2},
    ),
}
"""transformers' name of each kind of model, and its settings."""


def make_model(name: str, vocabulary: int = 60, seed: int = 1, **settings: Any) -> Any:
    """Return a random model of transformers that computes attention weights."""
    import transformers as hf

    kind, own = MODELS[name]
    torch.manual_seed(seed)
    config = getattr(hf, f"{kind}{'Text' if kind == 'Gemma3' else ''}Config")(
        **{**SIZES, "vocab_size": vocabulary, **own, **settings}
    )
    config._attn_implementation = "eager"
    model = getattr(hf, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # large enough for attention that differs between pieces
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def save_tokenizer(folder: Path, template: str | None = CHAT) -> int:
    """Write a tokenizer.json like Llama 2's, and a chat template; return the size of the vocabulary."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    characters = sorted({*"".join(WORDS), *"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:.,\n\u2581"})
    ids = {piece: n for n, piece in enumerate((*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *characters))}
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for n in range(len(word)):
            left, right = f"\u2581{word[:n]}", word[n]
            if left + right not in ids:
                ids[left + right] = len(ids)
                merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "LlamaTokenizer"}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return len(ids)


def save(folder: Path, name: str = "llama", template: str | None = CHAT, **settings: Any) -> Any:
    """Write a folder with a random model, its tokenizer and a chat template; return transformers' model."""
    size = save_tokenizer(folder, template)
    model = make_model(name, size, **settings)
    model.save_pretrained(folder)
    return model
