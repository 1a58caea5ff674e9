"""How much the service takes on, of one request and of all of them."""

from __future__ import annotations

from dataclasses import dataclass

BODY_BYTES = 1 << 20
"""The most bytes in the body of a request."""

LINE_CHARACTERS = 5000
"""The most characters in a sentence, with its tags."""

ROUND_PAIRS = 64
"""The most pairs that go through the model together."""

ROUND_WAIT = 0.002
"""Seconds that the first pair of a round waits for others."""


@dataclass(frozen=True)
class Limits:
    """Limits that depend on the model and the machine.

    Attributes:
        request_pairs: the most pairs in a request.
        queue_pairs: the most pairs of all requests that wait for links.
        timeout: seconds for a body to arrive, for a connection to stay idle, and at the end for requests in work.
    """

    request_pairs: int = 1000
    queue_pairs: int = 4000
    timeout: float = 30
