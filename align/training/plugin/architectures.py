"""Architectures of the Transformers that are trained here."""

from __future__ import annotations

from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import base_architecture


def _shape(args: Any, layers: int, width: int, feed_forward: int, heads: int) -> None:
    """Set the shape of both sides, except where the command line sets it."""
    for part in ("encoder", "decoder"):
        for name, value in (
            ("embed_dim", width),
            ("ffn_embed_dim", feed_forward),
            ("attention_heads", heads),
            ("layers", layers),
        ):
            setattr(args, f"{part}_{name}", getattr(args, f"{part}_{name}", value))


@register_model_architecture("transformer", "align_kobayashi2020")
def align_kobayashi2020(args: Any) -> None:
    """Set the German-English shape of Kobayashi et al. (2020): 6 + 6 layers, 4 heads, d 512, ReLU, dropout 0.1."""
    _shape(args, layers=6, width=512, feed_forward=1024, heads=4)
    args.dropout = getattr(args, "dropout", 0.1)
    args.activation_fn = getattr(args, "activation_fn", "relu")
    base_architecture(args)


@register_model_architecture("transformer", "align_small")
def align_small(args: Any) -> None:
    """Set the bundled models' shape: 3 + 3 layers, 4 heads, d 256, target embedding tied to the output projection."""
    _shape(args, layers=3, width=256, feed_forward=1024, heads=4)
    args.dropout = getattr(args, "dropout", 0.1)
    args.share_decoder_input_output_embed = getattr(args, "share_decoder_input_output_embed", True)
    base_architecture(args)
