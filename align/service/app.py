"""The application: its routes, requests and replies."""

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
from align.service.rounds import Metrics, QueueFullError, Rounds, RoundsEndedError
from align.service.work import Work, read_tagged, write_tagged

ABOUT = "Word alignments of translated sentences, and tags put into translations along them."

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Refusal, "description": description}
    for code, description in {
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
    """Answers requests."""

    def __init__(self, work: Work, limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._rounds = Rounds(limits.queue_pairs, metrics)
        self._tags = ThreadPoolExecutor(1, "tags")
        self._running: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Run the model's thread as long as the server runs."""
        self._running = asyncio.create_task(self._rounds.run())
        yield
        self._running.cancel()
        self._tags.shutdown(wait=False, cancel_futures=True)

    async def health(self) -> Response:
        """Tell whether pairs are accepted, and by which models; needs no token."""
        ready = self._running is not None and not self._running.done()
        about = Health(ready=ready, models=[*self._work.models], signature=self._work.signature)
        return reply(about.model_dump(), 200 if ready else 503)

    async def metrics(self) -> Response:
        """Return counts since the start, for Prometheus."""
        self._metrics.queued.set(self._rounds.queued)
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def align(self, request: Request, body: AlignRequest) -> Response:
        """Return the links of each pair, which depend only on the pair."""
        self._check(body.pairs)
        pairs = [make_pair(pair.source, pair.target, n) for n, pair in enumerate(body.pairs, 1)]
        return await unless_left(request, self._links(pairs, body))

    async def transfer(self, request: Request, body: TransferRequest) -> Response:
        """Return each target with the tags of its source, and the positions of the tags."""
        self._check(body.pairs)
        return await unless_left(request, self._transferred(body))

    async def _links(self, pairs: Sequence[Pair], body: AlignRequest) -> Response:
        replies = []
        for alignment in await self._rounds.align(self._work.align, pairs):
            links = [*alignment] if alignment else []
            aligned: dict[str, Any] = {"status": self._status(alignment)}
            if body.format == "pharaoh":
                aligned["links"] = format_pharaoh(alignment) if alignment else ""
            else:
                aligned["links"] = links
            if body.scores:
                aligned["scores"] = [round(alignment.scores[link], 4) for link in links] if alignment else []
            replies.append(aligned)
        return reply({"pairs": replies})

    async def _transferred(self, body: TransferRequest) -> Response:
        """Place tags one pair at a time in a separate thread, so that requests take turns and can be cancelled."""
        loop = asyncio.get_running_loop()
        items = [
            await loop.run_in_executor(self._tags, read_tagged, pair.source, pair.target, body.tags, n)
            for n, pair in enumerate(body.pairs, 1)
        ]
        alignments = await self._rounds.align(self._work.align_for_tags, [item.pair for item in items])
        replies = [
            await loop.run_in_executor(self._tags, write_tagged, item, alignment, status, body.split)
            for item, alignment in zip(items, alignments, strict=True)
            for status in [self._status(alignment, "" if item.markup else "bad tags")]
        ]
        return reply({"pairs": replies})

    def _status(self, alignment: Alignment | None, before: str = "") -> str:
        """Return and count the status of a pair; `before` is one from before it was aligned."""
        status = before or (
            "failed" if alignment is None else alignment.skipped or ("blank" if alignment.pair.blank else "ok")
        )
        self._metrics.pairs.labels(status).inc()
        return status

    def _check(self, pairs: Sequence[SentencePair]) -> None:
        """Refuse a request that is too large, or whose sentences are not lines of text."""
        limits = self._limits
        if len(pairs) > limits.request_pairs:
            raise HTTPException(413, f"{len(pairs):,} pairs, and a request has {limits.request_pairs:,} at most")
        for n, pair in enumerate(pairs):
            for side, line in (("source", pair.source), ("target", pair.target)):
                if len(line) > LINE_CHARACTERS:
                    limit = f"and a sentence has {LINE_CHARACTERS:,} at most"
                    raise HTTPException(413, f"pairs.{n}.{side}: {len(line):,} characters, {limit}")
                if "\n" in line:
                    raise HTTPException(422, f"pairs.{n}.{side}: a line feed; a sentence is one line")
                try:
                    line.encode()
                except UnicodeEncodeError:
                    raise HTTPException(422, f"pairs.{n}.{side}: half of a surrogate pair, which is no text") from None


def reply(content: Any, code: int = 200) -> Response:
    """Return an answer in JSON, with all terminal control characters escaped."""
    return Response(to_json(content, separators=(",", ":")), code, media_type="application/json")


async def unless_left(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Await an answer; if the client disconnects first, cancel its work and remove its pairs from the queue."""

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
    """Return the whole application, for any ASGI server.

    Args:
        token: token that requests must carry, except those for /health; empty for none.
    """
    metrics = Metrics(limits.queue_pairs)
    service = Service(work, limits, metrics)
    app = FastAPI(
        title="extract-align",
        description=ABOUT,
        version=align.__version__,
        lifespan=service.lifespan,
        redirect_slashes=False,
        docs_url=None,  # its page loads scripts from a third party
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
    """Return the location of the first invalid value and the error; values are never quoted."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is no JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    where = ".".join(map(str, first["loc"][1:]))
    if where:
        return f"{where}: {first['msg']}"
    if first["type"] == "unknown":
        return str(first["msg"])
    return "the body is no JSON object, or its content-type is not application/json"
