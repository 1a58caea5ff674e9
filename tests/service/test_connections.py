"""Connections of clients that do not speak HTTP, to uvicorn as the service sets it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from uvicorn.server import ServerState

from align.service import server
from align.service.app import build_app
from align.service.limits import Limits
from tests.service.asked import Model, run, work_of

GET = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """The port of a service whose connections are idle for a second at most."""
    config = server.configure(build_app(work_of(Model()), Limits()), 1)
    config.load()
    state = ServerState()
    make: Any = config.http_protocol_class
    there = await asyncio.get_running_loop().create_server(
        lambda: make(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with there:
        yield there.sockets[0].getsockname()[1]


async def send(port: int, request: bytes) -> bytes:
    """Return what a client gets until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def test_what_is_no_http_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = GET.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")

    async def ask() -> list[bytes]:
        async with listening() as port:
            return [await send(port, request) for request in (b"\x16\x03\x01", upgrade)]

    assert [answer[:13] for answer in run(ask)] == [b"HTTP/1.1 400 ", b"HTTP/1.1 503 "]
    assert not caplog.records


def test_connections_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)

    async def ask() -> list[bytes]:
        async with listening() as port:
            first = await send(port, GET)
            _, idle = await asyncio.open_connection("127.0.0.1", port)
            second = await send(port, GET)
            idle.close()
            return [first, second]

    first, second = run(ask)
    assert b'"ready"' in first
    assert second.startswith(b"HTTP/1.1 503 ")
    assert second.endswith(b"Service Unavailable")
