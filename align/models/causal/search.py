"""Translate with a decoder-only model, by greedy search: the most likely piece at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from align.core.errors import ModelError
from align.core.stream import of_one_length
from align.core.types import Dtype, Search
from align.models.causal.builder import renamed
from align.models.causal.families import read_architecture
from align.models.causal.forward import Cache, CausalTransformer
from align.models.detokenize import Detokenizer
from align.models.engine.forward import RootNorm
from align.models.engine.linear import make_linear
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.config import Config, read_json
from align.models.huggingface.files import read_model_weights
from align.models.preprocess import TextRules


class GreedyTranslator:
    """Translates with a decoder-only model; see `Translator`.

    Args:
        transformer: the model.
        origin: folder, device and dtype that it was loaded from; its output layer is read from there.
        decode: returns the text of ids.
        ends: ids that end a translation.
        longest: limit of prompt and translation.
        search: the limit of length; a beam of 1, or the default one, which other models take.
        batch_tokens: pieces of prompts per batch.

    Raises:
        ModelError: the tokenizer has no piece that ends a translation, or another beam is asked for.
    """

    def __init__(
        self,
        transformer: CausalTransformer,
        origin: tuple[ModelFolder, str, Dtype],
        decode: Callable[[Sequence[int]], str],
        ends: Sequence[int],
        longest: int,
        search: Search,
        batch_tokens: int,
    ) -> None:
        self.search = replace(search, beam=1)
        self.longest = longest
        self._transformer, self._decode, self._ends, self._batch_tokens = transformer, decode, ends, batch_tokens
        folder, device, dtype = origin
        config = Config(read_json(folder.root / "config.json"), str(folder.root / "config.json"))
        shape = read_architecture(config)
        if search.beam not in (1, Search().beam):
            message = f"language models translate by greedy search, not with a beam of {search.beam}"
            raise ModelError(message, file=str(folder.root), hint="leave out ‹beam›")
        if not ends:
            raise ModelError("its tokenizer has no piece that ends a translation", file=str(folder.text_root))
        rows = len(transformer.embedding.pieces)
        try:
            weights = Weights(renamed(read_model_weights(folder, mapped=True)), ())
            norm = weights.take("norm.weight", shape.width)
            self._norm = RootNorm((norm + 1 if shape.family.gemma else norm).to(device), shape.epsilon)
            table = "lm_head.weight" if "lm_head.weight" in weights else "embed_tokens.weight"
            self._output = make_linear(weights.take(table, rows, shape.width).to(device), None, dtype=dtype)
        except ModelError:
            raise
        except ValueError as error:
            message = f"weights and configuration do not fit: {error}"
            raise ModelError(message, file=str(folder.checkpoint)) from None
        self._detokenize = Detokenizer(TextRules("text"), " ".join)

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """Return the translations of prompts given as pieces; a batch holds prompts of one length."""
        translations: list[tuple[str, ...]] = [()] * len(sources)
        for places in of_one_length([len(source) for source in sources], self._batch_tokens, 1):
            ids = self._generate(torch.tensor([sources[place] for place in places], device=self._transformer.device))
            for place, generated in zip(places, ids, strict=True):
                translations[place] = self._detokenize([self._decode(generated)])
        return translations

    @torch.inference_mode()
    def _generate(self, prompts: Tensor) -> list[list[int]]:
        """Return the ids that follow each of some prompts `[B, L]`, without the one that ends them."""
        count, length = prompts.shape
        limit = min(int(self.search.max_len_a * length + self.search.max_len_b), self.longest - length - 1)
        ends = torch.tensor(self._ends, device=prompts.device)
        cache: Cache = []
        generated: list[list[int]] = [[] for _ in range(count)]
        going, step = list(range(count)), prompts
        for number in range(max(0, limit)):
            scores = self._output(self._norm(self._transformer.advance(step, cache)))  # [B, V]
            if number == 0:
                scores[:, ends] = float("-inf")  # a translation has a piece at least
            best = scores.argmax(-1)
            unfinished = (~torch.isin(best, ends)).nonzero()[:, 0]
            for place, piece in zip(unfinished.tolist(), best[unfinished].tolist(), strict=True):
                generated[going[place]].append(piece)
            if not len(unfinished):
                break
            if len(unfinished) < len(going):
                going = [going[place] for place in unfinished.tolist()]
                cache[:] = [(keys[unfinished], values[unfinished]) for keys, values in cache]
            step = best[unfinished, None]
        return generated
