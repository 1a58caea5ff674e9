"""The server: a socket, and an end that leaves no request without its answer."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from align.core.errors import Argument, DataError, Remedy

HEADERS_BYTES = 16_384
"""Of the head of a request, as far as it may come without its end."""

IDLE_SECONDS = 30
"""After which a connection is closed on which no request has begun: its head must have come by then, whole."""

_log = logging.getLogger("align.service")


def bind(host: str, port: int) -> socket.socket:
    """A socket that has its address, and does not listen yet: until then clients are told that nobody is there.

    Args:
        host: a name or an address.
        port: 0 for one that the system chooses.

    Raises:
        DataError: there is no such address here, or it is taken.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
    except (OSError, UnicodeError) as error:
        raise DataError(f"{host}: {getattr(error, 'strerror', None) or 'no name of a host'}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _taken(host, port, error) from None
    return listener


def _taken(host: str, port: int, error: OSError) -> DataError:
    return DataError(f"{host}, port {port}: {error.strerror}", remedy=Remedy("take another {}", (Argument("port"),)))


def address_of(listener: socket.socket) -> str:
    """Where a socket is reached, as clients write it."""
    host, port, *_ = listener.getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Connection(H11Protocol):
    """A connection that has so many seconds for a request's head, from its own beginning or the last answer on.

    uvicorn's own waits without end for the first head, and for the rest of one or of a body that was refused.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end_at(self.loop.time() + self.timeout_keep_alive)

    def data_received(self, data: bytes) -> None:
        timer = self.timeout_keep_alive_task
        super().data_received(data)  # which stops the timer
        if timer and self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            self._end_at(timer.when())

    def _end_at(self, when: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_at(when, self.timeout_keep_alive_handler)


class _Log:
    """What asyncio has to say, in a line and once a second.

    Where too many files are open, it would log a traceback for each connection that it cannot take, of thousands.
    """

    def __init__(self) -> None:
        self._last, self._until = "", 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        what = f"{context['message']} ({type(error).__name__})" if error else context["message"]
        if what != self._last or loop.time() > self._until:
            _log.error("%s", what)
            self._last, self._until = what, loop.time() + 1


class _Server(uvicorn.Server):
    """A server that ends well at a signal, and at once at a second one; uvicorn's own ends by the signal itself."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_Log())
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True


def serve(app: Any, listener: socket.socket, stop_seconds: int, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C; then those that are in work, for so many seconds at most.

    Args:
        app: an ASGI application.
        listener: of `bind`.
        stop_seconds: after which requests that still are in work are dropped.
        on_ready: is called when clients can connect.

    Raises:
        DataError: another process has begun to listen at the same address since `bind`.
    """
    try:
        listener.listen()
    except OSError as error:
        host, port, *_ = listener.getsockname()
        raise _taken(host, port, error) from None
    _Server(configure(app, stop_seconds), on_ready).run(sockets=[listener])


def configure(app: Any, stop_seconds: int) -> uvicorn.Config:
    """How uvicorn is to serve an application."""
    return uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="on",
        log_config=None,  # errors, by Python's own way, to stderr
        log_level="error",  # no warning of each request that is no HTTP: anyone may send as many as he likes
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=stop_seconds,
        h11_max_incomplete_event_size=HEADERS_BYTES,
    )
