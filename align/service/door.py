"""Checks of every request: token, size of the body, and an answer even on errors."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from align.service.limits import BODY_BYTES
from align.service.rounds import Metrics

OPEN = "/health"
"""The path that needs no token, for process monitors."""

CLIENT_LEFT = 499
"""Status code counted for a request whose client disconnected; it is never sent."""

INTERNAL_ERROR = "an error of the service's own"

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
    """ASGI middleware that checks requests and counts them.

    Args:
        token: token that requests must carry; empty for none.
        paths: paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, token: str, metrics: Metrics, paths: frozenset[str]) -> None:
        self.app, self._metrics, self._paths = app, metrics, paths
        self._expected = f"bearer {token}".encode() if token else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it; other events, such as startup and shutdown, go to the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        code, start = 0, time.monotonic()
        headers = dict(scope["headers"])

        async def answer(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            scheme, space, token = headers.get(b"authorization", b"").partition(b" ")
            authorization = scheme.lower() + space + token
            if scope["path"] != OPEN and self._expected and not hmac.compare_digest(authorization, self._expected):
                why = "a token is needed: Authorization: Bearer TOKEN"
                await refusal(401, why, {"WWW-Authenticate": "Bearer"})(scope, receive, answer)
            else:
                await self.app(scope, _limited(headers, receive), answer)
        except asyncio.CancelledError:  # the server shuts down, and the timeout has expired
            if not code:
                await refusal(503, "the service was stopped before there was an answer")(scope, receive, answer)
        except Exception as error:
            _log.error("%s while answering a request", type(error).__name__)  # its message may quote the request
            if not code:
                await refusal(500, INTERNAL_ERROR)(scope, receive, answer)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, code or CLIENT_LEFT).inc()
            self._metrics.seconds.observe(time.monotonic() - start)


def _limited(headers: Mapping[bytes, bytes], receive: Receive) -> Receive:
    """Return a receive function that refuses a body which is, or says that it is, too large."""
    stated = int(headers.get(b"content-length", b"0"))  # the server has checked that it is a number
    size = 0

    async def receive_part() -> Message:
        nonlocal size
        if stated <= BODY_BYTES:
            message = await receive()
            size += len(message.get("body", b""))
        if max(stated, size) > BODY_BYTES:
            raise HTTPException(413, f"a body has {BODY_BYTES:,} bytes at most")
        return message

    return receive_part
