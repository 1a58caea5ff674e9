"""Translate with a Hugging Face model, by transformers' beam search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from align.core.stream import BATCH_TOKENS, of_one_length
from align.core.types import Search
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.huggingface.text import Text
from align.models.recorder import ModelRecorder


class HuggingFaceTranslator:
    """Translates with a recorder's own model and vocabulary; see `Translator`.

    It searches as fairseq does and ignores generation_config.json: until there are as many translations as the beam is
    wide, each with at least one piece and an end. Padding is never generated.

    Args:
        text: text processing of the model.
        recorder: the model.
        search: how to search.
        batch_tokens: source pieces per batch, each counted as often as the beam is wide.
    """

    def __init__(
        self, text: Text, recorder: ModelRecorder, search: Search | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        self.search = search or Search()
        self._recorder = recorder
        self._batch_tokens = batch_tokens
        self._model = recorder.own_model()
        self.longest: int = self._model.config.max_position_embeddings
        self._pieces = {number: piece for piece, number in text.known.items()} | {text.unk: UNKNOWN}
        self._detokenize = Detokenizer(text.sides[1].rules, text.join)

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Return the translations of sentences given as pieces.

        A batch holds sentences of one length, so that no translation depends on its neighbours.
        """
        translations: list[tuple[str, ...]] = [()] * len(sources)
        for places in of_one_length([len(source) for source in sources], self._batch_tokens, self.search.beam):
            for place, words in zip(places, self._translate([sources[place] for place in places]), strict=True):
                translations[place] = words
        return translations

    def _translate(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Translate a batch of sentences of one length."""
        tokens = torch.tensor(sources, device=self._recorder.device)  # [B, S]
        settings = self._settings(tokens.shape[1])
        with self._recorder.turn:
            outputs = self._model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=settings)
        return [self._words(ids) for ids in outputs[:, len(self._recorder.start) :].tolist()]

    def _settings(self, length: int) -> Any:
        """Return transformers' generation settings for sources of `length` pieces."""
        config, start = self._model.config, self._recorder.start
        # transformers 5.23 makes a T5's cache for as many layers as its encoder has
        cache = getattr(config, "num_layers", 0) == getattr(config, "num_decoder_layers", 0)
        pieces = min(
            int(self.search.max_len_a * length + self.search.max_len_b),
            self.longest - len(start),
            self._recorder.max_positions[1] - 1,
        )
        extra_starts = len(start) - 1  # these count as generated
        return type(self._model.generation_config)(
            num_beams=self.search.beam,
            length_penalty=self.search.length_penalty,
            early_stopping=self.search.beam > 1,
            min_new_tokens=extra_starts + 1,
            max_new_tokens=extra_starts + pieces + 1,
            decoder_start_token_id=start[0],
            forced_bos_token_id=start[1] if extra_starts else None,
            forced_eos_token_id=config.eos_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=self._recorder.pad,
            suppress_tokens=None if config.pad_token_id in (None, config.eos_token_id) else [config.pad_token_id],
            renormalize_logits=config.model_type == "marian",  # its padding has a share of the probability
            use_cache=cache,
        )

    def _words(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the words of generated ids up to the end symbol, without special pieces."""
        end = self._model.config.eos_token_id
        words = ids[: ids.index(end)] if end in ids else ids
        return self._detokenize([self._pieces[n] for n in words if n in self._pieces])
