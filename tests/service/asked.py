"""The service in this process: a stand-in for a model, and a client of the whole application."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from align import Alignment, Pair
from align.io.session import Session
from align.service.app import build_app
from align.service.work import Work

T = TypeVar("T")

SECRET = "geheim"
"""A word that no log and no other reply may hold."""


class Panic(BaseException):
    """As what a library in Rust raises."""


class Model:
    """Links words one by one; fails over the word "boom", takes no "toolong", and can be made to wait.

    Translates words into capital letters.

    Attributes:
        go: whether it works.
        rounds: sources of the pairs that it was given at a time.
    """

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.rounds: list[list[str]] = []

    def __call__(self, pairs: Iterable[Pair], *callbacks: object) -> Iterator[Alignment]:
        yield from self.align([*pairs])

    def translate(self, pairs: Iterable[Pair], *callbacks: object) -> Iterator[Alignment]:
        yield from self.align([pair.with_target(tuple(map(str.upper, pair.source))) for pair in pairs])

    def align(self, pairs: Sequence[Pair]) -> list[Alignment]:
        self.rounds.append([" ".join(pair.source) for pair in pairs])
        assert self.go.wait(30)
        if any("boom" in pair.source for pair in pairs):
            raise Panic(SECRET)
        return [self._one(pair) for pair in pairs]

    def _one(self, pair: Pair) -> Alignment:
        if "toolong" in pair.source:
            return Alignment(pair, {}, "too long")
        return Alignment(pair, {(n, n): 0.75 for n in range(min(len(pair.source), len(pair.target)))})


def work_of(model: Model, models: Sequence[str] = ("model",), signature: str = "signature") -> Work:
    """The functions of a service with this model."""
    aligner: Any = None  # which only the signature of a session needs
    align, translate = (Session(aligner, function) for function in (model, model.translate))  # type: ignore[arg-type]
    return Work(align, align, lambda: (translate, translate), [*models], signature)


@asynccontextmanager
async def asking(work: Work | Model, **named: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service that runs until the context ends."""
    app = build_app(work_of(work) if isinstance(work, Model) else work, **named)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        client.app = app  # type: ignore[attr-defined]
        yield client


def run(test: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a test's coroutine, for half a minute at most."""
    return asyncio.run(asyncio.wait_for(test(), 30))


def pairs(*sides: tuple[str, str], **more: Any) -> dict[str, Any]:
    """A request's body."""
    return {"pairs": [{"source": source, "target": target} for source, target in sides], **more}


async def until(true: Callable[[], object]) -> None:
    """Let others work until something is so."""
    while not true():
        await asyncio.sleep(0.001)
