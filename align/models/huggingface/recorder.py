"""Hugging Face models that show their encoder-decoder attention."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from align.core.batching import BATCH_TOKENS, of_one_length
from align.core.errors import shorten
from align.core.merging import NULL
from align.core.merging import PAD as PAD_WORD
from align.core.pieces import IdPair
from align.core.settings import Search
from align.core.types import Batch, CrossAttention, Dtype, Pair, Pieces, TextWarning
from align.models.again import Load, load_again
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.engine.forking import under_way
from align.models.engine.forward import Padded, Transformer
from align.models.huggingface.text import TAG, Text
from align.models.ids import pieces_of

if TYPE_CHECKING:
    from align.core.backend import Translator
    from align.models.folder import ModelFolder


class HuggingFaceRecorder:
    """An encoder-decoder Transformer with its text processing; see `Recorder` for the attributes.

    The decoder is run only up to the cross-attention of the last layer asked for. Threads may share it.

    Args:
        transformer: the model.
        text: how its text is prepared.
        surroundings: ids before and after a source's pieces; at least one in all.
        start: ids that the decoder reads before a target's pieces; one or more.
        prefix: words that every source begins with.
        tagged: whether a source may begin with its own tag for the target language.
        swapped: whether the languages are those of a forward model, swapped.
        pad: the id of padding.
        learned: whether its positions are weights.
        max_positions: the most pieces that the model takes on either side, what surrounds them included.
        name: for the signature.
        languages: codes of the source's and the target's language.
        load: loads such a model.
        origin: folder, device and dtype, the arguments of `load`.

    Attributes:
        transformer: the model.
        prepared: how its text is prepared.
        start: ids that the decoder reads before a target's pieces.
        turn: to be held while transformers' own module is used.
    """

    def __init__(
        self,
        transformer: Transformer,
        text: Text,
        surroundings: tuple[Sequence[int], Sequence[int]],
        start: Sequence[int],
        prefix: Sequence[str] = (),
        *,
        tagged: bool = False,
        swapped: bool = False,
        pad: int,
        learned: bool,
        max_positions: tuple[int, int],
        name: str,
        languages: tuple[str, str],
        load: Load,
        origin: tuple[ModelFolder, str, Dtype],
    ) -> None:
        self.transformer = transformer
        self.prepared, self._surroundings = text, surroundings
        self.start: Sequence[int] = tuple(start)
        self._prefix = tuple(prefix)
        self._tags = {piece: text.ids[0](piece) for piece in text.codes.values()} if tagged else {}
        self._load, self._origin = load, origin
        self._warned = False
        self._learned = learned
        self._own_model: Any = None
        self.turn = threading.RLock()
        self.name = name
        self.layers = len(transformer.decoder.layers)
        self.heads = transformer.heads
        self.device = str(transformer.device)
        self.dtype: str = origin[2]
        self.pad, self.unk = pad, text.unk
        self.special = text.special
        self.languages = languages
        self.text = ", ".join(str(side.rules) for side in text.sides)
        if prefix:
            self.text += f", after {shorten(' '.join(prefix))!r}"
        if swapped:
            self.text += "; languages: those of the forward model, swapped"
        self.max_positions = (max_positions[0], max_positions[1] - len(start) + 1)  # counted with one start

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled is where the model was loaded from, and not its weights."""
        return load_again, (self._load, self.name, *self._origin)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention of the given layers (from 1), lowest first; see `Recorder.record`.

        Of several ids that the decoder begins with, the last one takes the part of `</s>`: the row that reads it
        predicts the first piece.
        """
        first = len(self.start) - 1
        for found in self.transformer.record(*self.padded(batch), sorted(layers)):
            yield replace(found, weights=found.weights[:, :, first:]) if first else found

    def padded(self, batch: Batch) -> tuple[Padded, Padded]:
        """What the encoder reads and what the decoder reads, on the model's device."""
        start = torch.tensor(self.start).expand(len(batch.target), -1)
        steps = torch.cat((start, batch.target), 1)
        kept = torch.cat((torch.ones_like(start, dtype=torch.bool), batch.target_words != PAD_WORD), 1)
        source = Padded(batch.source.to(self.device), (batch.source_words != PAD_WORD).to(self.device))
        return source, Padded(steps.to(self.device), kept.to(self.device))

    def encode(self, pair: Pair) -> Pieces:
        """Return the pieces of one pair; what surrounds the source's, a prefix among it, is no word.

        A tag such as `>>fra<<` that the source begins with takes the place of the model's own, and counts as NULL.
        """
        before, after = self._surroundings
        tag, source_words = self._untagged(pair.source)
        if tag is not None:
            before = [tag, *(n for n in before if n not in self._tags.values())]
        source, words_of = self.prepared.sides[0]((*self._prefix, *source_words))
        if own := len(self._prefix):
            words_of = [word - own if word >= own else NULL for word in words_of]
        target, target_words = self.prepared.sides[1](pair.target)
        words = len(pair.source), len(pair.target)
        words_of = [*(NULL for _ in before), *words_of, *(NULL for _ in after)]
        return Pieces([*before, *source, *after], words_of, target, target_words, words)

    def _untagged(self, words: Sequence[str]) -> tuple[int | None, Sequence[str]]:
        """Return the id of the tag that words begin with, if any, and the words without it: none is left out."""
        match = TAG.fullmatch(words[0]) if self._tags and words else None
        if match is None:
            return None, words
        if match[1] not in self._tags:
            if not self._warned:
                self._warned = True
                message = f"the model has no language {shorten(match[1])}: this tag is read as a word of the source"
                warnings.warn(message, TextWarning, stacklevel=2)
            return None, words
        return self._tags[match[1]], (match[2], *words[1:])

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        """How the pieces of each word are written."""
        source, target = self.prepared.sides
        words = (*self._prefix, *self._untagged(pair.source)[1])
        return source.spell(words)[len(self._prefix) :], target.spell(pair.target)

    def given(self, pair: IdPair) -> Pieces:
        """The pieces of a pair that is given as ids."""
        stacks = self.transformer.encoder, self.transformer.decoder
        rows = len(stacks[0].embedding.pieces), len(stacks[1].embedding.pieces)
        return pieces_of(pair, self.special, self.pad, self.start, rows)

    def own_model(self) -> Any:
        """The same model as transformers' own module; loaded when it is first asked for.

        Raises:
            ModelError: transformers cannot build it.
            ModuleNotFoundError: transformers 5 or later is not installed.
        """
        from align.models.huggingface.own_model import load_own_model  # which imports transformers

        with self.turn:
            if self._own_model is None:
                folder, device, dtype = self._origin
                self._own_model = load_own_model(folder, learned=self._learned, device=device, dtype=dtype)
        return self._own_model

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """What translates with this model, by transformers' beam search."""
        return HuggingFaceTranslator(self, search, batch_tokens)


class HuggingFaceTranslator:
    """Translates with a recorder's own model and vocabulary; see `Translator`.

    It searches as fairseq does, whatever generation_config.json says: until there are as many translations as the beam
    is wide, none of them without a piece, each with an end. Padding is never generated.

    Args:
        recorder: whose model it is.
        search: how to search.
        batch_tokens: source pieces in a batch, each counted as often as the beam is wide.
    """

    def __init__(
        self, recorder: HuggingFaceRecorder, search: Search | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        self.search = search or Search()
        self._recorder = recorder
        self._batch_tokens = batch_tokens
        self._model = recorder.own_model()
        self.longest: int = self._model.config.max_position_embeddings
        text = recorder.prepared
        self._pieces = {number: piece for piece, number in text.known.items()} | {text.unk: UNKNOWN}
        self._detokenize = Detokenizer(text.sides[1].rules, text.join)

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Translations of sentences that are given as pieces.

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
        with self._recorder.turn, under_way():
            found = self._model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=settings)
        return [self._words(ids) for ids in found[:, len(self._recorder.start) :].tolist()]

    def _settings(self, length: int) -> Any:
        """How to generate, in transformers' words, for sources of so many pieces."""
        config, start = self._model.config, self._recorder.start
        # transformers 5.23 makes a T5's cache for as many layers as its encoder has
        cache = getattr(config, "num_layers", 0) == getattr(config, "num_decoder_layers", 0)
        pieces = min(
            int(self.search.max_len_a * length + self.search.max_len_b),
            self.longest - len(start),
            self._recorder.max_positions[1] - 1,
        )
        more = len(start) - 1  # which count as generated
        return type(self._model.generation_config)(
            num_beams=self.search.beam,
            length_penalty=self.search.length_penalty,
            early_stopping=self.search.beam > 1,
            min_new_tokens=more + 1,
            max_new_tokens=more + pieces + 1,
            decoder_start_token_id=start[0],
            forced_bos_token_id=start[1] if more else None,
            forced_eos_token_id=config.eos_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=self._recorder.pad,
            suppress_tokens=None if config.pad_token_id in (None, config.eos_token_id) else [config.pad_token_id],
            renormalize_logits=config.model_type == "marian",  # whose padding takes a part of all probability
            use_cache=cache,
        )

    def _words(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The words of what was generated, up to its end; special pieces are none."""
        end = self._model.config.eos_token_id
        kept = ids[: ids.index(end)] if end in ids else ids
        return self._detokenize([self._pieces[n] for n in kept if n in self._pieces])
