"""Limits of the service, per request and for all requests."""

from __future__ import annotations

from dataclasses import dataclass

BODY_BYTES = 1 << 20
"""Maximum number of bytes in the body of a request."""

LINE_CHARACTERS = 5000
"""Maximum number of characters in a sentence, with its tags."""

ROUND_PAIRS = 64
"""Maximum number of pairs in a batch of the model."""

TRANSLATION = 40
"""Characters that each character of a sentence to translate counts for in a batch: translating takes far longer."""

ROUND_WAIT = 0.002
"""Seconds that the first pair of a batch waits for others."""


@dataclass(frozen=True)
class Limits:
    """Limits that depend on the model and the machine.

    Attributes:
        request_pairs: maximum number of pairs in a request.
        queue_pairs: maximum number of pairs of all requests in the queue.
        timeout: seconds for a body to arrive, for a connection to stay idle, and at shutdown for running requests.
    """

    request_pairs: int = 1000
    queue_pairs: int = 4000
    timeout: float = 30
