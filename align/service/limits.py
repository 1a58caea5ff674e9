"""How much the service takes on, of one request and of all of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits beyond which requests are refused, and how requests share the model.

    Attributes:
        body_bytes: of a request.
        body_seconds: that a request's body may take to arrive.
        request_pairs: of a request.
        line_characters: of a sentence, with its tags.
        requests: under way at a time.
        queue_pairs: that wait for links at a time, of all requests.
        round_pairs: that go through the model together.
        round_wait: seconds that the first pair of a round waits for others.

    Raises:
        ValueError: a request may have more pairs than the queue takes, so that it would be refused for ever.
    """

    body_bytes: int = 1 << 20
    body_seconds: float = 30
    request_pairs: int = 1000
    line_characters: int = 5000
    requests: int = 1000
    queue_pairs: int = 4000
    round_pairs: int = 64
    round_wait: float = 0.002

    def __post_init__(self) -> None:
        if self.request_pairs > self.queue_pairs:
            raise ValueError(
                f"a request of {self.request_pairs:,} pairs has no room in a queue of {self.queue_pairs:,}"
            )
