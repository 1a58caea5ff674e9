"""From a fairseq model folder to one in the format of Hugging Face's transformers: an FSMT model.

Its weights are the same, by the same names; FSMT computes what fairseq's Transformer does where that has layer norms
after its sums, positions as sines, and no parts that came later.

Run it with `python examples/to_hugging_face.py MODEL FOLDER`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

from align.models.engine.builder import KEPT
from align.models.fairseq.architecture import UNUSED, upgraded
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.fairseq.dictionary import EOS, PAD, read_dictionary
from align.models.folder import find_model
from align.models.load import load
from align.models.model_toml import ModelOptions

OTHER_SHAPES = (
    *(f"{side}_{name}" for side in ("encoder", "decoder") for name in ("normalize_before", "learned_pos")),
    "no_token_positional_embeddings", "layernorm_embedding", "scale_attn", "scale_heads", "scale_fc", "scale_resids",
    "cross_self_attention",
)  # fmt: skip
"""Settings of models that FSMT does not compute."""


def convert(model: str, folder: Path) -> None:
    """Write a fairseq model in the other format.

    Args:
        model: name of a bundled model, or a folder with a model.toml.
        folder: where to; it is made.

    Raises:
        ValueError: it is a model that the other format cannot hold; or a file is missing or damaged.
        OSError: the folder cannot be made, or a file in it not be written.
    """
    from safetensors.torch import save_file

    load(model, device="cpu")  # which checks all of its files
    found = find_model(model, ModelOptions())
    state = load_checkpoint(found.checkpoint)
    settings = model_settings(saved_settings(state), state["model"])
    if other := [name for name in OTHER_SHAPES if getattr(settings, name, False)]:
        raise ValueError(f"{model}: FSMT has no {other[0]}")
    if any(name.endswith(f".{KEPT}") for name in state["model"]):
        raise ValueError(f"{model}: FSMT has as many heads in each layer, and some were pruned here")
    languages = (found.options.source_lang or "", found.options.target_lang or "")
    rules = [found.rules(language, side) for side, language in enumerate(languages)]
    if not all(languages) or any(rule.subwords != "sentencepiece" for rule in rules):
        raise ValueError(f"{model}: its model.toml has to name languages and sentencepiece models")
    folder.mkdir(parents=True, exist_ok=True)
    unused = re.compile("|".join(UNUSED))
    weights = {name: weight for name, weight in upgraded(state["model"]).items() if not unused.fullmatch(name)}
    own = (state["model"].get(f"decoder.{name}") for name in ("output_projection.weight", "embed_out"))
    last = next((weight for weight in own if weight is not None), weights["decoder.embed_tokens.weight"])
    weights["decoder.output_projection.weight"] = last  # which transformers needs to translate
    kept = {f"model.{name}": weight.clone().contiguous() for name, weight in weights.items()}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    sizes = []
    for language, rule, vocabulary, spm in zip(
        languages, rules, VOCABULARIES, ("source.spm", "target.spm"), strict=True
    ):
        dictionary = read_dictionary(found.dictionary(language))
        _write_json(folder / vocabulary, {piece: n for n, piece in enumerate(dictionary.pieces)})
        sizes.append(len(dictionary))
        assert rule.subword_file
        shutil.copyfile(rule.subword_file, folder / spm)
    _write_json(folder / "config.json", _config(settings, languages, sizes, weights))
    source, target = languages
    tokenizer = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": True}  # which reads files of these names
    _write_json(folder / "tokenizer_config.json", {**tokenizer, "source_lang": source, "target_lang": target})
    lines = [f"source = {json.dumps(source)}", f"target = {json.dumps(target)}", "", "[text]"]
    lines += [f'case = "{rules[0].case}"', f'tokenizer = "{rules[0].tokenizer}"', ""]
    for (score, position), cell in found.calibration(languages).items():
        head = '"all"' if cell.head == "all" else cell.head
        lines += [f"[calibration.{position}.{score}]", f"layer = {cell.layer}", f"head = {head}", ""]
    (folder / "model.toml").write_text("\n".join(lines), encoding="utf-8")


VOCABULARIES = ("vocab.json", "target_vocab.json")


def _config(settings: Any, languages: tuple[str, str], sizes: list[int], weights: dict[str, Tensor]) -> dict[str, Any]:
    """Return the content of config.json."""
    return {
        "model_type": "fsmt",
        "architectures": ["FSMTForConditionalGeneration"],
        "langs": list(languages),
        "src_vocab_size": sizes[0],
        "tgt_vocab_size": sizes[1],
        "d_model": weights["encoder.embed_tokens.weight"].shape[1],
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.encoder_attention_heads,
        "decoder_attention_heads": settings.decoder_attention_heads,
        "encoder_ffn_dim": weights["encoder.layers.0.fc1.weight"].shape[0],
        "decoder_ffn_dim": weights["decoder.layers.0.fc1.weight"].shape[0],
        "activation_function": getattr(settings, "activation_fn", "relu"),
        "scale_embedding": not getattr(settings, "no_scale_embedding", False),
        "max_position_embeddings": getattr(settings, "max_source_positions", 1024),
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": 0,
        "decoder_start_token_id": EOS,
        "tie_word_embeddings": False,
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        convert(sys.argv[1], Path(sys.argv[2]))
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[0]}: error: {error}")
