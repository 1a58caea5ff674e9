"""fairseq models that show their encoder-decoder attention."""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from align.core.batching import BATCH_TOKENS, of_one_length
from align.core.merging import NULL
from align.core.pieces import IdPair
from align.core.settings import Search
from align.core.types import Batch, CrossAttention, Dtype, Pair, Pieces
from align.models.again import Load, load_again
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.engine.forking import under_way
from align.models.engine.forward import Padded, Transformer
from align.models.fairseq.architecture import fairseq_transformer
from align.models.fairseq.dictionary import EOS, PAD, SPECIAL_IDS, UNK
from align.models.fairseq.packed import pack
from align.models.ids import pieces_of
from align.models.preprocess import Preprocessor

if TYPE_CHECKING:
    from align.core.backend import Translator
    from align.models.folder import ModelFolder


class FairseqAttention:
    """A fairseq Transformer that shows its encoder-decoder attention; see `AttentionRecorder` for the attributes.

    The decoder is run only up to the cross-attention of the last layer asked for: no later layer, no projection onto
    the vocabulary. Threads may share it.

    Args:
        transformer: the model.
        name: for messages.

    Attributes:
        transformer: the same.
    """

    def __init__(self, transformer: Transformer, *, name: str) -> None:
        self.transformer = transformer
        self.name = name
        self.pad = PAD
        self.layers = len(transformer.decoder.layers)
        self.heads = transformer.heads
        self.start: Sequence[int] = (EOS,)
        self.device = str(transformer.device)

    @classmethod
    def of_model(cls, model: Any, *, name: str) -> FairseqAttention:
        """What is recorded of a model in memory, with the weights that it has now.

        Raises:
            ValueError: it is not a Transformer that can be run here.
        """
        device = str(next(model.parameters()).device)
        return cls(fairseq_transformer(_settings_of(model), _weights_of(model), device), name=name)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention of the given layers (from 1), lowest first; see `Recorder.record`."""
        return self.transformer.record(*self.padded(batch), sorted(layers))

    def padded(self, batch: Batch) -> tuple[Padded, Padded]:
        """What the encoder reads and what the decoder reads, on the model's device."""
        source = batch.source.to(self.device)
        steps = torch.nn.functional.pad(batch.target, (1, 0), value=EOS).to(self.device)  # [B, T+1]
        return Padded(source, source != PAD), Padded(steps, steps != PAD)


def _weights_of(model: Any) -> dict[str, torch.Tensor]:
    """The weights that a model in memory has now."""
    return {key: weight.detach() for key, weight in model.state_dict().items()}


def _settings_of(model: Any) -> Namespace:
    """The settings of a model in memory, read off its modules, as `model_settings` has them."""
    sides = {"encoder": model.encoder, "decoder": model.decoder}
    settings: dict[str, Any] = {"activation_fn": model.encoder.cfg.activation_fn}
    for name, side in sides.items():
        layer = side.layers[0]
        settings |= {
            f"{name}_attention_heads": layer.self_attn.num_heads,
            f"{name}_normalize_before": layer.normalize_before,
            f"{name}_learned_pos": isinstance(side.embed_positions, torch.nn.Embedding),
            f"{name}_embed_dim": layer.self_attn.embed_dim,
        }
    return Namespace(
        **settings,
        no_token_positional_embeddings=model.encoder.embed_positions is None,
        no_scale_embedding=model.encoder.embed_scale == 1,
        cross_self_attention=model.decoder.cross_self_attention,
    )


class FairseqRecorder(FairseqAttention):
    """A fairseq Transformer with its text processing; see `Recorder` for the attributes.

    Args:
        transformer: the model.
        sides: preprocessing of the source and of the target.
        max_positions: the most pieces that the model takes on either side.
        name: for the signature.
        text: how either side's text is prepared, for messages.
        load: loads such a model.
        origin: folder, device and dtype, the arguments of `load`.

    Attributes:
        rules: how the (source, target) side's text is prepared.
        turn: to be held while fairseq's own model is used, whose modules keep masks and beam sizes.
    """

    def __init__(
        self,
        transformer: Transformer,
        sides: tuple[Preprocessor, Preprocessor],
        max_positions: tuple[int, int],
        *,
        name: str,
        text: str,
        load: Load,
        origin: tuple[ModelFolder, str, Dtype],
    ) -> None:
        super().__init__(transformer, name=name)
        self._load, self._origin = load, origin
        self._sides = sides
        self.rules = (sides[0].rules, sides[1].rules)
        self.languages = (self.rules[0].language, self.rules[1].language)
        self.unk = UNK
        self.special: tuple[Mapping[int, str], Mapping[int, str]] = (SPECIAL_IDS, SPECIAL_IDS)
        self.text = text
        self.max_positions = max_positions
        self.dtype: str = origin[2]
        self._own_model: Any = None
        self.turn = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled is where the model was loaded from, and not its weights."""
        return load_again, (self._load, self.name, *self._origin)

    def encode(self, pair: Pair) -> Pieces:
        """The model's pieces of one pair; `</s>` ends the source."""
        source, source_words = self._sides[0](pair.source)
        target, target_words = self._sides[1](pair.target)
        words = len(pair.source), len(pair.target)
        return Pieces([*source, EOS], [*source_words, NULL], target, target_words, words)

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        """How the pieces of each word are written."""
        return self._sides[0].spell(pair.source), self._sides[1].spell(pair.target)

    def given(self, pair: IdPair) -> Pieces:
        """The pieces of a pair that is given as ids."""
        rows = len(self.transformer.encoder.embedding.pieces), len(self.transformer.decoder.embedding.pieces)
        return pieces_of(pair, self.special, PAD, self.start, rows)

    def own_model(self) -> Any:
        """The same model as fairseq's own modules; loaded when it is first asked for.

        Raises:
            ValueError: fairseq cannot build it.
            ModuleNotFoundError: fairseq is not installed.
        """
        from align.models.fairseq.own_model import load_own_model  # which imports fairseq

        with self.turn:
            if self._own_model is None:
                folder, device, dtype = self._origin
                self._own_model = load_own_model(folder, self.languages, device, dtype)
        return self._own_model

    def with_weights(self, model: Any) -> FairseqRecorder:
        """The same text, languages and limits around what a module of fairseq's has learnt since; not to be pickled.

        Args:
            model: of the same kind as `own_model`.
        """
        transformer = fairseq_transformer(_settings_of(model), _weights_of(model), self.device)
        return FairseqRecorder(
            transformer,
            self._sides,
            self.max_positions,
            name=self.name,
            text=self.text,
            load=self._load,
            origin=self._origin,
        )

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """What translates with this model, by fairseq's beam search."""
        return FairseqTranslator(self, search, batch_tokens)


class FairseqTranslator:
    """Translates with a recorder's own model and dictionaries; see `Translator`.

    Args:
        recorder: whose model it is.
        search: how to search.
        batch_tokens: source pieces in a batch, each counted as often as the beam is wide.
    """

    def __init__(
        self, recorder: FairseqRecorder, search: Search | None = None, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        model = recorder.own_model()  # which mends fairseq
        pack(model)
        from fairseq.sequence_generator import SequenceGenerator

        self.search = search or Search()
        self.longest = recorder.max_positions[0]
        self._recorder = recorder
        self._batch_tokens = batch_tokens
        self._detokenize = Detokenizer(recorder.rules[1])
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
        """Translations of sentences that are given as pieces, `</s>` last.

        A batch holds sentences of one length: fairseq limits a translation's length by the longest source of its batch,
        but no translation shall depend on its neighbours.
        """
        translations: list[tuple[str, ...]] = [()] * len(sources)
        for places in of_one_length([len(source) for source in sources], self._batch_tokens, self.search.beam):
            for place, words in zip(places, self._translate([sources[place] for place in places]), strict=True):
                translations[place] = words
        return translations

    def _translate(self, sources: Sequence[Sequence[int]]) -> Iterator[tuple[str, ...]]:
        """Translate a batch of sentences of one length."""
        tokens = torch.tensor(sources, device=self._recorder.device)  # [B, S]
        lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
        with self._recorder.turn, under_way():
            beams = self._generator.generate(None, {"net_input": {"src_tokens": tokens, "src_lengths": lengths}})
        specials, unknown = self._dictionary.nspecial, self._dictionary.unk()
        for hypotheses in beams:
            ids = hypotheses[0]["tokens"].tolist()
            pieces = [UNKNOWN if n == unknown else self._dictionary[n] for n in ids if n >= specials or n == unknown]
            yield self._detokenize(pieces)
