"""Counters of the service since its start, in the format of Prometheus."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

disable_created_metrics()  # a time of creation for each counter, which nothing reads


class Metrics:
    """Counters since the start.

    Attributes:
        requests: answered requests, by path and status code; unknown paths share one label, which bounds their number.
        seconds: from a request's head to its answer.
        pairs: answered pairs, by status.
        rounds: batches of the model.
        round_pairs: pairs in them.
        queued: pairs in the queue.
    """

    def __init__(self, queue_pairs: int) -> None:
        self._registry = registry = CollectorRegistry()
        description = "Requests answered; code 499: the client had left."
        self.requests = Counter("extract_align_requests", description, ["path", "code"], registry=registry)
        description = "Seconds from a request's head to its answer."
        self.seconds = Histogram("extract_align_request_seconds", description, registry=registry)
        self.pairs = Counter("extract_align_pairs", "Pairs answered, by status.", ["status"], registry=registry)
        self.rounds = Counter("extract_align_rounds", "Rounds of the model.", registry=registry)
        self.round_pairs = Counter("extract_align_round_pairs", "Pairs in them.", registry=registry)
        self.queued = Gauge("extract_align_queue_pairs", "Pairs that wait for links.", registry=registry)
        limit = Gauge("extract_align_queue_limit_pairs", "How many may.", registry=registry)
        limit.set(queue_pairs)
        ProcessCollector(registry=registry)

    def text(self) -> str:
        """Return all counters in the text format 0.0.4."""
        text: str = generate_latest(self._registry).decode()
        return text
