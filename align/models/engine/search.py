"""Translate with the engine, by beam search: models of all formats, with an encoder or without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from align.core.stream import of_one_length
from align.core.types import Search
from align.models.detokenize import Join
from align.models.engine.forward import Layout, State, Transformer
from align.models.engine.linear import Linear

_NEVER = float("-inf")

on_step: ContextVar[Callable[[], None]] = ContextVar("on_step", default=lambda: None)
"""Is called before each step of a search in this thread; an exception that it raises ends the search."""


class Output(NamedTuple):
    """What only translating needs of an encoder-decoder model."""

    layer: Linear  # from the decoder's output [N, D] to the logits of all pieces [N, V]
    end: int  # id of </s>
    never: Sequence[int]  # ids that are not generated, such as that of padding
    pieces: Mapping[int, str]  # text of the pieces that belong to words, by id; others are left out
    join: Join | None = None  # joins pieces into tokens; None for the subwords of the target's rules


class Predictor(Protocol):
    """A model that predicts a piece at a time.

    Its states have a row for each hypothesis, what it keeps of the sources has one for each sentence.
    """

    def begin(self, sources: Tensor) -> tuple[Tensor, Sequence[State], Sequence[State]]:
        """Return the logits of the first piece `[B, V]`, states, and what is kept of sources of one length `[B, S]`."""
        ...

    def advance(
        self, ids: Tensor, step: int, states: Sequence[State], sources: Sequence[State]
    ) -> tuple[Tensor, Sequence[State]]:
        """Return the logits of the next piece `[B K, V]`, and the states after reading a piece of each hypothesis.

        These are `ids` `[B K]`, the step-th of the translation, from 1. `sources` are what `begin` kept of
        the B sentences that are not finished.
        """
        ...


@dataclass(frozen=True)
class EncoderDecoder:
    """Predicts with an encoder and a decoder; see `Predictor`."""

    current: Callable[[], Transformer]  # heads of a recorder's model may be masked for a time
    start: Sequence[int]  # ids that the decoder reads first; at least one
    output: Linear

    def begin(self, sources: Tensor) -> tuple[Tensor, Sequence[State], Sequence[State]]:
        """See `Predictor.begin`."""
        transformer = self.current()
        columns = Layout.of(torch.ones_like(sources, dtype=torch.bool))
        encoded = transformer.encode(columns.flatten(sources[..., None])[:, 0], columns)
        layers = transformer.decoder.layers
        kept: list[State] = [layer.cross.project(encoded, columns) for layer in layers if layer.cross]
        states: Sequence[State] = [()] * len(layers)
        for position, id in enumerate(self.start):
            logits, states = self._read(sources.new_full((len(sources),), id), position, states, kept)
        return logits, states, kept

    def advance(
        self, ids: Tensor, step: int, states: Sequence[State], sources: Sequence[State]
    ) -> tuple[Tensor, Sequence[State]]:
        """See `Predictor.advance`."""
        return self._read(ids, len(self.start) - 1 + step, states, sources)

    def _read(
        self, ids: Tensor, position: int, states: Sequence[State], sources: Sequence[State]
    ) -> tuple[Tensor, Sequence[State]]:
        decoder = self.current().decoder
        x, new = decoder.embedding.at(ids, position), []
        for layer, state, (keys, values) in zip(decoder.layers, states, sources, strict=True):
            x, state = layer.step(x, state, keys, values)
            new.append(state)
        return self.output(decoder.norm(x) if decoder.norm else x), new


@dataclass(frozen=True)
class BeamSearch:
    """Searches for translations.

    A sentence is finished when K hypotheses have ended, each with at least one piece. Their scores are divided by
    their lengths, `</s>` included, to the power of the penalty, as `SequenceGenerator` of fairseq does.
    """

    model: Predictor
    ends: Sequence[int]  # ids that end a translation
    never: Sequence[int]  # ids that are not generated, and have no share of the probability
    search: Search

    @torch.inference_mode()
    def __call__(self, sources: Tensor, longest: int) -> list[list[int]]:
        """Return the best translation of sentences of one length `[B, S]`, of at most `longest` pieces."""
        beam = self.search.beam
        ended: list[list[tuple[float, list[int]]]] = [[] for _ in sources]
        numbers = [*range(len(sources))]  # of the sentences that are not finished
        logits, states, kept = self.model.begin(sources)
        ids, totals = sources.new_zeros(len(sources), 0), logits.new_zeros(len(sources), 1)  # [B K, t] and [B, K]
        for step in range(longest + 1):
            on_step.get()()
            logits[:, list(self.never)] = _NEVER
            scores = logits.log_softmax(1)
            if step == longest:
                others = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
                others[list(self.ends)] = False
                scores[:, others] = _NEVER
            elif step == 0:
                scores[:, list(self.ends)] = _NEVER
            width, size = totals.shape[1], scores.shape[1]
            best, places = (totals.view(-1, 1) + scores).view(len(numbers), -1).topk(min(2 * beam, width * size), 1)
            sentences, rows, pieces = list[int](), list[int](), list[int]()
            sums: list[list[float]] = []
            for n, candidates in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
                active = []
                for rank, (score, place) in enumerate(zip(*candidates, strict=True)):
                    row, piece = n * width + place // size, place % size
                    if piece not in self.ends:
                        active.append((row, piece, score))
                    elif rank < beam and score > _NEVER:
                        penalty = (step + 1) ** self.search.length_penalty
                        ended[numbers[n]].append((score / penalty, ids[row].tolist()))
                if len(ended[numbers[n]]) < beam and step < longest:
                    active = (active + [(*active[0][:2], _NEVER)] * beam)[:beam]
                    sentences.append(n)
                    rows += [row for row, _, _ in active]
                    pieces += [piece for _, piece, _ in active]
                    sums.append([score for _, _, score in active])
            if not sentences:
                break
            if len(sentences) < len(numbers):
                numbers = [numbers[n] for n in sentences]
                kept = _chosen(kept, torch.tensor(sentences, device=ids.device))
            new = torch.tensor(pieces, device=ids.device)
            if rows != [*range(len(ids))]:
                chosen = torch.tensor(rows, device=ids.device)
                ids, states = ids.index_select(0, chosen), _chosen(states, chosen)
            ids, totals = torch.cat((ids, new[:, None]), 1), torch.tensor(sums, device=ids.device)
            logits, states = self.model.advance(new, step + 1, states, kept)
        return [max(results)[1] if results else [] for results in ended]


def _chosen(states: Sequence[State], rows: Tensor) -> list[State]:
    return [tuple(part.index_select(0, rows) for part in state) for state in states]


@dataclass(eq=False)
class EngineTranslator:
    """Translates by beam search; see `align.core.backend.Translator`."""

    find: BeamSearch
    words: Callable[[Sequence[int]], tuple[str, ...]]  # returns the words of ids
    longest: int  # limit of source pieces
    room: Callable[[int], int]  # returns the limit of pieces in the translation of a source of some length
    device: str
    batch_tokens: int  # source pieces per batch, each counted as often as the beam is wide

    def __post_init__(self) -> None:
        self.search = self.find.search

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Return the translations of sentences given as pieces.

        A batch holds sentences of one length, so that no translation depends on its neighbours.
        """
        translations: list[tuple[str, ...]] = [()] * len(sources)
        for places in of_one_length([len(source) for source in sources], self.batch_tokens, self.search.beam):
            tokens = torch.tensor([sources[place] for place in places], device=self.device)  # [B, S]
            length = tokens.shape[1]
            most = min(int(self.search.max_len_a * length + self.search.max_len_b), self.room(length))
            for place, ids in zip(places, self.find(tokens, most), strict=True):
                translations[place] = self.words(ids)
        return translations
