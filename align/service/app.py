"""The application: its addresses, what they take and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import align
from align.core.formats import format_pharaoh, to_json
from align.core.text import make_pair
from align.core.types import Alignment, Pair
from align.service.door import CLIENT_LEFT, OURS, Door, refusal
from align.service.limits import LINE_CHARACTERS, Limits
from align.service.messages import (
    AlignReply,
    AlignRequest,
    Health,
    Refusal,
    SentencePair,
    TransferReply,
    TransferRequest,
)
from align.service.metrics import Metrics
from align.service.rounds import QueueFullError, Rounds, RoundsEndedError
from align.service.tagged import read_tagged, write_tagged
from align.service.work import Work

ABOUT = "Word alignments of translated sentences, and tags put into translations along them."

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Refusal, "description": what}
    for code, what in {
        400: "A body that is no JSON",
        401: "No token, or another one",
        408: "A body that takes too long",
        413: "More than is taken of one request",
        422: "JSON that is not as described here",
        429: "Too many pairs are waiting; try again after Retry-After seconds",
        500: "An error of the service's own",
        503: "The service is stopping or has failed, and there will be no answer",
    }.items()
}


class Service:
    """Answers requests.

    Args:
        work: what it does.
        limits: how much of it.
        metrics: where it is counted.
    """

    def __init__(self, work: Work, limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._rounds = Rounds(limits.queue_pairs, metrics)
        self._tags = ThreadPoolExecutor(1, "tags")
        self._running: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Run the model's rounds as long as the server does."""
        self._running = asyncio.create_task(self._rounds.run())
        yield
        self._running.cancel()
        self._tags.shutdown(wait=False, cancel_futures=True)

    async def health(self) -> Response:
        """Whether pairs are taken, and by which models; needs no token."""
        ready = self._running is not None and not self._running.done()
        about = Health(ready=ready, models=[*self._work.models], signature=self._work.signature)
        return reply(about.model_dump(), 200 if ready else 503)

    async def metrics(self) -> Response:
        """Counts since the start, for Prometheus."""
        self._metrics.queued.set(self._rounds.queued)
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def align(self, request: Request, body: AlignRequest) -> Response:
        """Links of each pair; they depend on nothing but the pair."""
        self._check(body.pairs)
        pairs = [make_pair(one.source, one.target, n) for n, one in enumerate(body.pairs, 1)]
        return await unless_left(request, self._links(pairs, body))

    async def transfer(self, request: Request, body: TransferRequest) -> Response:
        """Each target with the tags of its source, and where they were put."""
        self._check(body.pairs)
        return await unless_left(request, self._transferred(body))

    async def _links(self, pairs: Sequence[Pair], asked: AlignRequest) -> Response:
        replies = []
        for found in await self._rounds.align(self._work.align, pairs):
            links = [*found] if found else []
            aligned: dict[str, Any] = {"status": self._status(found)}
            if asked.format == "pharaoh":
                aligned["links"] = format_pharaoh(found) if found else ""
            else:
                aligned["links"] = links
            if asked.scores:
                aligned["scores"] = [round(found.scores[link], 4) for link in links] if found else []
            replies.append(aligned)
        return reply({"pairs": replies})

    async def _transferred(self, asked: TransferRequest) -> Response:
        """A pair at a time in a thread of its own: others get their turn, and one whose client has left is the last."""
        loop = asyncio.get_running_loop()
        items = [
            await loop.run_in_executor(self._tags, read_tagged, one.source, one.target, asked.tags, n)
            for n, one in enumerate(asked.pairs, 1)
        ]
        found = await self._rounds.align(self._work.align_for_tags, [item.pair for item in items])
        replies = [
            await loop.run_in_executor(self._tags, write_tagged, item, alignment, status, asked.split)
            for item, alignment in zip(items, found, strict=True)
            for status in [self._status(alignment, "" if item.markup else "bad tags")]
        ]
        return reply({"pairs": replies})

    def _status(self, found: Alignment | None, before: str = "") -> str:
        """What became of a pair, or had before it was aligned; it is counted."""
        status = before or ("failed" if found is None else found.skipped or ("blank" if found.pair.blank else "ok"))
        self._metrics.pairs.labels(status).inc()
        return status

    def _check(self, pairs: Sequence[SentencePair]) -> None:
        """Refuse a request that has too much in it, or what is not a line of text.

        Raises:
            HTTPException: says where, with status 413 or 422.
        """
        limits = self._limits
        if len(pairs) > limits.request_pairs:
            raise HTTPException(413, f"{len(pairs):,} pairs, and a request has {limits.request_pairs:,} at most")
        for n, pair in enumerate(pairs):
            for side, line in (("source", pair.source), ("target", pair.target)):
                if len(line) > LINE_CHARACTERS:
                    most = f"and a sentence has {LINE_CHARACTERS:,} at most"
                    raise HTTPException(413, f"pairs.{n}.{side}: {len(line):,} characters, {most}")
                if "\n" in line:
                    raise HTTPException(422, f"pairs.{n}.{side}: a line feed; a sentence is one line")
                try:
                    line.encode()
                except UnicodeEncodeError:
                    raise HTTPException(422, f"pairs.{n}.{side}: half of a surrogate pair, which is no text") from None


def reply(content: Any, code: int = 200) -> Response:
    """An answer in JSON, with all escaped that acts on a terminal."""
    return Response(to_json(content, separators=(",", ":")), code, media_type="application/json")


async def unless_left(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """An answer, or none where the client leaves before: its work is cancelled, and its pairs leave the queue."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, leaving = asyncio.create_task(work), asyncio.create_task(left())
    try:
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else Response(status_code=CLIENT_LEFT)
    except QueueFullError:
        return refusal(429, "too many pairs are waiting", {"Retry-After": "1"})
    except RoundsEndedError:
        return refusal(503, "the service has failed and must be started again")
    finally:
        answer.cancel()
        leaving.cancel()


def build_app(work: Work, limits: Limits, token: str = "") -> Door:
    """The whole application, for any ASGI server.

    Args:
        work: what it does.
        limits: how much of it.
        token: what requests must name, but those for /health; empty where anyone may ask.
    """
    metrics = Metrics(limits.queue_pairs)
    service = Service(work, limits, metrics)
    app = FastAPI(
        title="extract-align",
        description=ABOUT,
        version=align.__version__,
        lifespan=service.lifespan,
        redirect_slashes=False,
        docs_url=None,  # a page whose scripts come from elsewhere
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # which may quote requests
    )
    app.add_api_route("/align", service.align, methods=["POST"], response_model=AlignReply, responses=REFUSALS)
    app.add_api_route("/transfer", service.transfer, methods=["POST"], response_model=TransferReply, responses=REFUSALS)
    app.add_api_route("/health", service.health, methods=["GET"], response_model=Health)
    app.add_api_route("/metrics", service.metrics, methods=["GET"], response_class=PlainTextResponse)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return refusal(422, _first_of(error))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        return refusal(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return refusal(500, OURS)

    return Door(app, limits.timeout, token, metrics, frozenset(app.openapi()["paths"]) | {app.openapi_url or ""})


def _first_of(error: RequestValidationError) -> str:
    """Where the first thing is that is not as described, and what is wrong; values are never quoted."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is no JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    where = ".".join(map(str, first["loc"][1:]))
    if where:
        return f"{where}: {first['msg']}"
    if first["type"] == "unknown":
        return str(first["msg"])
    return "the body is no JSON object, or its content-type is not application/json"
