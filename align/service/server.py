"""The server: its socket, and graceful shutdown."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from align.core.errors import DataError
from align.service.limits import MAX_CONNECTIONS

HEADERS_BYTES = 16_384
"""Maximum number of bytes in an unfinished head of a request."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that has its address, and does not listen yet: until then connections are refused.

    Args:
        port: 0 for one that the system chooses.

    Raises:
        DataError: there is no such address on this machine, or it is in use.
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
    return DataError(f"{host}, port {port}: {error.strerror}", hint="take another ‹port›")


def address_of(listener: socket.socket) -> str:
    """Return the URL of a socket, as clients write it."""
    host, port, *_ = listener.getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """Shuts down gracefully at a signal, and exits at a second one; uvicorn's own server re-raises the first one."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()  # when signals are handled, too

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True


def serve(app: Any, listener: socket.socket, timeout: int, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C, and then finish the running ones.

    Args:
        listener: as returned by `bind`.
        timeout: seconds until an idle connection is closed, and at shutdown until running requests are dropped.
        on_ready: callback when clients can connect.

    Raises:
        DataError: another process has begun to listen at the same address since `bind`.
    """
    try:
        listener.listen()
    except OSError as error:
        host, port, *_ = listener.getsockname()
        raise _taken(host, port, error) from None
    _Server(configure(app, timeout), on_ready).run(sockets=[listener])


def configure(app: Any, timeout: int) -> uvicorn.Config:
    """Return the settings of uvicorn."""
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,  # Python's default: errors to stderr
        log_level="error",  # no warning of each request that is not HTTP: a client may send any number
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=timeout,
        timeout_graceful_shutdown=timeout,
        h11_max_incomplete_event_size=HEADERS_BYTES,
    )
