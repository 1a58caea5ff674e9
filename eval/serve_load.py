"""Does the service answer right when many ask at once, how fast, and in how much memory? eval/results/serve_load.tsv.

    .venv/bin/python eval/run.py serve-load -s SOURCE -t TARGET [--clients 200] [--seconds 600]

Starts `extract-align serve` and asks it for links of pairs of the text, one to eight of them in a request: first one
client by itself, then as many as are asked for, each of which sends its next request when it has its answer. Every
answer is compared with what the same model finds in this process: status, links, and scores to a thousandth.
Whoever is refused (429) waits as long as it is told to. Memory is what the service says of itself at the start, halfway
and at the end. Clients run in this process and take a core of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from common import write_table
from programs import ROOT, absolute, machine
from timing import read

from align import Pair
from align import load as load_model
from align.evaluation.tables import Column, Value

MOST_PAIRS = 8
"""In a request."""

SAME = 1e-3
"""How far scores may lie apart: products of another batch are summed in another order, and replies have four digits."""

START_SECONDS = 120
"""That the service may take to load its model."""

WAIT = httpx.Timeout(120)


class Known(NamedTuple):
    """A pair as a request has it, and what must be answered."""

    sent: dict[str, str]
    status: str
    links: list[list[int]]
    scores: list[float]

    def is_in(self, reply: dict[str, Any]) -> bool:
        """Whether a reply has the same links, and scores as near as can be."""
        if (reply["status"], reply["links"]) != (self.status, self.links):
            return False
        return all(abs(a - b) <= SAME for a, b in zip(reply["scores"], self.scores, strict=True))


@dataclass
class Tally:
    """What came of the requests of some clients.

    Attributes:
        seconds: that each answered request took.
        pairs: in them.
        wrong: requests with any other answer than links that are right.
        refused: requests that were told to come back.
        memory: bytes of the service, at the start, halfway and at the end.
    """

    seconds: list[float] = field(default_factory=list)
    pairs: int = 0
    wrong: int = 0
    refused: int = 0
    memory: list[int] = field(default_factory=list)


def known_links(model: str, pairs: Sequence[Pair]) -> list[Known]:
    """What the model finds in each pair."""
    aligner = load_model(model, device="cpu", too_long="blank").fixed()
    known = []
    for one in aligner(pairs):
        sent = {"source": " ".join(one.pair.source), "target": " ".join(one.pair.target)}
        status = one.skipped or ("blank" if one.pair.blank else "ok")
        record = one.to_dict()
        known.append(Known(sent, status, record["links"], record["scores"]))
    return known


@contextmanager
def service(model: str, threads: int) -> Iterator[str]:
    """The service's address, until the context ends.

    Raises:
        ChildProcessError: it does not start, or does not end well.
    """
    command = [sys.executable, "-m", "align", "serve", "--port", "0", "-m", absolute(model), "--threads", str(threads)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log) as process:
        try:
            yield _address(process, log)
            process.send_signal(signal.SIGTERM)
            if code := process.wait(timeout=60):
                raise ChildProcessError(f"the service ended with exit code {code}: {_read(log)[-200:]}")
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Any) -> str:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if match := re.search(r": (http://\S+)\n", _read(log)):
            return match[1]
        time.sleep(0.1)
    raise ChildProcessError(f"the service does not start: {_read(log)[-200:]}")


def _read(log: Any) -> str:
    log.seek(0)
    return str(log.read().decode())


def client_of(url: str) -> httpx.AsyncClient:
    """A client that loads no certificates: what is asked is plain HTTP, and hundreds of clients would take a while."""
    return httpx.AsyncClient(base_url=url, timeout=WAIT, verify=False, trust_env=False)


async def ask(url: str, known: Sequence[Known], seed: int, end: float, tally: Tally) -> None:
    """Be a client until it is time."""
    draw = random.Random(seed)
    async with client_of(url) as client:
        while time.monotonic() < end:
            chosen = draw.choices(known, k=draw.randint(1, MOST_PAIRS))
            body = {"pairs": [one.sent for one in chosen], "format": "pairs", "scores": True}
            start = time.monotonic()
            try:
                answer = await client.post("/align", json=body)
            except httpx.HTTPError as error:
                _note(tally, repr(error))
                continue
            if answer.status_code == 429:
                tally.refused += 1
                await asyncio.sleep(int(answer.headers["Retry-After"]))
                continue
            tally.seconds.append(time.monotonic() - start)
            tally.pairs += len(chosen)
            replies = answer.json().get("pairs", [])
            if len(replies) != len(chosen):
                _note(tally, f"{answer.status_code} {answer.text[:200]}")
            elif wrong := [one for one, reply in zip(chosen, replies, strict=True) if not one.is_in(reply)]:
                _note(tally, json.dumps([wrong, replies], ensure_ascii=False)[:2000])


def _note(tally: Tally, what: str) -> None:
    """Count a wrong answer, and show the first ones."""
    tally.wrong += 1
    if tally.wrong <= 5:
        print(f"wrong: {what}", file=sys.stderr)


async def watch(url: str, seconds: float, tally: Tally) -> None:
    """Note the service's memory at the start, halfway and at the end."""
    async with client_of(url) as client:
        for pause in (0, seconds / 2, seconds / 2):
            await asyncio.sleep(pause)
            text = (await client.get("/metrics")).text
            match = re.search(r"^process_resident_memory_bytes (\S+)$", text, re.MULTILINE)
            tally.memory.append(int(float(match[1])) if match else 0)


async def measure(url: str, known: Sequence[Known], clients: int, seconds: float) -> Tally:
    """What so many clients get in so many seconds."""
    tally = Tally()
    end = time.monotonic() + seconds
    asking = (ask(url, known, seed, end, tally) for seed in range(clients))
    await asyncio.gather(watch(url, seconds, tally), *asking)
    return tally


COLUMNS = [
    Column("clients", "clients"),
    Column("seconds", "seconds"),
    Column("requests", "requests"),
    Column("pairs_a_second", "pairs/s"),
    Column("wrong", "wrong"),
    Column("refused", "refused (429)"),
    Column("p50", "median ms"),
    Column("p99", "99 % within ms"),
    *(Column(f"memory_{when}", f"MB at the {when}") for when in ("start", "middle", "end")),
]


def row(clients: int, seconds: int, tally: Tally) -> dict[str, Value]:
    """A line of the table."""
    p50, p99 = np.percentile(tally.seconds, (50, 99)) if tally.seconds else (None, None)
    start, middle, end = (round(bytes / 1e6) for bytes in tally.memory)
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(tally.seconds),
        "pairs_a_second": round(tally.pairs / seconds),
        "wrong": tally.wrong,
        "refused": tally.refused,
        "p50": None if p50 is None else round(1000 * p50),
        "p99": None if p99 is None else round(1000 * p99),
        "memory_start": start,
        "memory_middle": middle,
        "memory_end": end,
    }


def run(
    source: str, target: str, model: str, lines: int, clients: int, seconds: int, threads: int, output: Path
) -> None:
    """Measure one client, then all of them; print and write the table."""
    known = known_links(model, read(source, target, lines))
    alone = max(1, min(30, seconds // 4))
    load_before = os.getloadavg()[0]
    with service(model, threads) as url:
        rows = [row(1, alone, asyncio.run(measure(url, known, 1, alone)))]
        rows.append(row(clients, seconds, asyncio.run(measure(url, known, clients, seconds))))
    command = (
        f"python eval/run.py serve-load -s {Path(source).name} -t {Path(target).name} -m {Path(model).name} "
        f"--lines {lines} --clients {clients} --seconds {seconds}"
    )
    about = f"{machine(threads)}; {os.cpu_count()} cores, busy before it (load {load_before:.1f})"
    write_table(COLUMNS, rows, f"{command}; {about}", output / "serve_load.tsv")
