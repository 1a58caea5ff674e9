"""What the service counts, in the text format that Prometheus reads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of seconds, those that Prometheus' own clients take."""

Labels = Mapping[str, str | int | float]


class Metrics:
    """Counters since the start.

    Attributes:
        requests: answered, by path and status code.
        pairs: by what became of them.
        rounds: of the model.
        round_pairs: pairs in them.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.pairs: Counter[str] = Counter()
        self.rounds = 0
        self.round_pairs = 0
        self._seconds: Counter[float] = Counter()
        self._sum = 0.0

    def answered(self, path: str, code: int, seconds: float) -> None:
        """Count a request; `path` is one of few, or its own count would be kept for whatever anyone asks for."""
        self.requests[path, code] += 1
        self._seconds[next((bound for bound in BUCKETS if seconds <= bound), float("inf"))] += 1
        self._sum += seconds

    def text(self, queued: int, most: int) -> str:
        """All of it, with the pairs that wait now and how many may."""
        lines = [
            *_metric(
                "extract_align_requests_total",
                "counter",
                "Requests answered; code 499: the client had left.",
                (({"path": path, "code": code}, n) for (path, code), n in sorted(self.requests.items())),
            ),
            *_metric(
                "extract_align_pairs_total",
                "counter",
                "Pairs answered, by status.",
                (({"status": status}, n) for status, n in sorted(self.pairs.items())),
            ),
            *_metric("extract_align_rounds_total", "counter", "Rounds of the model.", [({}, self.rounds)]),
            *_metric("extract_align_round_pairs_total", "counter", "Pairs in them.", [({}, self.round_pairs)]),
            *_metric("extract_align_queue_pairs", "gauge", "Pairs that wait for links.", [({}, queued)]),
            *_metric("extract_align_queue_limit_pairs", "gauge", "How many may.", [({}, most)]),
            *self._histogram("extract_align_request_seconds", "Seconds from a request's head to its answer."),
        ]
        if memory := resident_bytes():
            lines += _metric("process_resident_memory_bytes", "gauge", "Memory of this process.", [({}, memory)])
        return "\n".join((*lines, ""))

    def _histogram(self, name: str, what: str) -> Iterator[str]:
        yield from _metric(name, "histogram", what, [])
        total = 0
        for bound in (*BUCKETS, float("inf")):
            total += self._seconds[bound]
            yield f'{name}_bucket{{le="{"+Inf" if bound == float("inf") else bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


def _metric(name: str, kind: str, what: str, values: Iterable[tuple[Labels, int]]) -> Iterator[str]:
    """The lines of one metric; no label's value needs an escape."""
    yield f"# HELP {name} {what}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        shown = ",".join(f'{key}="{label}"' for key, label in labels.items())
        yield f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def resident_bytes() -> int:
    """Memory of this process that is in RAM, where the system says so; else 0."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
