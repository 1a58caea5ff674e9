"""Translate with the engine, by the beam search of fairseq: for formats that have no framework here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from align.core.stream import BATCH_TOKENS, of_one_length
from align.core.types import Search
from align.models.detokenize import UNKNOWN, Detokenizer
from align.models.engine.forward import Layout, State, Transformer
from align.models.engine.linear import Linear
from align.models.recorder import ModelRecorder

_NEVER = float("-inf")


@dataclass(frozen=True)
class Hypotheses:
    """The hypotheses of B sentences, K of each one after another.

    Attributes:
        ids: pieces so far `[B K, t]`.
        scores: log-probabilities `[B, K]`.
        states: of each decoder layer, for each hypothesis.
        sources: keys and values of each decoder layer, for each sentence.
    """

    ids: Tensor
    scores: Tensor
    states: Sequence[State]
    sources: Sequence[tuple[Tensor, Tensor]]

    def extend(self, sentences: Sequence[int], rows: Sequence[int], ids: Sequence[int], scores: Tensor) -> Hypotheses:
        """Return some hypotheses with a piece more each.

        Args:
            sentences: numbers of the B' sentences that go on.
            rows: numbers of the hypotheses, K for each of these `[B' K]`.
            ids: their next pieces `[B' K]`.
            scores: their log-probabilities `[B', K]`.
        """
        kept, chosen, new = (torch.tensor(numbers, device=self.ids.device) for numbers in (sentences, rows, ids))
        sources = self.sources
        if len(sentences) < len(self.scores):
            sources = [(keys.index_select(0, kept), values.index_select(0, kept)) for keys, values in sources]
        states = [tuple(part.index_select(0, chosen) for part in state) for state in self.states]
        return Hypotheses(torch.cat((self.ids.index_select(0, chosen), new[:, None]), 1), scores, states, sources)


class BeamSearch:
    """Searches for translations.

    A sentence is finished when K hypotheses have ended, each with at least one piece. Their scores are divided by their
    lengths, `</s>` included, to the power of the penalty, as `SequenceGenerator` of fairseq does.

    Args:
        transformer: the model.
        output: layer from the decoder's output `[N, D]` to scores of all pieces `[N, V]`.
        start: ids that the decoder reads first.
        end: id of `</s>`.
        never: ids that are not generated, such as that of padding.
        search: how to search.
    """

    def __init__(
        self,
        transformer: Transformer,
        output: Linear,
        start: Sequence[int],
        end: int,
        never: Sequence[int] = (),
        search: Search | None = None,
    ) -> None:
        self._transformer, self._output, self._start, self._end = transformer, output, start, end
        self._never, self._search = list(never), search or Search()

    @torch.inference_mode()
    def __call__(self, sources: Tensor, longest: int) -> list[list[int]]:
        """Return the best translation of each sentence, without `</s>`.

        Args:
            sources: sentences of one length `[B, S]`.
            longest: maximum number of pieces, without `</s>`.
        """
        beam = self._search.beam
        ended: list[list[tuple[float, list[int]]]] = [[] for _ in sources]
        numbers = [*range(len(sources))]  # of the sentences that are not finished
        hypotheses = self._begin(sources)
        for step in range(longest + 1):
            scores, states = self._advance(hypotheses, step)
            scores[:, self._never] = _NEVER
            if step == longest:
                others = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
                others[self._end] = False
                scores[:, others] = _NEVER
            elif step == 0:
                scores[:, self._end] = _NEVER
            total = (hypotheses.scores.view(-1, 1) + scores).view(len(numbers), -1)  # [B, K V]
            best, places = total.topk(min(2 * beam, total.shape[1]), 1)
            sentences, rows, ids = list[int](), list[int](), list[int]()
            kept: list[list[float]] = []
            for n, candidates in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
                active = []
                for rank, (score, place) in enumerate(zip(*candidates, strict=True)):
                    row, piece = n * beam + place // scores.shape[1], place % scores.shape[1]
                    if piece != self._end:
                        active.append((row, piece, score))
                    elif rank < beam and score > _NEVER:
                        penalty = (step + 1) ** self._search.length_penalty
                        ended[numbers[n]].append((score / penalty, hypotheses.ids[row].tolist()))
                if len(ended[numbers[n]]) < beam and step < longest:
                    active = (active + [(*active[0][:2], _NEVER)] * beam)[:beam]
                    sentences.append(n)
                    rows += [row for row, _, _ in active]
                    ids += [piece for _, piece, _ in active]
                    kept.append([score for _, _, score in active])
            if not sentences:
                break
            numbers = [numbers[n] for n in sentences]
            hypotheses = Hypotheses(hypotheses.ids, hypotheses.scores, states, hypotheses.sources)
            hypotheses = hypotheses.extend(sentences, rows, ids, torch.tensor(kept, device=sources.device))
        return [max(results)[1] if results else [] for results in ended]

    def _begin(self, sources: Tensor) -> Hypotheses:
        """Return K empty hypotheses for each sentence, of which only the first one can go on."""
        batch, beam = len(sources), self._search.beam
        columns = Layout.of(torch.ones_like(sources, dtype=torch.bool))
        encoded = self._transformer.encode(columns.flatten(sources[..., None])[:, 0], columns)
        layers = self._transformer.decoder.layers
        projected = [layer.cross.project(encoded, columns) for layer in layers if layer.cross]
        scores = torch.full((batch, beam), _NEVER, device=sources.device)
        scores[:, 0] = 0.0
        return Hypotheses(sources.new_zeros(batch * beam, 0), scores, [()] * len(layers), projected)

    def _advance(self, hypotheses: Hypotheses, step: int) -> tuple[Tensor, list[State]]:
        """Return the log-probabilities of the next piece `[B K, V]`, and the states after reading the last one."""
        states = [*hypotheses.states]
        first = len(self._start) - 1
        read = [(n, hypotheses.ids.new_full((len(hypotheses.ids),), id)) for n, id in enumerate(self._start)]
        if step:
            read = [(first + step, hypotheses.ids[:, -1])]
        for position, ids in read:
            x = self._transformer.decoder.embedding.at(ids, position)
            for n, layer in enumerate(self._transformer.decoder.layers):
                x, states[n] = layer.step(x, states[n], *hypotheses.sources[n])
        norm = self._transformer.decoder.norm
        return self._output(norm(x) if norm else x).log_softmax(1), states


class EngineTranslator:
    """Translates with a recorder's Transformer; see `align.core.backend.Translator`.

    Args:
        make_output: returns the output layer, which only translating needs.
        end: id of `</s>`.
        never: ids that are not generated.
        pieces: text of each piece that belongs to a word, by id; others are left out of translations.
        detokenize: joins pieces into words.
        recorder: the model.
        search: how to search.
        batch_tokens: source pieces per batch, each counted as often as the beam is wide.
    """

    def __init__(
        self,
        make_output: Callable[[], Linear],
        end: int,
        never: Sequence[int],
        pieces: Mapping[int, str],
        detokenize: Detokenizer,
        recorder: ModelRecorder,
        search: Search | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self.search = search or Search()
        self.longest: int = recorder.max_positions[0]
        self._most = recorder.max_positions[1] - 1
        self._device, self._batch_tokens = recorder.device, batch_tokens
        self._pieces, self._detokenize = {**pieces, recorder.unk: UNKNOWN}, detokenize
        self._find = BeamSearch(recorder.transformer, make_output(), recorder.start, end, never, self.search)

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Return the translations of sentences given as pieces.

        A batch holds sentences of one length, so that no translation depends on its neighbours.
        """
        translations: list[tuple[str, ...]] = [()] * len(sources)
        for places in of_one_length([len(source) for source in sources], self._batch_tokens, self.search.beam):
            tokens = torch.tensor([sources[place] for place in places], device=self._device)  # [B, S]
            longest = min(int(self.search.max_len_a * tokens.shape[1] + self.search.max_len_b), self._most)
            for place, ids in zip(places, self._find(tokens, longest), strict=True):
                translations[place] = self._detokenize([self._pieces[n] for n in ids if n in self._pieces])
        return translations
