"""Calls one aligner from many threads at once, and counts links that are not those of the call's own sentence."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.hostile import driver

PAIRS = [
    ("das haus ist gut .", "the house is good ."),
    ("der mann ist alt .", "the man is old ."),
    ("gut ist das haus .", "good the house is ."),
    ("wir sind heute da .", "today we are here ."),
    ("das ist es", "that is it"),
    ("Was habt ihr ihm gekauft ?", "What did you buy him ?"),
]
"""Some of one length: these can get each other's attention without any shape telling."""


def run(
    align: Callable[..., Any], calls: int, threads: int, seed: int, pairs: Sequence[tuple[str, str]] = PAIRS
) -> tuple[int, list[str]]:
    """Call from many threads at once; returns how many calls were wrong, and the exceptions of others.

    Args:
        align: called with two sentences.
        calls: in all.
        threads: at once.
        seed: of the order of sentences.
        pairs: to align.
    """
    expected = [str(align(*pair)) for pair in pairs]
    wrong: list[int] = []
    errors: list[str] = []
    ready = threading.Barrier(threads)

    def work(number: int) -> None:
        order = random.Random(f"{seed}/{number}")
        ready.wait()
        for _ in range(calls // threads):
            place = order.randrange(len(pairs))
            try:
                if str(align(*pairs[place])) != expected[place]:
                    wrong.append(place)
            except Exception as error:
                errors.append(repr(error))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(interval)
    return len(wrong), errors


def main() -> int:
    """Share the bundled model among threads; exit code 1 where a call was wrong or failed."""
    import warnings

    from align import load

    warnings.simplefilter("ignore")
    parser = driver.parser_of("threads", 10_000)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    wrong, errors = run(load("de-en", layer=1, head=3, device="cpu").align, args.count, args.threads, args.seed)
    return driver.print_counts("threads", Counter(calls=args.count, exceptions=len(errors), wrong=wrong + len(errors)))


if __name__ == "__main__":
    sys.exit(main())
