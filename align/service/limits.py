"""Limits of the service, per request and for all requests."""

from __future__ import annotations

from dataclasses import dataclass

BODY_BYTES = 1 << 20
"""Maximum number of bytes in the body of a request."""

MAX_CONNECTIONS = 1000
"""Maximum number of open connections, below the number of files that a process may usually have."""

LINE_CHARACTERS = 5000
"""Maximum number of characters in a sentence, with its tags."""


@dataclass(frozen=True)
class Limits:
    """Limits that depend on the model and the machine.

    Attributes:
        request_pairs: maximum number of pairs in a request.
        queue_pairs: maximum number of pairs of all requests in the queue.
        timeout: seconds for a connection to stay idle, and at shutdown for running requests.
    """

    request_pairs: int = 1000
    queue_pairs: int = 4000
    timeout: float = 30
