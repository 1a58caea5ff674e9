"""Queue pairs of many requests, and run them through the models in batches, in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.exceptions import HTTPException

from align.core.types import Alignment, Pair
from align.io.session import Session
from align.service.gate import Metrics

T = TypeVar("T")

Result = list[Alignment] | None
"""Alignments of the sentences of a pair of a request, None if they failed."""

ROUND_PAIRS = 64
"""Maximum number of pairs in a batch of the model."""

ROUND_CHARACTERS = 32_000
"""Characters that fill a batch, too: otherwise long lines would delay short ones for seconds."""

ROUND_WAIT = 0.002
"""Seconds that the first pair of a batch waits for others."""

TURN = 16
"""Pairs of a request before the next request's turn: small requests finish at once, and large ones block none."""

_log = logging.getLogger("align")


Queued = tuple[Session, Sequence[Pair], asyncio.Future[Result]]
"""The sentences of a pair of a request; the future is done when they are aligned, or the client has left."""


class Rounds:
    """A queue of bounded length, and the one thread in which models run.

    Args:
        capacity: maximum number of pairs of all requests in the queue.
    """

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity, self._metrics = capacity, metrics
        self._waiting: deque[tuple[int, deque[Queued]]] = deque()  # of each request: the cost, and pairs not begun
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "model")
        self.queued = 0

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of the models."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def align(self, session: Session, pairs: Sequence[Sequence[Pair]], cost: int = 1) -> list[Result]:
        """Return alignments of the sentences of pairs, in order. A cancelled request leaves the queue.

        Args:
            cost: characters that each character of these pairs counts for in a batch.
        """
        if self.queued + len(pairs) > self._capacity:
            raise HTTPException(429, "too many pairs are waiting", {"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        queued: deque[Queued] = deque((session, sentences, loop.create_future()) for sentences in pairs)
        self._waiting.append((cost, queued))
        self.queued += len(pairs)
        self._arrived.set()
        try:
            return await asyncio.gather(*(result for *_, result in queued))
        finally:
            self.queued -= len(pairs)

    async def run(self) -> None:
        """Align the pairs in the queue, until this is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._arrived.wait()
                if self.queued < ROUND_PAIRS:
                    await asyncio.sleep(ROUND_WAIT)
                if not (taken := self._take()):
                    self._arrived.clear()
                    continue
                results = await loop.run_in_executor(self._thread, _align_all, taken)
                self._metrics.rounds.inc()
                self._metrics.round_pairs.inc(len(taken))
                for (*_, future), result in zip(taken, results, strict=True):
                    if not future.done():
                        future.set_result(result)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _take(self) -> list[Queued]:
        """Return the next batch: some pairs of each request in turn, until it is full."""
        taken: list[Queued] = []
        characters = 0
        while self._waiting and len(taken) < ROUND_PAIRS and characters < ROUND_CHARACTERS:
            cost, pairs = self._waiting.popleft()
            turn = TURN
            while pairs and turn and len(taken) < ROUND_PAIRS and characters < ROUND_CHARACTERS:
                _, sentences, future = pair = pairs.popleft()
                if not future.done():
                    taken.append(pair)
                    characters += cost * sum(len(word) for one in sentences for word in (*one.source, *one.target))
                    turn -= 1
            if pairs and turn:
                self._waiting.appendleft((cost, pairs))  # first in the next batch
            elif pairs:
                self._waiting.append((cost, pairs))
        return taken


def _align_all(taken: Sequence[Queued]) -> list[Result]:
    """Align a batch; pairs of the same session go through the model together."""
    results: list[Result] = [None] * len(taken)
    for session in {session for session, *_ in taken}:
        numbers = [n for n, pair in enumerate(taken) if pair[0] is session]
        for n, result in zip(numbers, _attempt(session, [taken[n][1] for n in numbers]), strict=True):
            results[n] = result
    return results


def _attempt(session: Session, pairs: Sequence[Sequence[Pair]]) -> list[Result]:
    """Align pairs; on an error align each half separately, so that only the pair that causes it fails."""
    try:
        return [alignments for _, alignments in session.results(pairs, lambda sentences: sentences)]
    except BaseException as error:  # a library in Rust may raise no Exception, and someone waits for the result
        if len(pairs) == 1:
            _log.error("a pair cannot be aligned: %s", type(error).__name__)  # its message may quote the pair
            return [None]
    half = len(pairs) // 2
    return _attempt(session, pairs[:half]) + _attempt(session, pairs[half:])
