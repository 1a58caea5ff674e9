"""The server: its socket, and graceful shutdown."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from align.core.errors import DataError

MAX_CONNECTIONS = 1000
"""Maximum number of open connections, below the number of files that a process may usually have."""

MAX_HEAD_BYTES = 16_384  # maximum number of bytes in an unfinished head of a request
TIMEOUT = 30  # seconds until an idle connection is closed, and at shutdown until running requests are dropped


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address, at a port that the system chooses if it is 0."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # `::` means all addresses of both versions
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except (socket.gaierror, UnicodeError) as error:
        raise DataError(f"{host}: {getattr(error, 'strerror', None) or 'no name of a host'}") from None
    except OSError as error:
        message = f"{host}, port {port}: {str(error.strerror).partition(' (while')[0]}"
        is_elsewhere = error.errno == errno.EADDRNOTAVAIL  # the host's address, which no port changes
        raise DataError(message, hint="" if is_elsewhere else "use another ‹port›") from None


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


def serve(app: Any, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish the running ones; `on_ready` is called at the beginning."""
    config = uvicorn.Config(
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
        timeout_keep_alive=TIMEOUT,
        timeout_graceful_shutdown=TIMEOUT,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    _Server(config, on_ready).run(sockets=[listener])
