"""BERT-like encoders as `Inspected`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.analysis.maps import SPECIAL, Maps, Numbers, Tokens
from align.analysis.models.pretrained import KINDS, load_model, load_tokenizer, weights_file
from align.analysis.models.stream import BatchedModel, Encoded, sentence_maps
from align.analysis.recording import LayerAttention, split_heads, with_norms
from align.core.errors import ModelError, PairError
from align.core.scores import head_products
from align.core.types import Pair, Part
from align.models.huggingface.files import weight_files
from align.models.recorder import fingerprint


class EncoderModel(BatchedModel[Any]):
    """An encoder that provides its attention; see `Inspected`.

    A pair is one or two segments of text. In the tokens, the second segment's words follow the first's. Pieces like
    [CLS] and [SEP] belong to no word.

    Args:
        model: transformers' module, which returns attention weights.
        tokenizer: a tokenizer of the library tokenizers.
        kind: a key of `KINDS`.
        max_pieces: maximum number of pieces in the model's input.
    """

    def __init__(self, model: Any, tokenizer: Any, kind: str, max_pieces: int, name: str) -> None:
        self.model, self.name = model, name
        self._tokenizer, self._max_pieces = tokenizer, max_pieces
        layers = model.get_submodule(KINDS[kind].layers)
        self._values = [layer.get_submodule(KINDS[kind].value) for layer in layers]
        self._heads: int = model.config.num_attention_heads
        outs = [layer.get_submodule(KINDS[kind].out) for layer in layers]
        self._products = [head_products(split_heads(out.weight.detach(), self._heads)) for out in outs]
        self.shape = {"encoder": (len(outs), self._heads)}

    def read_batch(self, batch: Sequence[Encoded[Any]], parts: Collection[Part]) -> Iterator[Mapping[Part, Maps]]:
        """See `BatchedModel`."""
        recorded = self.record(*self._padded(batch))
        for n, tokens in enumerate(map(_tokens, batch)):
            yield {"encoder": sentence_maps(recorded, n, tokens, tokens)}

    def batch_states(self, batch: Sequence[Encoded[Any]]) -> Iterator[tuple[Tokens, Numbers]]:
        """See `BatchedModel`."""
        with torch.inference_mode():
            hidden = self._forward(*self._padded(batch), output_hidden_states=True).hidden_states
        states = torch.stack(hidden).transpose(0, 1).numpy(force=True)  # [B, L+1, S, D]
        for tokens, layers in zip(map(_tokens, batch), states, strict=True):
            yield tokens, layers[:, : len(tokens)]

    def record(self, ids: Tensor, mask: Tensor, segments: Tensor) -> list[LayerAttention]:
        """Return the attention of all layers.

        Args:
            ids: `[B, S]`, on the model's device.
            mask: False for padding `[B, S]`.
            segments: segment of each piece `[B, S]`.
        """
        values: list[Tensor] = []  # of each layer [B, S, H d]
        with ExitStack() as hooks, torch.inference_mode():
            for linear in self._values:
                hook = linear.register_forward_hook(lambda module, args, output: values.append(output))
                hooks.callback(hook.remove)
            weights = self._forward(ids, mask, segments, output_attentions=True).attentions
            layers = zip(weights, values, self._products, strict=True)
            return [
                with_norms("encoder", n, a, v.view(*v.shape[:2], self._heads, -1).transpose(1, 2), products)
                for n, (a, v, products) in enumerate(layers, 1)
            ]

    def pieces(self, words: Sequence[str]) -> tuple[Sequence[int], Sequence[int]] | None:
        """Return the ids of a segment with special pieces, and the word of each; None if it is blank or too long."""
        encoded = self.encode(Pair(tuple(words), (), 0))
        return (encoded.input.ids, _tokens(encoded).words) if encoded else None

    def _forward(self, ids: Tensor, mask: Tensor, segments: Tensor, **outputs: bool) -> Any:
        named = {"token_type_ids": segments} if hasattr(self.model.config, "type_vocab_size") else {}
        return self.model(input_ids=ids, attention_mask=mask.long(), **named, **outputs)

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded[Any] | None:
        """See `BatchedModel`."""
        if not pair.source:
            return None
        second = list(pair.target) or None
        try:
            encoding = self._tokenizer.encode(list(pair.source), second, is_pretokenized=True)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # the library's own type, not an Exception
            if re.search("[\ud800-\udfff]", " ".join((*pair.source, *pair.target))):
                raise PairError("a word has half a character, a surrogate", line=pair.id) from None
            raise ModelError(f"its tokenizer fails over line {pair.id}: {type(error).__name__}") from None
        if len(encoding.ids) > self._max_pieces or all(word is None for word in encoding.word_ids):
            return None
        return Encoded(pair, encoding, (len(encoding.ids), 0))

    def _padded(self, batch: Sequence[Encoded[Any]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, mask and segments of a batch `[B, S]`."""
        longest = max(len(encoded.input.ids) for encoded in batch)
        ids = torch.full((len(batch), longest), self.model.config.pad_token_id)
        segments = torch.zeros_like(ids)
        for row, encoded in enumerate(batch):
            ids[row, : len(encoded.input.ids)] = torch.tensor(encoded.input.ids)
            segments[row, : len(encoded.input.ids)] = torch.tensor(encoded.input.type_ids)
        segments.clamp_(max=getattr(self.model.config, "type_vocab_size", 1) - 1)
        lengths = torch.tensor([[len(encoded.input.ids)] for encoded in batch])
        mask = torch.arange(longest) < lengths
        device = self.model.device
        return ids.to(device), mask.to(device), segments.to(device)


def _tokens(encoded: Encoded[Any]) -> Tokens:
    """Return the pieces of a pair in the model's spelling, with their words."""
    encoding, first = encoded.input, len(encoded.pair.source)
    words = (
        SPECIAL if word is None else word + (first if segment else 0)
        for word, segment in zip(encoding.word_ids, encoding.sequence_ids, strict=True)
    )
    return Tokens(tuple(encoding.tokens), tuple(words), (*encoded.pair.source, *encoded.pair.target))


def load_encoder(folder: Path, device: str = "cpu") -> EncoderModel:
    """Load an encoder that was saved by transformers, with its tokenizer.

    Raises:
        ModelError: a file is missing, damaged, or from another model.
    """
    model, max_pieces = load_model(folder)
    tokenizer = load_tokenizer(folder, model.config)
    kind = model.config.model_type
    files = [folder / "config.json", folder / "tokenizer.json", *weight_files(weights_file(folder))]
    name = f"huggingface:{kind}@{fingerprint(files, '')}"
    return EncoderModel(model.requires_grad_(False).to(device), tokenizer, kind, max_pieces, name)
