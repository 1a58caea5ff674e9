"""The application: its routes, requests and replies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

import align
from align.core.formats import to_json
from align.io.session import Session
from align.service.door import CLIENT_LEFT, INTERNAL_ERROR, Door, refusal
from align.service.limits import Limits
from align.service.messages import (
    EXAMPLES,
    About,
    AlignReply,
    AlignRequest,
    Health,
    Read,
    Refusal,
    TransferReply,
    TransferRequest,
    TranslateReply,
    TranslateRequest,
    first_error,
    read_pair,
)
from align.service.rounds import Metrics, Rounds
from align.service.work import Item, Work, read_links, read_page, read_sentence, read_tagged

ABOUT = "Word alignments of translated sentences, and tags put into translations along them."

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Refusal, "description": description}
    for code, description in {
        400: "A body that is no JSON",
        401: "No token, or another one",
        413: "More than is taken of one request",
        422: "JSON that is not as described here",
        429: "Too many pairs are waiting; try again after Retry-After seconds",
        500: "An error of the service's own",
        501: "The model cannot translate",
        503: "The service is stopping, has failed, or has too many connections",
    }.items()
}


REQUESTS = {
    "POST /align": "links of sentence pairs",
    "POST /transfer": "translations with the tags of their sources",
    "POST /translate": "translations of sentences, with links or tags",
    "GET /health": "whether the service is ready, and its models",
    "GET /metrics": "counters for Prometheus",
    "GET /openapi.json": "the schema of requests and answers",
}

TRANSLATION = 40
"""Characters that each character of a sentence to translate counts for in a batch: translating takes far longer."""

_log = logging.getLogger("align.service")


class Service:
    """Answers requests."""

    def __init__(self, work: Work, limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._rounds = Rounds(limits.queue_pairs, metrics)
        self._tags = ThreadPoolExecutor(1, "tags")
        self._translators: tuple[Session, Session] | None = None
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

    async def about(self) -> Response:
        """Return the requests that are answered."""
        return reply({"service": f"extract-align {align.__version__}", "requests": REQUESTS})

    async def align(self, request: Request, body: AlignRequest) -> Response:
        """Return the links of each pair, which depend only on the pair."""
        pairs = self._read(body.pairs, "/align")
        read = partial(read_links, format=body.format, scores=body.scores)
        return await unless_left(request, self._answer(pairs, read, self._work.links))

    async def transfer(self, request: Request, body: TransferRequest) -> Response:
        """Return each target with the tags of its source, and the positions of the tags."""
        pairs = self._read(body.pairs, "/transfer")
        read = partial(read_tagged, tags=body.tags, split=body.split)
        return await unless_left(request, self._answer(pairs, read, self._work.tags, tags=True))

    async def translate(self, request: Request, body: TranslateRequest) -> Response:
        """Return the translation of each sentence, with its links or with the tags of the sentence."""
        pairs = self._read(body.pairs, "/translate")
        if self._translators is None:
            self._translators = await self._rounds.call(self._load_translators)
        with_links, with_tags = self._translators
        if body.tags is None:
            return await unless_left(request, self._answer(pairs, read_sentence, with_links, cost=TRANSLATION))
        read = partial(read_page, tags=body.tags, split=body.split, language=self._work.language)
        return await unless_left(request, self._answer(pairs, read, with_tags, tags=True, cost=TRANSLATION))

    def _read(self, pairs: Sequence[Any], path: str) -> list[Read]:
        """Read the pairs of a request, and refuse too many."""
        if len(pairs) > (most := self._limits.request_pairs):
            raise HTTPException(413, f"{len(pairs):,} pairs, and a request has {most:,} at most")
        return [read_pair(pair, path) for pair in pairs]

    def _load_translators(self) -> tuple[Session, Session]:
        try:
            return self._work.load_translators()
        except ModuleNotFoundError as error:
            raise HTTPException(501, str(error)) from None
        except Exception as error:
            _log.error("the model cannot translate: %s", type(error).__name__)  # its message may have a path
            raise HTTPException(501, "the model cannot translate") from None

    async def _answer(
        self,
        pairs: Sequence[Read],
        read: Callable[[Read, int], Item],
        session: Session,
        *,
        tags: bool = False,
        cost: int = 1,
    ) -> Response:
        """Align the pairs of a request in turn with those of others, and write the result of each.

        Args:
            tags: whether they are read and written one at a time in a separate thread, since tags take long: requests
                take turns there, and can be cancelled.
            cost: characters that each character counts for in a batch.
        """
        loop = asyncio.get_running_loop()

        async def call(function: Callable[..., Any], *arguments: Any) -> Any:
            return await loop.run_in_executor(self._tags, function, *arguments) if tags else function(*arguments)

        items = [await call(read, pair, number) for number, pair in enumerate(pairs, 1)]
        results = await self._rounds.align(session, [item.pairs for item in items], cost)
        replies = []
        for pair, item, alignments in zip(pairs, items, results, strict=True):
            error = pair.error or item.error
            if error:
                status = "bad pair" if pair.error else "bad tags"
            elif alignments is None:
                status = "failed"
            else:
                skipped = [alignment.skipped for alignment in alignments if alignment.skipped]
                blank = all(alignment.pair.blank for alignment in alignments)
                status = skipped[0] if skipped else "blank" if blank else "ok"
            self._metrics.pairs.labels(status).inc()
            begin = {} if pair.id is None else {"id": pair.id}
            begin |= {"status": status} | ({"error": error} if error else {})
            replies.append(begin | await call(item.write, alignments if status in ("ok", "blank") else None))
        return reply({"pairs": replies})


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
    finally:
        answer.cancel()
        leaving.cancel()


def build_app(work: Work, limits: Limits, token: str = "", origins: Sequence[str] = ()) -> ASGIApp:
    """Return the whole application, for any ASGI server.

    Args:
        token: token that requests must carry, except those for /health; empty for none.
        origins: sites whose pages may read answers in a browser.
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
    posts = (
        ("/align", service.align, AlignReply),
        ("/transfer", service.transfer, TransferReply),
        ("/translate", service.translate, TranslateReply),
    )
    for path, answer, model in posts:
        responses = REFUSALS if path == "/translate" else {n: REFUSALS[n] for n in REFUSALS if n != 501}
        app.add_api_route(path, answer, methods=["POST"], response_model=model, responses=responses)
    app.add_api_route("/", service.about, methods=["GET"], response_model=About)
    app.add_api_route("/health", service.health, methods=["GET"], response_model=Health)
    app.add_api_route("/metrics", service.metrics, methods=["GET"], response_class=PlainTextResponse)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]  # values are never quoted
        why = "the body is no JSON object, or its content-type is not application/json"
        if first["type"] == "json_invalid":
            why = f"the body is no JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        elif len(first["loc"]) > 1 or first["type"] == "unknown":
            why = first_error([first], 1)
        return refusal(422, why, example=EXAMPLES.get(request.url.path))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        why, example = str(error.detail), None
        if error.status_code == 404:
            why = "no such path; GET / lists them"
        elif error.status_code == 405:
            why = f"the path takes {(error.headers or {})['Allow']} requests only"
        elif error.status_code == 400:
            example = EXAMPLES.get(request.url.path)
        return refusal(error.status_code, why, error.headers, example)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return refusal(500, INTERNAL_ERROR)

    door = Door(app, token, metrics, frozenset(app.openapi()["paths"]) | {app.openapi_url or ""})
    if not origins:
        return door
    return CORSMiddleware(  # outside: a browser's preflight request has no token
        door,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=("Authorization", "Content-Type"),
        expose_headers=("Retry-After",),
    )
