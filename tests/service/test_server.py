"""`extract-align serve` as a process: where it listens, whom it lets in, how it ends; and how it refuses to start."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

import httpx
from uvicorn.server import ServerState

from align.cli import main as program
from align.cli.serve import build_parser, origin, read_options
from align.service import server
from align.service.app import build_app
from align.service.server import address_of, bind
from tests.cli.conftest import Result, failed
from tests.cli.conftest import run_main as run_main
from tests.conftest import ROOT
from tests.service.asked import Model, pairs, run, work_of

TOKEN = "0123456789abcdef0123456789abcdef"
LONG = pairs(*[("Das Haus ist alt und klein. " * 6, "The house is old and small. " * 6)] * 200)
"""What takes seconds, on one thread."""


class Running(NamedTuple):
    process: subprocess.Popen[str]
    url: str
    log: Path

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def queued(self, **headers: str) -> int:
        text = httpx.get(f"{self.url}/metrics", headers=headers).text
        return int(re.findall(r"^extract_align_queue_pairs (\d+)\.0$", text, re.MULTILINE)[0])


@contextmanager
def serving(folder: Path, *options: object) -> Iterator[Running]:
    log = folder / "log"
    command = [sys.executable, "-m", "align", "serve", "--port", "0", "--device", "cpu", *map(str, options)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors, env=environment, text=True) as process:
        try:
            end = time.monotonic() + 60
            while not (match := re.search(r": (http://\S+)\n", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end
                time.sleep(0.05)
            yield Running(process, match[1], log)
        finally:
            process.kill()


def ask(url: str, body: Any, headers: Any = None) -> httpx.Response:
    return httpx.post(f"{url}/align", json=body, headers=headers, timeout=60)


def test_it_answers_what_it_has_taken_and_ends_or_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    named = {"authorization": f"Bearer {TOKEN}"}
    for signals in (1, 2):
        options = ("--token-file", tmp_path / "token", "--host", "0.0.0.0") if signals == 1 else ()
        with serving(tmp_path, *options) as service, ThreadPoolExecutor(1) as clients:
            assert re.fullmatch(r"http://(127\.0\.0\.1|0\.0\.0\.0):[0-9]+", service.url)
            if options:
                assert ask(service.url, LONG).status_code == 401
                answer = ask(service.url, pairs(("Das Haus ist alt.", "The house is old.")), named)
                assert answer.json() == {"pairs": [{"status": "ok", "links": "0-0 1-1 2-2 3-3"}]}
                assert "server" not in answer.headers
                assert httpx.post(service.url, content=b"x", headers={"upgrade": "websocket"}).status_code == 401
            waiting = clients.submit(ask, service.url, LONG, named)
            while not service.queued(**named):
                time.sleep(0.01)
            service.signal(signal.SIGTERM)
            if signals == 1:
                assert (waiting.result().status_code, len(waiting.result().json()["pairs"])) == (200, 200)
                assert service.process.wait(30) == 0
            else:
                time.sleep(0.3)
                assert service.process.poll() is None
                service.signal(signal.SIGTERM)
                assert service.process.wait(10) == 128 + signal.SIGTERM
                with pytest.raises(httpx.HTTPError):
                    waiting.result()
        log = service.log.read_text()
        assert log.endswith("extract-align serve: stopped\n") == (signals == 1)
        assert not any(word in log for word in ("Haus", "Traceback", TOKEN))


def test_connections_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)

    async def ask() -> tuple[bytes, bytes]:
        config = server.configure(build_app(work_of(Model())))
        config.load()
        make: Any = config.http_protocol_class
        state, loop = ServerState(), asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: make(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        async with listening:
            address = listening.sockets[0].getsockname()
            first, second = [await asyncio.open_connection(*address) for _ in range(2)]
            for _, writer in (first, second):
                writer.write(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answers = await second[0].read(), await first[0].read()
            first[1].close()
            second[1].close()
            return answers

    refused, _ = run(ask)
    assert refused.startswith(b"HTTP/1.1 503 ")


def usage(result: Result, reason: str) -> None:
    hint = "extract-align serve --help lists all options"
    assert (result.code, result.out, result.err) == (2, b"", f"extract-align serve: error: {reason}\n{hint}\n")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1.example.org"])
def test_other_machines_need_a_token(host: str, run_main: Callable[..., Result]) -> None:
    result = run_main(program.main, "serve", "--host", host)
    usage(result, f"--host {host} lets other machines in, and needs --token-file")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["--queue-pairs", "10"],
            "--request-pairs is larger than --queue-pairs: a request of that size would always be refused",
        ),
        *(
            (
                ["--allow-origin", site],
                f"argument --allow-origin: '{site}' is not a scheme and a host, as http://localhost:3000",
            )
            for site in ("*", "localhost:3000", "http://a/b")
        ),
    ],
)
def test_wrong_usage(arguments: Sequence[str], reason: str, run_main: Callable[..., Result]) -> None:
    usage(run_main(program.main, "serve", *arguments), reason)


@pytest.mark.parametrize("token", ["short", "0123456789 abcdef", "a" * 16 + "\nb"])
def test_a_file_that_holds_no_token(token: str, tmp_path: Path, run_main: Callable[..., Result]) -> None:
    (tmp_path / "token").write_text(token)
    result = run_main(program.main, "serve", "--token-file", tmp_path / "token")
    failed(result, "token: no token: one line of 16 to 256 visible ASCII characters: for example what `openssl")
    assert not token or token not in result.err


def test_a_port_that_is_taken(run_main: Callable[..., Result]) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        result = run_main(program.main, "serve", "--port", port)
        failed(result, f"127.0.0.1, port {port}: Address already in use: take another --port")


def test_a_host_that_is_none_of_ours(tmp_path: Path, run_main: Callable[..., Result]) -> None:
    (tmp_path / "token").write_text(TOKEN)
    named = ("serve", "--token-file", tmp_path / "token", "--host")
    failed(run_main(program.main, *named, "192.0.2.1"), "192.0.2.1, port 8000: Cannot assign requested address")
    failed(run_main(program.main, *named, "a" * 64), "a" * 64)


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_address_of_version_six() -> None:
    try:
        listener = bind("::1", 0)
    except ValueError:
        pytest.skip("needs an IPv6 address")
    with listener:
        assert re.fullmatch(r"http://\[::1\]:\d+", address_of(listener))


def test_origins_are_as_browsers_write_them() -> None:
    assert [*map(origin, ("http://A:80/", "https://a:443", "http://a:443"))] == [
        "http://a",
        "https://a",
        "http://a:443",
    ]


def test_the_container_starts_the_service_for_other_machines_with_a_token_and_without_root() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (words,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    program, command, *options = json.loads(words)
    assert (program, command) == ("extract-align", "serve")
    args, _ = read_options(build_parser(), options)
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)
    assert (args.host, args.port, args.token_file) == ("0.0.0.0", int(port), "/run/secrets/token")
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE)).split()
    assert all((ROOT / name).exists() for name in copied)
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["align"]
