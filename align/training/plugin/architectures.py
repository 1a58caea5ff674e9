"""The Transformers that are trained here, under names of our own."""

from __future__ import annotations

from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import base_architecture


def _shape(args: Any, layers: int, width: int, feed_forward: int, heads: int) -> None:
    """Fill in a shape, the same for both sides, where the command line does not say otherwise."""
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
    """The German-English Transformer of Kobayashi et al. (2020): 6 + 6 layers, 4 heads, d 512, ReLU, dropout 0.1."""
    _shape(args, layers=6, width=512, feed_forward=1024, heads=4)
    args.dropout = getattr(args, "dropout", 0.1)
    args.activation_fn = getattr(args, "activation_fn", "relu")
    base_architecture(args)


@register_model_architecture("transformer", "align_small")
def align_small(args: Any) -> None:
    """The bundled models' shape: 3 + 3 layers, 4 heads, d 256, one matrix for reading and predicting target pieces."""
    _shape(args, layers=3, width=256, feed_forward=1024, heads=4)
    args.dropout = getattr(args, "dropout", 0.1)
    args.share_decoder_input_output_embed = getattr(args, "share_decoder_input_output_embed", True)
    base_architecture(args)
