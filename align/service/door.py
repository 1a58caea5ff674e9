"""What every request passes: who asks, how much comes in, and that all that goes out is an answer."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from align.service.limits import BODY_BYTES
from align.service.metrics import Metrics

OPEN = "/health"
"""The path that needs no token, for whoever watches over processes."""

CLIENT_LEFT = 499
"""What is counted for a request whose client did not wait; nobody gets it."""

OURS = "an error of the service's own"
"""What is said of an error that nobody asked for."""

HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

_log = logging.getLogger("align.service")


def refusal(code: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says why there is none; in ASCII, since what it quotes may be anything."""
    return Response(json.dumps({"error": why}), code, headers, "application/json")


class Door:
    """An ASGI application around another one.

    Args:
        app: answers the requests that are let in.
        timeout: seconds for a body to arrive.
        token: what a request must name; empty where anyone may ask.
        metrics: where requests are counted.
        paths: those that are counted by name.

    Attributes:
        app: the same.
    """

    def __init__(self, app: ASGIApp, timeout: float, token: str, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self._timeout, self._metrics, self._paths = app, timeout, metrics, paths
        self._expected = f"Bearer {token}".encode() if token else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it; what is no request, such as the start and the end, is the application's."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        code, start = 0, time.monotonic()

        async def answer(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await self._enter(scope, receive, answer)
        except asyncio.CancelledError:  # the server ends, and has waited long enough
            if not code:
                await refusal(503, "the service was stopped before there was an answer")(scope, receive, answer)
        except Exception as error:
            _log.error("%s while answering a request", type(error).__name__)  # whose message may quote the request
            if not code:
                await refusal(500, OURS)(scope, receive, answer)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, code or CLIENT_LEFT).inc()
            self._metrics.seconds.observe(time.monotonic() - start)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not; without its body where it needs no token, which anyone could make slow."""
        if scope["path"] == OPEN:
            return await self.app(scope, _again(b"", receive), send)
        given = dict(scope["headers"]).get(b"authorization", b"")
        if self._expected and not hmac.compare_digest(given, self._expected):
            why = refusal(401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
            return await why(scope, receive, send)
        return await self._with_body(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in with the whole of its body, or say why not."""
        too_large = refusal(413, f"a body has {BODY_BYTES:,} bytes at most")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if int(length) > BODY_BYTES:  # which the server has checked
            return await too_large(scope, receive, send)
        try:
            body = await asyncio.wait_for(_read(receive), self._timeout)
        except asyncio.TimeoutError:
            slow = f"the body took more than {self._timeout:g} s to arrive"
            return await refusal(408, slow)(scope, receive, send)
        if body is None:
            return None
        if len(body) > BODY_BYTES:
            return await too_large(scope, receive, send)
        return await self.app(scope, _again(body, receive), send)


async def _read(receive: Receive) -> bytes | None:
    """A request's body, or as much of it as shows that it is too large; None if the client has left."""
    body = bytearray()
    more = True
    while more and len(body) <= BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """What gives out a body that has been read, and then what else comes in."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_part() -> Message:
        return parts.pop() if parts else await receive()

    return next_part
