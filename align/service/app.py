"""The application: its routes, requests and replies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

import align
from align.core.formats import format_pharaoh, to_json
from align.core.text import make_pair
from align.core.types import Alignment, Pair
from align.service.door import CLIENT_LEFT, OURS, Door, refusal
from align.service.limits import TRANSLATION, Limits
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
from align.service.rounds import Align, Metrics, QueueFullError, Rounds, RoundsEndedError
from align.service.work import Tagged, Work, read_sentence, read_tagged, write_sentence, write_tagged

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
        501: "The model cannot translate",
        503: "The service is stopping or has failed, and there will be no answer",
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

_log = logging.getLogger("align.service")


class Service:
    """Answers requests."""

    def __init__(self, work: Work, limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._rounds = Rounds(limits.queue_pairs, metrics)
        self._tags = ThreadPoolExecutor(1, "tags")
        self._translators: tuple[Align, Align] | None = None
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
        return await unless_left(request, self._links(pairs, body))

    async def transfer(self, request: Request, body: TransferRequest) -> Response:
        """Return each target with the tags of its source, and the positions of the tags."""
        pairs = self._read(body.pairs, "/transfer")
        return await unless_left(request, self._transferred(pairs, body))

    async def translate(self, request: Request, body: TranslateRequest) -> Response:
        """Return the translation of each sentence, with its links or with the tags of the sentence."""
        pairs = self._read(body.pairs, "/translate")
        return await unless_left(request, self._translated(pairs, body))

    async def _links(self, pairs: Sequence[Read], body: AlignRequest) -> Response:
        words = [make_pair(pair.source, pair.target, n) for n, pair in enumerate(pairs, 1)]
        replies = []
        for pair, alignment in zip(pairs, await self._rounds.align(self._work.align, words), strict=True):
            links = [*alignment] if alignment else []
            aligned = self._begin(pair, alignment)
            if body.format == "pharaoh":
                aligned["links"] = format_pharaoh(alignment) if alignment else ""
            else:
                aligned["links"] = links
            if body.scores:
                aligned["scores"] = [round(alignment.scores[link], 4) for link in links] if alignment else []
                if alignment and alignment.agreement:
                    aligned["agreement"] = [round(value, 4) for value in alignment.agreement]
            replies.append(aligned)
        return reply({"pairs": replies})

    async def _transferred(self, pairs: Sequence[Read], body: TransferRequest) -> Response:
        items = await self._tagged(pairs, body.tags)
        alignments = await self._rounds.align(self._work.align_for_tags, [item.pair for item in items])
        return await self._with_tags(pairs, items, alignments, body.split)

    async def _translated(self, pairs: Sequence[Read], body: TranslateRequest) -> Response:
        if self._translators is None:
            self._translators = await self._rounds.call(self._load_translators)
        translate, translate_for_tags = self._translators
        if body.tags:
            return await self._translated_with_tags(pairs, body, translate_for_tags)
        sentences = [make_pair(pair.source, "", n) for n, pair in enumerate(pairs, 1)]
        replies = []
        alignments = await self._rounds.align(translate, sentences, TRANSLATION)
        for pair, alignment in zip(pairs, alignments, strict=True):
            done = alignment is not None and not alignment.skipped and not pair.error
            target = " ".join(alignment.pair.target) if alignment and done else None
            links = format_pharaoh(alignment) if alignment else ""
            replies.append({**self._begin(pair, alignment), "target": target, "links": links})
        return reply({"pairs": replies})

    async def _translated_with_tags(self, pairs: Sequence[Read], body: TranslateRequest, translate: Align) -> Response:
        """Translate sentence by sentence, and place tags one text at a time in a separate thread."""
        loop, language, tags = asyncio.get_running_loop(), self._work.language, body.tags or ""
        items = [
            await loop.run_in_executor(self._tags, read_sentence, pair.source, tags, language, n)
            for n, pair in enumerate(pairs, 1)
        ]
        rest = iter(await self._rounds.align(translate, [one for item in items for one in item.pairs], TRANSLATION))
        replies = []
        for pair, item in zip(pairs, items, strict=True):
            alignments = [alignment for _ in item.pairs for alignment in [next(rest)]]
            done = [alignment for alignment in alignments if alignment]
            worst = next((one for one in done if one.skipped), done[0] if done else Alignment(Pair((), (), 1), {}))
            begin = self._begin(pair, worst if len(done) == len(alignments) else None, item.error)
            placed = done if begin["status"] in ("ok", "blank") else None
            replies.append(begin | await loop.run_in_executor(self._tags, write_sentence, item, placed, body.split))
        return reply({"pairs": replies})

    def _load_translators(self) -> tuple[Align, Align]:
        try:
            return self._work.load_translators()
        except ModuleNotFoundError as error:
            raise HTTPException(501, str(error)) from None
        except Exception as error:
            _log.error("the model cannot translate: %s", type(error).__name__)  # its message may have a path
            raise HTTPException(501, "the model cannot translate") from None

    async def _tagged(self, pairs: Sequence[Read], tags: str) -> list[Tagged]:
        """Read tags one pair at a time in a separate thread, so that requests take turns and can be cancelled."""
        loop = asyncio.get_running_loop()
        return [
            await loop.run_in_executor(self._tags, read_tagged, pair.source, pair.target, tags, n)
            for n, pair in enumerate(pairs, 1)
        ]

    async def _with_tags(
        self, pairs: Sequence[Read], items: Sequence[Tagged], alignments: Sequence[Alignment | None], split: bool
    ) -> Response:
        """Place tags, one pair at a time, too."""
        loop = asyncio.get_running_loop()
        replies = []
        for pair, item, alignment in zip(pairs, items, alignments, strict=True):
            begin = self._begin(pair, alignment, item.error)
            done = begin["status"] in ("ok", "blank")
            placed = await loop.run_in_executor(self._tags, write_tagged, item, alignment if done else None, split)
            replies.append(begin | placed)
        return reply({"pairs": replies})

    def _begin(self, pair: Read, alignment: Alignment | None, tags_error: str = "") -> dict[str, Any]:
        """Return the id, the status and the error of a pair, and count the status."""
        if pair.error or tags_error:
            status = "bad pair" if pair.error else "bad tags"
        elif alignment is None:
            status = "failed"
        else:
            status = alignment.skipped or ("blank" if alignment.pair.blank else "ok")
        self._metrics.pairs.labels(status).inc()
        begin = {} if pair.id is None else {"id": pair.id}
        error = pair.error or tags_error
        return {**begin, "status": status, **({"error": error} if error else {})}

    def _read(self, pairs: Sequence[Any], path: str) -> list[Read]:
        """Read the pairs of a request, and refuse too many."""
        if len(pairs) > (most := self._limits.request_pairs):
            raise HTTPException(413, f"{len(pairs):,} pairs, and a request has {most:,} at most")
        return [read_pair(pair, path) for pair in pairs]


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
        return refusal(422, _first_of(error), example=EXAMPLES.get(request.url.path))

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
        return refusal(500, OURS)

    door = Door(app, limits.timeout, token, metrics, frozenset(app.openapi()["paths"]) | {app.openapi_url or ""})
    if not origins:
        return door
    return CORSMiddleware(  # outside: a browser's preflight request has no token
        door,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=("Authorization", "Content-Type"),
        expose_headers=("Retry-After",),
    )


def _first_of(error: RequestValidationError) -> str:
    """Return the location of the first invalid value and the error; values are never quoted."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is no JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    if len(first["loc"]) > 1 or first["type"] == "unknown":
        return first_error([first], 1)
    return "the body is no JSON object, or its content-type is not application/json"
