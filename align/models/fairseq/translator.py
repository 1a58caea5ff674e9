"""Translate with a recorder's model, by fairseq's beam search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from align.core.stream import BATCH_TOKENS, of_one_length
from align.core.types import Search
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.fairseq.packed import pack
from align.models.recorder import ModelRecorder


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
