"""Record attention for all model formats: a Transformer with its text processing."""

from __future__ import annotations

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from align.core.backend import Recorder, Translator
from align.core.errors import ModelError, shorten
from align.core.scores import NULL, PAD
from align.core.text import IdPair
from align.core.types import Batch, CrossAttention, Dtype, Pair, Pieces, Search, TextWarning
from align.io.manifest import digest_of
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.engine.forward import Padded, Transformer
from align.models.engine.search import BeamSearch, EncoderDecoder, EngineTranslator, Output
from align.models.folder import ModelFolder
from align.models.ids import TAG, pieces_of
from align.models.preprocess import Preprocessor


def fingerprint(files: Iterable[Path], text: str) -> str:
    """Return seven hex digits that change whenever a file or rule that the links depend on changes."""
    digest = hashlib.sha256(text.encode())
    for path in files:
        digest_of(path, digest)
    return digest.hexdigest()[:7]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, which is read again only after it has changed."""
    status = path.stat()
    return _file_digest(path.resolve(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _file_digest(path: Path, changed: int, size: int) -> str:
    return digest_of(path, hashlib.sha256())


Load = Callable[[ModelFolder, str, Dtype], Recorder]
"""Loads a model from a folder to a device, with the given precision."""

_loaded: WeakValueDictionary[tuple[Path, str, str, str], Recorder] = WeakValueDictionary()
"""Recorders in use, by checkpoint, name, device and dtype."""

_kept: deque[Recorder] = deque(maxlen=4)
"""The last recorders that were reloaded: a worker process unpickles an aligner with each of its tasks."""


def load_again(load: Load, name: str, folder: ModelFolder, device: str, dtype: Dtype) -> Recorder:
    """Return this process's recorder of the same files, or load the model again."""
    recorder = _loaded.get((folder.checkpoint, name, device, dtype))
    if recorder is None:
        recorder = load(folder, device, dtype)
        if recorder.name != name:
            raise ModelError(f"{name} was pickled, but what is there now is {recorder.name}", file=str(folder.root))
        _kept.append(recorder)
    return recorder


class FolderRecorder(Recorder):
    """What recorders of models in folders share: they are pickled as the folder, device and dtype of their model."""

    def __init__(self, load: Load, name: str, origin: tuple[ModelFolder, str, Dtype]) -> None:
        """Register a recorder that is complete otherwise, so that `load_again` returns it as long as it is in use."""
        self._load, self.name, self.origin = load, name, origin
        folder, device, self.dtype = origin
        self.backend = name.partition(":")[0]  # a key of `align.models.recognise.CHECKPOINTS`
        _loaded[folder.checkpoint, name, device, self.dtype] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the model was loaded from, not its weights."""
        return load_again, (self._load, self.name, *self.origin)


class TransformerAttention:
    """Records the encoder-decoder attention of a Transformer; see `AttentionRecorder` for the attributes.

    The decoder runs only up to the cross-attention of the last requested layer. Threads may share it. `start`
    are ids that the decoder reads before the pieces of a target; at least one.
    """

    def __init__(self, transformer: Transformer, *, name: str, pad: int, start: Sequence[int]) -> None:
        self.transformer, self.name, self.pad = transformer, name, pad
        self.start: Sequence[int] = tuple(start)
        self.layers, self.heads = len(transformer.decoder.layers), transformer.heads
        self.device = str(transformer.device)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Yield the attention of some layers (from 1), lowest first; see `AttentionRecorder.record`.

        Of several start ids the last one has the role of `</s>`: the row that reads it predicts the first piece.
        """
        first = len(self.start) - 1
        for attention in self.transformer.record(*self.padded(batch), sorted(layers)):
            yield replace(attention, weights=attention.weights[:, :, first:]) if first else attention

    def padded(self, batch: Batch) -> tuple[Padded, Padded]:
        """Return the inputs of the encoder `[B, S]` and of the decoder `[B, T]`, on the model's device."""
        start = torch.tensor(self.start).expand(len(batch.target), -1)
        steps = torch.cat((start, batch.target), 1)
        real = torch.cat((torch.ones_like(start, dtype=torch.bool), batch.target_words != PAD), 1)
        source = Padded(batch.source.to(self.device), (batch.source_words != PAD).to(self.device))
        return source, Padded(steps.to(self.device), real.to(self.device))


@dataclass(frozen=True)
class ModelParts:
    """What a format's loader reads from a model's files, for `align.models.assemble.assemble`."""

    transformer: Transformer
    languages: tuple[str, str]  # "source" and "target" if they are not known
    sides: tuple[Preprocessor, Preprocessor]  # text processing of source and target
    vocabularies: tuple[tuple[Path, int], tuple[Path, int]]  # file, and the highest id plus one
    special: tuple[Mapping[int, str], Mapping[int, str]]  # ids that belong to no word, with their pieces
    pad: int  # id of padding
    unk: int  # id of unknown pieces
    start: Sequence[int]  # ids that the decoder reads before the pieces of a target; at least one
    # limits of pieces, with surroundings and one start; tables of positions may be shorter
    max_positions: tuple[int, int]
    digest: str  # of all files and rules that links depend on; see fingerprint
    load: Load  # loads a model of the format again, in another process
    output: Callable[[ModelRecorder], Output]  # reads what only translating needs
    before: Sequence[int] = ()  # ids before the pieces of a source
    after: Sequence[int] = ()  # ids after them; at least one of both
    zero_start: bool = False  # the first start is a vector of zeros, the tables' last row
    prefix: Sequence[str] = ()  # words that each source begins with
    # ids of tags for the target language, at a source's beginning
    tags: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # what else the description of the text says
    raw: bool = False  # whether it was trained on text that is not tokenised, as far as known
    multilingual: bool = False  # between several pairs of languages, of which options name one


class ModelRecorder(TransformerAttention, FolderRecorder):
    """The recorder of a model in a folder, with its text processing; see `Recorder` for the attributes."""

    def __init__(self, parts: ModelParts, name: str, origin: tuple[ModelFolder, str, Dtype]) -> None:
        super().__init__(parts.transformer, name=name, pad=parts.pad, start=parts.start)
        self.sides, self.languages = parts.sides, parts.languages
        self.text = ", ".join(str(side.rules) for side in parts.sides) + parts.note
        self.unk, self.special = parts.unk, parts.special
        self.max_positions = (parts.max_positions[0], parts.max_positions[1] - len(parts.start) + 1)
        self.raw, self.multilingual, self.prompted = parts.raw, parts.multilingual, False
        self._output = parts.output
        self._surroundings, self._prefix, self._tags = (parts.before, parts.after), tuple(parts.prefix), parts.tags
        self._warned = False
        FolderRecorder.__init__(self, parts.load, name, origin)

    def encode(self, pair: Pair) -> Pieces:
        """Return the pieces of a pair; surroundings and prefix of the source belong to no word.

        A tag such as `>>fra<<` at the beginning of the source replaces the model's own, and counts as NULL.
        """
        if isinstance(pair, IdPair):
            rows = len(self.transformer.encoder.embedding.pieces), len(self.transformer.decoder.embedding.pieces)
            return pieces_of(pair, self.special, self.pad, self.start, rows)
        before, after = self._surroundings
        tag, source_words = self._untagged(pair.source)
        if tag is not None:
            before = [tag, *(n for n in before if n not in self._tags.values())]
        if count := len(self._prefix):
            source, words_of = self.sides[0]((*self._prefix, *source_words))
            words_of = [word - count if word >= count else NULL for word in words_of]
        else:
            source, words_of = self.sides[0](source_words)
        target, target_words = self.sides[1](pair.target)
        words_of = [NULL] * len(before) + words_of + [NULL] * len(after)
        return Pieces([*before, *source, *after], words_of, target, target_words, (len(pair.source), len(pair.target)))

    def _untagged(self, words: Sequence[str]) -> tuple[int | None, Sequence[str]]:
        """Return the id of the tag that words begin with, if any, and the words without it."""
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
        """Return the written form of the pieces of each word."""
        source, target = self.sides
        words = (*self._prefix, *self._untagged(pair.source)[1])
        return source.spell(words)[len(self._prefix) :], target.spell(pair.target)

    def with_transformer(self, transformer: Transformer) -> ModelRecorder:
        """Return a recorder of other weights with the same text processing; it cannot be pickled."""
        recorder = object.__new__(type(self))  # copying pickles, which gives the recorder itself
        recorder.__dict__.update(self.__dict__)
        recorder.transformer = transformer
        return recorder

    def translator(self, search: Search, batch_tokens: int) -> Translator:
        """Return a translator with this model."""
        output = self._output(self)
        pieces = {**output.pieces, self.unk: UNKNOWN}
        detokenize = Detokenizer(self.sides[1].rules, output.join)

        def words(ids: Sequence[int]) -> tuple[str, ...]:
            return detokenize([pieces[n] for n in ids if n in pieces])

        longest, most = self.max_positions
        model = EncoderDecoder(lambda: self.transformer, self.start, output.layer)
        find = BeamSearch(model, [output.end], output.never, search)
        return EngineTranslator(find, words, longest, lambda length: most - 1, self.device, batch_tokens)
