"""Checks of every request: token, size of the body, and an answer even on errors."""

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
from align.service.rounds import Metrics

OPEN = "/health"
"""The path that needs no token, for process monitors."""

CLIENT_LEFT = 499
"""Status code counted for a request whose client disconnected; it is never sent."""

OURS = "an error of the service's own"
"""Message for an internal error."""

HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

_log = logging.getLogger("align.service")


def refusal(
    code: int, why: str, headers: Mapping[str, str] | None = None, example: Mapping[str, Any] | None = None
) -> Response:
    """Return an answer with the reason of a refusal, in ASCII, since it may quote anything.

    Args:
        example: a body as it should be.
    """
    content = {"error": why} | ({"example": example} if example else {})
    return Response(json.dumps(content), code, headers, "application/json")


class Door:
    """ASGI middleware that checks requests.

    Args:
        timeout: seconds for a body to arrive.
        token: token that requests must carry; empty for none.
        paths: paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, timeout: float, token: str, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self._timeout, self._metrics, self._paths = app, timeout, metrics, paths
        self._expected = f"bearer {token}".encode() if token else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it; other events, such as startup and shutdown, go to the application."""
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
        except asyncio.CancelledError:  # the server shuts down, and the timeout has expired
            if not code:
                await refusal(503, "the service was stopped before there was an answer")(scope, receive, answer)
        except Exception as error:
            _log.error("%s while answering a request", type(error).__name__)  # its message may quote the request
            if not code:
                await refusal(500, OURS)(scope, receive, answer)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, code or CLIENT_LEFT).inc()
            self._metrics.seconds.observe(time.monotonic() - start)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the token, then forward; /health needs none, and ignores the body, which could arrive slowly."""
        if scope["path"] == OPEN:
            return await self.app(scope, _replay(b"", receive), send)
        scheme, space, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        authorization = scheme.lower() + space + token
        if self._expected and not hmac.compare_digest(authorization, self._expected):
            unauthorized = refusal(
                401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
            return await unauthorized(scope, receive, send)
        return await self._with_body(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request with its complete body, or refuse it."""
        too_large = refusal(413, f"a body has {BODY_BYTES:,} bytes at most")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if int(length) > BODY_BYTES:  # the server has checked that it is a number
            return await too_large(scope, receive, send)
        try:
            body = await asyncio.wait_for(_read(receive), self._timeout)
        except asyncio.TimeoutError:
            slow = f"the body took more than {self._timeout:g} s to arrive"
            return await refusal(408, slow, {"Connection": "close"})(scope, receive, send)
        if body is None:
            return None
        if len(body) > BODY_BYTES:
            return await too_large(scope, receive, send)
        return await self.app(scope, _replay(body, receive), send)


async def _read(receive: Receive) -> bytes | None:
    """Read a request's body, or enough of it to show that it is too large; return None if the client has left."""
    body = bytearray()
    more = True
    while more and len(body) <= BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that replays a body, and then receives further messages."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_part() -> Message:
        return parts.pop() if parts else await receive()

    return next_part
