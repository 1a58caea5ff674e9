"""The application: its routes, requests and replies."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

import align
from align.core.formats import to_json
from align.io.session import Session
from align.service import messages
from align.service.gate import CLIENT_LEFT, Gate, Metrics, refusal
from align.service.messages import (
    EXAMPLES,
    AlignedPair,
    Reply,
    SentencePair,
    TransferredPair,
    TranslatedPair,
    read_pair,
)
from align.service.rounds import ROUND_CHARACTERS, TRANSLATED_CHARACTERS, Rounds
from align.service.work import Item, Work, read_links, read_page, read_sentence, read_tagged

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": messages.Refusal} for code in (400, 401, 413, 421, 422, 429, 500, 501, 503)
}

_log = logging.getLogger("align")


class PrintableJSON(JSONResponse):
    """An answer in which all control characters of a terminal are escaped."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return to_json(content, separators=(",", ":")).encode()


class Service:
    """Answers requests of `request_pairs` pairs at most, of which `queue_pairs` wait at most."""

    def __init__(self, work: Work, request_pairs: int, queue_pairs: int, metrics: Metrics) -> None:
        self._work, self._metrics = work, metrics
        self._request_pairs, self._queue_pairs, self._queued = request_pairs, queue_pairs, 0
        self._aligning, self._translating = (Rounds(n, metrics) for n in (ROUND_CHARACTERS, TRANSLATED_CHARACTERS))
        self._tags = ThreadPoolExecutor(1, "tags")
        self._translators: Future[tuple[Session, Session]] | None = None
        self._running: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Run the threads of the models as long as the server runs."""
        self._running = [asyncio.create_task(rounds.run()) for rounds in (self._aligning, self._translating)]
        yield
        for task in self._running:
            task.cancel()
        self._tags.shutdown(wait=False, cancel_futures=True)

    async def health(self, response: Response) -> dict[str, Any]:
        """Tell whether pairs are accepted, and by which models; needs no token."""
        ready = bool(self._running) and not any(task.done() for task in self._running)
        response.status_code = 200 if ready else 503
        return {"ready": ready, "models": [*self._work.models], "signature": self._work.signature}

    async def metrics(self) -> Response:
        """Return counts since the start, for Prometheus."""
        self._metrics.queued.set(self._queued)
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def align(self, request: Request, body: messages.AlignRequest) -> Any:
        """Return the links of each pair, which depend only on the pair."""
        read = partial(read_links, format=body.format, scores=body.scores)
        return await self._answer(request, body.pairs, read, self._aligning, self._work.links)

    async def transfer(self, request: Request, body: messages.TransferRequest) -> Any:
        """Return each target with the tags of its source, and the positions of the tags."""
        read = partial(read_tagged, tags=body.tags, split=body.split)
        return await self._answer(request, body.pairs, read, self._aligning, self._work.tags, tags=True)

    async def translate(self, request: Request, body: messages.TranslateRequest) -> Any:
        """Return the translation of each sentence, with its links or with the tags of the sentence."""
        if self._translators is None or (self._translators.done() and self._translators.exception()):
            self._translators = self._translating.thread.submit(self._load_translators)
        with_links, with_tags = await asyncio.shield(asyncio.wrap_future(self._translators))
        if body.tags is None:
            return await self._answer(request, body.pairs, read_sentence, self._translating, with_links)
        read = partial(read_page, tags=body.tags, split=body.split, languages=self._work.languages)
        return await self._answer(request, body.pairs, read, self._translating, with_tags, tags=True)

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
        request: Request,
        contents: Sequence[Any],
        read: Callable[[SentencePair, int], Item],
        rounds: Rounds,
        session: Session,
        *,
        tags: bool = False,
    ) -> Any:
        """Align the pairs of a request in turn with those of others, and write the result of each."""
        if len(contents) > self._request_pairs:
            raise HTTPException(413, f"{len(contents):,} pairs, and a request has {self._request_pairs:,} at most")
        if self._queued + len(contents) > self._queue_pairs:
            raise HTTPException(429, "too many pairs are waiting", {"Retry-After": "1"})
        loop = asyncio.get_running_loop()

        async def call(function: Callable[..., Any], *arguments: Any) -> Any:
            return await loop.run_in_executor(self._tags, function, *arguments) if tags else function(*arguments)

        async def answer() -> dict[str, Any]:
            pairs = [read_pair(content, request.url.path) for content in contents]
            items = [await call(read, pair, number) for number, (pair, _) in enumerate(pairs, 1)]
            results = iter(await rounds.align(session, [pair for item in items for pair in item.pairs]))
            replies = []
            for (pair, bad), item in zip(pairs, items, strict=True):
                found = [next(results) for _ in item.pairs]
                alignments = [alignment for alignment in found if alignment is not None]
                if bad or item.error:
                    status = "bad pair" if bad else "bad tags"
                elif len(alignments) < len(found):
                    status = "failed"
                else:
                    skipped = [alignment.skipped for alignment in alignments if alignment.skipped]
                    blank = all(alignment.pair.blank for alignment in alignments)
                    status = skipped[0] if skipped else "blank" if blank else "ok"
                self._metrics.pairs.labels(status).inc()
                about = {"id": pair.id, "status": status, "error": bad or item.error or None}
                about = {name: value for name, value in about.items() if value is not None}
                replies.append(about | await call(item.write, alignments if status in ("ok", "blank") else None))
            return {"pairs": replies}

        self._queued += len(contents)
        try:
            return await unless_left(request, answer())
        finally:
            self._queued -= len(contents)


async def unless_left(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
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


def build_app(
    work: Work, token: str = "", origins: Sequence[str] = (), request_pairs: int = 1000, queue_pairs: int = 4000
) -> FastAPI:
    """Return the whole application, for any ASGI server.

    Args:
        token: token that requests must carry, except those for /health and /docs; empty for none: on a loopback
            address, requests then must name a host of this machine or of `origins`.
        origins: sites whose pages may read answers in a browser.
        request_pairs: maximum number of pairs in a request.
        queue_pairs: maximum number of pairs of all requests in the queue.
    """
    metrics = Metrics(queue_pairs)
    service = Service(work, request_pairs, queue_pairs, metrics)
    app = FastAPI(
        title="extract-align",
        description="Word alignments of translated sentences, and tags put into translations along them.",
        version=align.__version__,
        lifespan=service.lifespan,
        redirect_slashes=False,
        docs_url=None,  # its page loads scripts from a third party
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # which may quote requests
    )
    requests = {"GET /docs": "these requests as a page", "GET /openapi.json": "the schema of requests and answers"}

    async def about() -> Any:
        """Return the requests that are answered."""
        return {"service": f"extract-align {align.__version__}", "requests": requests}

    async def docs(request: Request) -> Response:
        """Return the requests as a page without scripts, so that it needs no other server."""
        page = "<!doctype html><meta charset=utf-8><title>extract-align</title><h1>extract-align</h1>\n"
        for name, summary in requests.items():
            page += f"<h2>{name}</h2><p>{summary}</p>\n"
            if example := EXAMPLES.get(path := name.split()[1]):
                url, schemas = f"{request.base_url}{path[1:]}", app.openapi()["components"]["schemas"]
                page += f"<pre>curl --json '{escape(json.dumps(example))}' {escape(url)}</pre>\n"
                for field, about in schemas[f"{path[1:].title()}Request"]["properties"].items():
                    page += f"<li><code>{field}</code> {about.get('description', '')}\n"
        return HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'"})

    for method, path, answer, model, summary in (
        ("POST", "/align", service.align, Reply[AlignedPair], "links of sentence pairs"),
        ("POST", "/transfer", service.transfer, Reply[TransferredPair], "translations with the tags of their sources"),
        ("POST", "/translate", service.translate, Reply[TranslatedPair], "translated sentences, with links or tags"),
        ("GET", "/health", service.health, messages.Health, "whether the service is ready, and its models"),
        ("GET", "/metrics", service.metrics, None, "counters for Prometheus"),
    ):
        app.add_api_route(
            path,
            answer,
            methods=[method],
            response_model=model,
            response_model_exclude_unset=True,
            response_class=PlainTextResponse if path == "/metrics" else PrintableJSON,
            responses=REFUSALS if method == "POST" else None,
        )
        requests[f"{method} {path}"] = summary
    app.add_api_route("/", about, methods=["GET"], response_class=PrintableJSON)
    app.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]  # values are never quoted
        why = "the body is no JSON object, or its content-type is not application/json"
        if first["type"] == "json_invalid":
            why = f"the body is no JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        elif len(first["loc"]) > 1:
            why = messages.first_error([first], 1)
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

    paths = {name.split()[1] for name in requests} | {"/"}
    app.add_middleware(Gate, token, origins, metrics, paths)  # inside of what logs errors as they are
    if origins:
        app.add_middleware(  # outside: a browser's preflight request has no token
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Content-Type"),
            expose_headers=("Retry-After",),
        )
    return app
