"""Load decoder-only models that translate: one forced pass over prompt and translation shows what targets attend to.

Its input is a sequence: a prompt with the source in it, and the target. Row t reads piece t and predicts piece t+1, so
that the row of the last piece before the target has the role of `</s>` in a decoder. The columns of the source's pieces
belong to its words; all others, of the rest of the prompt and of the target so far, are NULL.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from torch import Tensor

from align.core.backend import Translator
from align.core.errors import ModelError, PairError, shorten
from align.core.scores import NULL, PAD
from align.core.text import IdPair
from align.core.types import Batch, CrossAttention, Dtype, Pair, Pieces, Search
from align.models.assemble import fitting
from align.models.causal.families import build_causal, renamed, text_config
from align.models.causal.forward import Cache, CausalTransformer
from align.models.causal.template import PRESETS, Template, read_template, token_of
from align.models.detokenize import Detokenizer
from align.models.engine.forward import State
from align.models.engine.linear import Linear, make_linear
from align.models.engine.search import BeamSearch, EngineTranslator
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.files import model_weight_files, read_model_weights, shared_transformer
from align.models.huggingface.tokenizer_json import JsonTokenizer, call_library
from align.models.preprocess import TextRules
from align.models.recorder import FolderRecorder, file_digest, fingerprint
from align.models.settings import Config, read_config, tokenizer_config, unlearned_positions

USUAL_POSITIONS = 4096  # limit of pieces of prompt and translation where config.json has none


def load_causal(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> CausalRecorder:
    """Load a decoder-only model, its tokenizer and the template of its prompts.

    Two models of the same files, such as one in both directions, share their weights.
    """
    config = read_config(folder.root / "config.json")
    options = folder.options
    if options.reverse_of == ("source", "target"):  # of a forward model whose languages are not known
        options = replace(options, reverse_of=None)
    languages, pattern = options.languages, options.template or "chat"
    template = read_template(folder.text_root, pattern, languages)
    path = folder.text_root / "tokenizer.json"
    if not path.is_file():
        hint = "save the model's fast tokenizer with save_pretrained() of transformers"
        raise ModelError("no tokenizer.json, which decoder-only models need", file=str(folder.text_root), hint=hint)
    text = Text(JsonTokenizer(path), template, tokenizer_config(folder.text_root))
    transformer = shared_transformer(
        folder, config, device, dtype, lambda weights: build_causal(config, weights, device, dtype)
    )
    files = [folder.root / "config.json", path, *model_weight_files(folder)]
    spec = template.parts, template.chat, text.before, [file_digest(path) for path in files]
    known = (languages[0] or "source", languages[1] or "target")
    shown = pattern if pattern in PRESETS else "'" + shorten(pattern.replace("\n", "\\n")) + "'"
    return CausalRecorder(
        transformer,
        text,
        languages=known,
        described=f"as it is, in the prompt {shown}",
        limit=unlearned_positions(text_config(config), USUAL_POSITIONS),
        name=f"{folder.backend}:{'-'.join(known)}@{fingerprint((), repr(spec))}",
        origin=(folder.absolute(), device, dtype),
    )


class Text:
    """The text processing of a decoder-only model."""

    def __init__(self, tokenizer: JsonTokenizer, template: Template, settings: Config) -> None:
        self.tokenizer, self.template = tokenizer, template
        before = list(tokenizer.surroundings[0]) if tokenizer.surroundings else []
        begin = tokenizer.ids.get(token_of(settings, "bos_token") or "")
        adds = settings.content.get("add_bos_token")
        if adds is True and not before and begin is not None:
            before = [begin]
        self.before = [] if template.chat or adds is False else before  # chat templates write them by themselves
        marks = (token_of(settings, "eos_token"), "</s>", "<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|endoftext|>")
        self.ends = sorted({tokenizer.ids[mark] for mark in marks if mark in tokenizer.ids})  # of translations
        unknown = getattr(tokenizer.tokenizer.model, "unk_token", None)
        self.unk: int = tokenizer.ids.get(unknown or "", -1)

    def encode(self, source: Sequence[str], target: Sequence[str] | None) -> tuple[list[int], list[int], list[int]]:
        """Return the ids of a prompt and its target, and the word of each piece in the source and in the target.

        A piece belongs to a side if it holds one of its characters, and there to the word of the first of these.
        """
        text, *spans = self.template.fill(" ".join(source), None if target is None else " ".join(target))
        try:
            encoding = call_library(self.tokenizer.tokenizer.encode, text, None, False, False)
        except ValueError as error:
            raise PairError(f"the model's tokenizer fails on it: {error}") from None
        words_of = []
        for words, span in zip((source, target or ()), spans, strict=True):
            ends = list(accumulate((len(word) + 1 for word in words), initial=span[0] - 1))[1:]
            numbers = [NULL] * len(self.before)
            for begin, end in encoding.offsets:
                word = bisect_right(ends, max(begin, span[0]))  # the first one that ends after the piece begins
                inside = begin < end and begin < span[1] and end > span[0]
                numbers.append(min(word, len(words) - 1) if inside and words else NULL)
            words_of.append(numbers)
        return [*self.before, *encoding.ids], words_of[0], words_of[1]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids without special pieces."""
        return str(self.tokenizer.tokenizer.decode(list(ids), skip_special_tokens=True))


class CausalRecorder(FolderRecorder):
    """Records the attention of a decoder-only model to the source in its prompt; see `Recorder` for the attributes.

    Its `Pieces` have the whole sequence as their source, in which only pieces of the source have a word, and the pieces
    at its end as their target. Threads may share it.
    """

    def __init__(
        self,
        transformer: CausalTransformer,
        text: Text,
        *,
        languages: tuple[str, str],
        described: str,
        limit: int,
        name: str,
        origin: tuple[ModelFolder, str, Dtype],
    ) -> None:
        self.transformer, self.prompts, self.languages, self.text = transformer, text, languages, described
        self.layers, self.heads = len(transformer.layers), transformer.heads
        self.device = str(transformer.device)
        self.pad, self.unk = 0, text.unk
        self.max_positions = (limit, limit)
        self.raw = self.multilingual = self.prompted = True
        super().__init__(load_causal, name, origin)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Yield the attention of some layers (from 1), lowest first; see `AttentionRecorder.record`."""
        lengths, targets = ((words != PAD).sum(1) for words in (batch.source_words, batch.target_words))
        source, lengths, targets = (part.to(self.device) for part in (batch.source, lengths, targets))
        yield from self.transformer.record(source, lengths, targets, sorted(layers))

    def encode(self, pair: Pair) -> Pieces:
        """Return the pieces of a pair; a pair without a target gives the prompt of its translation."""
        if isinstance(pair, IdPair):
            # A prompt and what was generated, which may repeat the prompt. Ids before the first word of the target,
            # such as those of reasoning, are read as a part of the prompt.
            if pair.source_words is None or pair.target_words is None:
                message = "the words of ids are missing: give the word of each id, and None outside source and "
                raise PairError(f"{message}translation", line=pair.id)
            prompt = len(pair.source_ids)
            repeated = prompt if tuple(pair.target_ids[:prompt]) == pair.source_ids else 0
            target, words = pair.target_ids[repeated:], pair.target_words[repeated:]
            places = [n for n, word in enumerate(words) if word is not None]
            begin, end = (places[0], places[-1] + 1) if places else (0, 0)
            ids, first = [*pair.source_ids, *target[:end]], prompt + begin
            source_words = [NULL if word is None else word for word in pair.source_words] + [NULL] * end
            target_words = [NULL if word is None else word for word in words[begin:end]]
        else:
            try:
                ids, source_words, target_words = self.prompts.encode(pair.source, pair.target or None)
            except PairError as error:
                raise PairError(error.what, line=pair.id) from None
            first = next((n for n, word in enumerate(target_words) if word != NULL), len(ids))
            target_words = target_words[first:]
        rows = len(self.transformer.embedding.pieces)
        if max(ids, default=0) >= rows:
            raise PairError(f"the pair has id {max(ids):,}, the model has {rows:,}, from 0", line=pair.id)
        if ids and not first:
            raise PairError("nothing is before the target, whose first piece could be predicted by it", line=pair.id)
        return Pieces(ids, source_words, ids[first:], target_words, (len(pair.source), len(pair.target)))

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        """Return the written form of the pieces of each word: characters that they hold, for `--words`."""
        pieces = self.encode(pair)
        spelt: tuple[list[list[str]], list[list[str]]] = ([[] for _ in pair.source], [[] for _ in pair.target])
        sides = ((pieces.source, pieces.source_words), (pieces.target, pieces.target_words))
        for (ids, words), of_words in zip(sides, spelt, strict=True):
            for n, word in zip(ids, words, strict=True):
                if word != NULL:
                    of_words[word].append(str(self.prompts.tokenizer.tokenizer.id_to_token(n)))
        return spelt

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """Return a translator with this model, by greedy search: with a beam of 1 in place of the default one."""
        text, longest, (folder, device, dtype) = self.prompts, self.max_positions[0], self.origin
        if search.beam not in (1, Search().beam):
            message = f"language models translate by greedy search, not with a beam of {search.beam}"
            raise ModelError(message, file=str(folder.root), hint="leave out ‹beam›")
        if not text.ends:
            raise ModelError("its tokenizer has no piece that ends a translation", file=str(folder.text_root))
        weights = Weights(renamed(read_model_weights(folder)))
        table = "lm_head.weight" if "lm_head.weight" in weights else "embed_tokens.weight"
        with fitting(folder.checkpoint):
            weight = weights.take(table, *self.transformer.embedding.pieces.shape)
        model = DecoderOnly(self.transformer, make_linear(weight.to(device), None, dtype=dtype))
        detokenize = Detokenizer(TextRules("text"), " ".join)
        return EngineTranslator(
            BeamSearch(model, text.ends, (), replace(search, beam=1)),
            lambda ids: detokenize([text.decode(ids)]),
            longest - 2,  # so that a piece of the translation fits
            lambda length: longest - length - 1,
            self.device,
            batch_tokens,
        )


@dataclass(frozen=True)
class DecoderOnly:
    """Predicts what follows a prompt; see `align.models.engine.search.Predictor`."""

    transformer: CausalTransformer
    output: Linear

    def begin(self, sources: Tensor) -> tuple[Tensor, Sequence[State], Sequence[State]]:
        """See `Predictor.begin`; nothing is kept of prompts but states."""
        cache: Cache = []
        return self.output(self.transformer.advance(sources, cache)), cache, ()

    def advance(
        self, ids: Tensor, step: int, states: Sequence[State], sources: Sequence[State]
    ) -> tuple[Tensor, Sequence[State]]:
        """See `Predictor.advance`."""
        cache: Cache = [(keys, values) for keys, values in states]
        return self.output(self.transformer.advance(ids[:, None], cache)), cache
