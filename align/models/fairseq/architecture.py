"""Derive the shape of a Transformer, which runs without fairseq, from a checkpoint's settings and weights."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from align.core.types import Dtype
from align.models.engine.builder import Architecture, Positions, Side, build_transformer
from align.models.engine.forward import Transformer
from align.models.engine.linear import Activation
from align.models.engine.weights import Weights
from align.models.fairseq.dictionary import EOS, PAD
from align.models.recorder import TransformerAttention

DISTILLED = "align_distilled"
"""Name of models that were distilled to align (`recipes/distil.py`), which fairseq does not know.

With the setting `full_context` their decoder has no causal mask.
"""

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "tanh": "tanh",
    "linear": "none",
}

UNUSED = (
    r"(en|de)coder\.version",
    r"(en|de)coder\.embed_positions\.(_float_tensor|weights)",
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)",  # copies in fairseq 0.12
    r"decoder\.(output_projection\.weight|output_projection\.bias|embed_out|project_out_dim\.weight)",
    r"decoder\.adaptive_softmax\..*",
    r"(en|de)coder\.layer_norm\.(weight|bias)",  # the decoder's, and those that fairseq before 0.5 did not use
    r"classification_heads\..*",
)
"""Weights that attention does not depend on."""


def fairseq_transformer(
    settings: Namespace, weights: Mapping[str, Tensor], device: str = "cpu", dtype: Dtype = "float32"
) -> Transformer:
    """Return the Transformer that a checkpoint describes."""
    if getattr(settings, "cross_self_attention", False):
        raise ValueError("its decoder attends to source and target at once (cross_self_attention)")
    named_weights = Weights(upgraded(weights), UNUSED)
    architecture = Architecture(
        _side(settings, named_weights, "encoder"),
        _side(settings, named_weights, "decoder"),
        ACTIVATIONS[getattr(settings, "activation_fn", "relu")],
        scaled=not getattr(settings, "no_scale_embedding", False),
    )
    return build_transformer(architecture, named_weights, device, dtype)


def fairseq_output(settings: Namespace, weights: Mapping[str, Tensor]) -> Tensor:
    """Return the weight of a checkpoint's output layer `[V, D]`, which only translating needs."""
    if getattr(settings, "adaptive_softmax_cutoff", None) is not None:
        raise ValueError("its output is an adaptive softmax, with which models cannot translate here")
    named_weights = Weights(dict(weights))
    names = ("decoder.output_projection.weight", "decoder.embed_out")  # the latter in old checkpoints
    table = next((name for name in names if name in named_weights), "decoder.embed_tokens.weight")
    rows, inner = named_weights.shape(table)
    weight, width = named_weights.take(table, rows, inner), getattr(settings, "decoder_embed_dim", 0) or inner
    if inner != width:
        weight = weight @ named_weights.take("decoder.project_out_dim.weight", inner, width)
    return weight


def _side(settings: Namespace, weights: Weights, side: str) -> Side:
    """Return the shape of a side; settings that are missing are derived from the weights."""
    heads: int | None = getattr(settings, f"{side}_attention_heads", None)
    if heads is None:
        raise ValueError(f"its settings have no {side}_attention_heads")
    before: bool = getattr(settings, f"{side}_normalize_before", False)
    with_norm = 2 if side == "encoder" else 3  # the first versions had no norm after the last layer
    last_norm = before and weights.number(f"{side}.version", 1) >= with_norm
    if side == "decoder" and getattr(settings, "no_decoder_final_norm", False):
        last_norm = False
    learned: bool = getattr(settings, f"{side}_learned_pos", False)
    positions: Positions = "learned" if learned else "sinusoids"
    return Side(
        layers=getattr(settings, f"{side}_layers", 0) or weights.layers(side),
        heads=heads,
        width=getattr(settings, f"{side}_embed_dim", 0) or weights.shape(f"{side}.embed_tokens.weight")[1],
        before=before,
        last_norm=last_norm,
        positions="none" if getattr(settings, "no_token_positional_embeddings", False) else positions,
        first=PAD + 1,
        causal=not (getattr(settings, "arch", "") == DISTILLED and getattr(settings, "full_context", False)),
    )


def max_positions(settings: Namespace) -> tuple[int, int]:
    """Return the maximum number of pieces on the source's and the target's side."""
    limits: list[int] = [getattr(settings, f"max_{side}_positions", 1024) for side in ("source", "target")]
    if not getattr(settings, "no_token_positional_embeddings", False):
        limits = [min(limit, 100_000) for limit in limits]  # as many positions as fairseq computes
    return limits[0], limits[1]


def upgraded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename weights as in fairseq 0.12: previously layer norms had numbers, and three projections were one weight."""
    renamed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if match := re.fullmatch(r"((en|de)coder)(\.layers\.\d+)\.layer_norms\.([0-2])(\.\w+)", name):
            of_decoder = ["encoder_attn_layer_norm"] if match[1] == "decoder" else []
            norms = ["self_attn_layer_norm", *of_decoder, "final_layer_norm"]
            new = norms[int(match[4])] if int(match[4]) < len(norms) else name
            renamed[f"{match[1]}{match[3]}.{new}{match[5]}"] = weight
        elif (match := re.fullmatch(r"(.*_attn)\.in_proj_(weight|bias)", name)) and weight.dim():
            third = len(weight) // 3
            for n, part in enumerate("qkv"):
                renamed[f"{match[1]}.{part}_proj.{match[2]}"] = weight[n * third : (n + 1) * third if n < 2 else None]
        else:
            renamed[name] = weight
    return renamed


def attention_of(model: Any, name: str) -> TransformerAttention:
    """Return an attention recorder of a fairseq module with its current weights."""
    # the settings that `model_settings` returns for a file
    settings: dict[str, Any] = {"activation_fn": model.encoder.cfg.activation_fn}
    for part, side in (("encoder", model.encoder), ("decoder", model.decoder)):
        layer = side.layers[0]
        settings |= {
            f"{part}_attention_heads": layer.self_attn.num_heads,
            f"{part}_normalize_before": layer.normalize_before,
            f"{part}_learned_pos": isinstance(side.embed_positions, torch.nn.Embedding),
            f"{part}_embed_dim": layer.self_attn.embed_dim,
        }
    described = Namespace(
        **settings,
        no_token_positional_embeddings=model.encoder.embed_positions is None,
        no_scale_embedding=model.encoder.embed_scale == 1,
        cross_self_attention=model.decoder.cross_self_attention,
        no_decoder_final_norm=model.decoder.layer_norm is None,
    )
    weights = {key: weight.detach() for key, weight in model.state_dict().items()}
    transformer = fairseq_transformer(described, weights, str(next(model.parameters()).device))
    return TransformerAttention(transformer, name=name, pad=PAD, start=(EOS,))
