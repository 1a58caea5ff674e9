"""Queue sentence pairs of many requests, and run them through the models in batches, in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from align.core.types import Alignment, Pair
from align.io.session import Session
from align.models.engine.search import on_step
from align.service.gate import Metrics

ROUND_PAIRS = 64  # maximum number of pairs in a batch of the model

ROUND_CHARACTERS = 32_000
"""Characters that fill a batch, too: otherwise long lines would delay short ones for seconds."""

TRANSLATED_CHARACTERS = 800  # the same for sentences to translate, which takes far longer
ROUND_WAIT = 0.002  # seconds that the first pair of a batch waits for others

TURN = 16
"""Pairs of a request before the next request's turn: small requests finish at once, and large ones block none."""

_log = logging.getLogger("align")

Future = asyncio.Future[Alignment | None]
"""Is done when a pair is aligned, with None if that failed, or when the client has left."""

Queued = tuple[Session, Pair, Future]


class Rounds:
    """A queue, and a thread in which models run.

    Args:
        characters: how many fill a batch.
    """

    def __init__(self, characters: int, metrics: Metrics) -> None:
        self._characters, self._metrics = characters, metrics
        self._waiting: deque[deque[Queued]] = deque()  # of each request: pairs not begun
        self._arrived = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "model")

    async def align(self, session: Session, pairs: Sequence[Pair]) -> list[Alignment | None]:
        """Return the alignments of pairs, in order. A cancelled request leaves the queue."""
        loop = asyncio.get_running_loop()
        queued: deque[Queued] = deque((session, pair, loop.create_future()) for pair in pairs)
        self._waiting.append(queued)
        self._arrived.set()
        return await asyncio.gather(*(result for *_, result in queued))

    async def run(self) -> None:
        """Align the pairs in the queue, until this is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._arrived.wait()
                if sum(map(len, self._waiting)) < ROUND_PAIRS:
                    await asyncio.sleep(ROUND_WAIT)
                if not (taken := self._take()):
                    self._arrived.clear()
                    continue
                results = await loop.run_in_executor(self.thread, _align_all, taken)
                self._metrics.rounds.inc()
                self._metrics.round_pairs.inc(len(taken))
                for future, result in results.items():
                    if not future.done():
                        future.set_result(result)
        finally:
            self.thread.shutdown(wait=False, cancel_futures=True)

    def _take(self) -> list[Queued]:
        """Return the next batch: some pairs of each request in turn, until it is full."""
        taken: list[Queued] = []
        characters = 0
        while self._waiting and len(taken) < ROUND_PAIRS and characters < self._characters:
            pairs = self._waiting.popleft()
            turn = TURN
            while pairs and turn and len(taken) < ROUND_PAIRS and characters < self._characters:
                _, pair, future = queued = pairs.popleft()
                if not future.done():
                    taken.append(queued)
                    characters += sum(map(len, (*pair.source, *pair.target)))
                    turn -= 1
            if pairs:
                self._waiting.append(pairs)
        return taken


def _align_all(taken: Sequence[Queued]) -> dict[Future, Alignment | None]:
    """Align a batch, unless all clients leave; pairs of the same session go through the model together."""

    def check() -> None:
        if all(future.done() for *_, future in taken):
            raise asyncio.CancelledError

    on_step.set(check)
    results: dict[Future, Alignment | None] = {}
    for session in {session for session, *_ in taken}:
        pairs = {future: pair for one, pair, future in taken if one is session}
        results |= zip(pairs, _attempt(session, [*pairs.values()]), strict=True)
    return results


def _attempt(session: Session, pairs: Sequence[Pair]) -> list[Alignment | None]:
    """Align pairs; on an error align each half separately, so that only the pair that causes it fails."""
    try:
        return [alignment for _, (alignment,) in session.results(pairs, lambda pair: [pair])]
    except asyncio.CancelledError:
        return [None] * len(pairs)
    except BaseException as error:  # a library in Rust may raise no Exception, and someone waits for the result
        if len(pairs) == 1:
            _log.error("a pair cannot be aligned: %s", type(error).__name__)  # its message may quote the pair
            return [None]
    half = len(pairs) // 2
    return _attempt(session, pairs[:half]) + _attempt(session, pairs[half:])
