"""Translate with a recorder's model, by fairseq's beam search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from align.core.stream import BATCH_TOKENS, of_one_length
from align.core.types import Search
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.engine.linear import has_packed_product, make_linear
from align.models.recorder import ModelRecorder

ROWS = 16
"""Rows are padded to a multiple of this: a product is prepared again for each number of rows, and a beam search changes
their number whenever a sentence is finished.
"""


class PackedModule(nn.Module):
    """Replaces a linear layer of a model on a CPU and in float32.

    fairseq's encoder reads `weight` and `bias` of some layers and does not call them. If gradients are required, the
    product is torch's own; a weight that has been changed in place is packed again.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self._pack()

    def _pack(self) -> None:
        self._version = self.weight._version
        self._multiply = make_linear(self.weight.detach(), None if self.bias is None else self.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., O]` for `[..., I]`."""
        if torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad):
            return linear(x, self.weight, self.bias)
        if self.weight._version != self._version:
            self._pack()
        rows = x.reshape(-1, x.shape[-1])
        product = self._multiply(pad(rows, (0, 0, 0, -len(rows) % ROWS)))
        return product[: len(rows)].view(*x.shape[:-1], -1)


def pack(model: Any) -> None:
    """Replace a model's linear layers by packed ones, if this machine supports them; a second call changes nothing."""
    if not has_packed_product("float32"):
        return
    for module in list(model.modules()):
        for name, child in module.named_children():
            weight = child.weight if type(child) is nn.Linear else None  # subclasses do more than a linear layer
            if weight is not None and (weight.device.type, weight.dtype) == ("cpu", torch.float32):
                setattr(module, name, PackedModule(child))


class FairseqTranslator:
    """Translates with a recorder's own model and dictionaries; see `Translator`.

    Args:
        batch_tokens: source pieces per batch, each counted as often as the beam is wide.
    """

    def __init__(self, recorder: ModelRecorder, search: Search | None = None, batch_tokens: int = BATCH_TOKENS) -> None:
        model = recorder.own_model()  # patches fairseq
        pack(model)
        from fairseq.sequence_generator import SequenceGenerator

        self.search = search or Search()
        self.longest = recorder.max_positions[0]
        self._recorder = recorder
        self._batch_tokens = batch_tokens
        self._detokenize = Detokenizer(recorder.sides[1].rules)
        self._dictionary = model.decoder.dictionary
        self._generator = SequenceGenerator(
            [model],
            self._dictionary,
            beam_size=self.search.beam,
            len_penalty=self.search.length_penalty,
            max_len_a=self.search.max_len_a,
            max_len_b=self.search.max_len_b,
        )

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Return the translations of sentences given as pieces, `</s>` last.

        A batch holds sentences of one length: fairseq limits a translation's length by the longest source of its batch,
        but no translation may depend on its neighbours.
        """
        translations: list[tuple[str, ...]] = [()] * len(sources)
        for places in of_one_length([len(source) for source in sources], self._batch_tokens, self.search.beam):
            for place, words in zip(places, self._translate([sources[place] for place in places]), strict=True):
                translations[place] = words
        return translations

    def _translate(self, sources: Sequence[Sequence[int]]) -> Iterator[tuple[str, ...]]:
        tokens = torch.tensor(sources, device=self._recorder.device)  # [B, S]
        lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
        with self._recorder.turn:
            beams = self._generator.generate(None, {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})
        specials, unknown = self._dictionary.nspecial, self._dictionary.unk()
        for hypotheses in beams:
            ids = hypotheses[0]["tokens"].tolist()
            pieces = [UNKNOWN if n == unknown else self._dictionary[n] for n in ids if n >= specials or n == unknown]
            yield self._detokenize(pieces)
