"""Checks, counts and errors of every request, around the application."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from align.core.errors import printable, shorten

BODY_BYTES = 1 << 20  # maximum number of bytes in the body of a request
OPEN = ("/health", "/docs")  # paths that need no token, for process monitors and readers
CLIENT_LEFT = 499  # status code counted for a request whose client disconnected; it is never sent
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

_log = logging.getLogger("align")

disable_created_metrics()  # a time of creation for each counter, which nothing reads


class Metrics:
    """Counters since the start; paths that are not the service's share one label, which bounds the number of labels."""

    def __init__(self, queue_pairs: int) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        answered = "Requests answered; code 499: the client had left."
        self.requests = counter("extract_align_requests", answered, ["path", "code"])
        seconds = "Seconds from a request's head to its answer."
        self.seconds = Histogram("extract_align_request_seconds", seconds, registry=self._registry)
        self.pairs = counter("extract_align_pairs", "Pairs answered, by status.", ["status"])
        self.rounds = counter("extract_align_rounds", "Rounds of the model.")
        self.round_pairs = counter("extract_align_round_pairs", "Pairs in them.")
        self.queued = gauge("extract_align_queue_pairs", "Pairs that wait for links.")
        gauge("extract_align_queue_limit_pairs", "How many may.").set(queue_pairs)
        ProcessCollector(registry=self._registry)

    def text(self) -> str:
        """Return all counters in the text format 0.0.4."""
        return str(generate_latest(self._registry).decode())


def refusal(
    code: int, why: str, headers: Mapping[str, str] | None = None, example: Mapping[str, Any] | None = None
) -> Response:
    """Return an answer with the reason of a refusal, and a body as it should be, in ASCII: it may quote anything."""
    content = {"error": why} | ({"example": example} if example else {})
    return Response(json.dumps(content), code, headers, "application/json")


class Gate:
    """ASGI middleware that checks host and token before a body is read, limits the body, and counts and logs requests.

    FastAPI's `HTTPBearer` would see a request only when its whole body has been read and parsed.

    Args:
        token: token that requests must carry; empty for none.
        origins: sites whose names a local service without a token answers to, beside those of the machine.
        paths: paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, token: str, origins: Sequence[str], metrics: Metrics, paths: Set[str]) -> None:
        self.app, self._metrics, self._paths = app, metrics, paths
        self._hosts = {"localhost", "127.0.0.1", "[::1]"} | {re.sub(r"https?://|:\d+$", "", site) for site in origins}
        self._expected = f"bearer {token}".encode() if token else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it; other events, such as startup and shutdown, go to the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        code = size = 0
        start, headers = time.monotonic(), dict(scope["headers"])

        async def receive_part() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_BYTES:
                raise HTTPException(413, f"a body has {BODY_BYTES:,} bytes at most")
            return message

        async def answer(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        async def refuse(code: int, why: str, headers: Mapping[str, str] | None = None) -> None:
            await refusal(code, why, headers)(scope, receive, answer)

        try:
            scheme, space, token = headers.get(b"authorization", b"").partition(b" ")
            given = scheme.lower() + space + token
            host = re.sub(r"\.?(:\d*)?$", "", headers.get(b"host", b"").decode("latin-1").lower())
            at = str((scope.get("server") or [""])[0])  # a page whose name leads here (DNS rebinding) has no token
            if host not in {"", at, *self._hosts} and at.startswith(("127.", "::1")) and not self._expected:
                await refuse(421, "the Host header is not a name of this service")
            elif scope["path"] not in OPEN and self._expected and not hmac.compare_digest(given, self._expected):
                why = "a token is needed: Authorization: Bearer TOKEN"
                await refuse(401, why, {"WWW-Authenticate": "Bearer"})
            else:
                await self.app(scope, receive_part, answer)
        except asyncio.CancelledError:  # the server shuts down, and the timeout has expired
            if not code:
                await refuse(503, "the service was stopped before there was an answer")
        except Exception as error:
            _log.error("%s while answering a request", type(error).__name__)  # its message may quote the request
            if not code:
                await refuse(500, "an error of the service's own")
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, code or CLIENT_LEFT).inc()
            self._metrics.seconds.observe(seconds := time.monotonic() - start)
            request = shorten(printable(f"{scope['method']} {scope['path']}"), 200)  # without the query
            _log.info("%s %d %.0f ms", request, code or CLIENT_LEFT, 1000 * seconds)
