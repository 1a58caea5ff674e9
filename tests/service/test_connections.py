"""Connections of clients that mean harm, or are not HTTP, to uvicorn as the service sets it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from uvicorn.server import ServerState

from align.service import server
from align.service.app import build_app
from align.service.limits import Limits
from align.service.work import Work
from tests.service.asked import Model, run

GET = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
REFUSED = b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n"


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """The port of a service whose connections are idle for a second at most."""
    config = server.configure(build_app(Work(Model(), Model(), ["model"], "signature"), Limits()), 1)
    config.load()
    state, make = ServerState(), cast(type[server._Connection], config.http_protocol_class)
    there = await asyncio.get_running_loop().create_server(
        lambda: make(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with there:
        yield there.sockets[0].getsockname()[1]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 1)


async def drip(port: int, first: bytes, byte: bytes) -> bytes:
    """What comes back to a client that sends a byte now and then, until it is cut off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = bytearray()

    async def take() -> None:
        with suppress(ConnectionError):
            while part := await reader.read(9999):
                answer.extend(part)

    taking = asyncio.create_task(take())
    writer.write(first)
    while not taking.done():
        writer.write(byte)
        await asyncio.wait([taking], timeout=0.05)
    writer.close()
    return bytes(answer)


@pytest.mark.parametrize(
    ("first", "byte", "answer"),
    [
        (b"", b"", b""),
        (b"GET /health HTTP/1.1\r\nA: ", b"a", b""),
        (GET + b"GET / HTTP/1.1\r\nA: ", b"a", b"HTTP/1.1 503 "),  # of /health: the model's rounds are not started
        (REFUSED, b"a", b"HTTP/1.1 413 "),
    ],
    ids=["silent", "first head", "second head", "refused body"],
)
def test_a_connection_without_a_request_ends(first: bytes, byte: bytes, answer: bytes) -> None:
    async def ask() -> bytes:
        async with listening() as port:
            return await drip(port, first, byte)

    found = run(ask)
    assert found.count(b"HTTP/1.1") == bool(answer)
    assert found.startswith(answer)


def test_what_is_no_http_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = GET.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")

    async def ask() -> list[bytes]:
        async with listening() as port:
            return [await drip(port, sent, b"") for sent in (b"\x16\x03\x01", upgrade)]

    assert [answer[:13] for answer in run(ask)] == [b"HTTP/1.1 400 ", b"HTTP/1.1 503 "]
    assert not caplog.records


def test_too_many_files_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(server._Log())
        for _ in range(1000):
            loop.call_exception_handler({"message": "socket.accept()", "exception": OSError("/secret")})
        loop.call_exception_handler({"message": "another"})

    run(fail)
    assert [record.getMessage() for record in caplog.records] == ["socket.accept() (OSError)", "another"]
    assert not any(record.exc_info for record in caplog.records)
