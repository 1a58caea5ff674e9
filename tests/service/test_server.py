"""`extract-align serve` as a process: where it listens, whom it lets in, how it ends; and how it refuses to start."""

from __future__ import annotations

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

from align.cli import main as program
from align.cli.serve import build_parser, origin, read_options
from align.core.errors import DataError
from align.service.limits import Limits
from align.service.server import address_of, bind, serve
from tests.cli.conftest import Result, failed
from tests.cli.conftest import run_main as run_main
from tests.conftest import ROOT
from tests.service.asked import pairs

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


def test_it_answers_what_it_has_taken_and_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as service, ThreadPoolExecutor(4) as clients:
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", service.url)
        answer = ask(service.url, pairs(("Das Haus ist alt.", "The house is old.")))
        assert answer.json() == {"pairs": [{"status": "ok", "links": "0-0 1-1 2-2 3-3"}]}
        assert "server" not in answer.headers
        waiting = [clients.submit(ask, service.url, LONG) for _ in range(2)]
        while service.queued() < 2 * 200:
            time.sleep(0.01)
        service.signal(signal.SIGTERM)
        answers = [one.result() for one in waiting]
        assert [one.status_code for one in answers] == [200, 200]
        assert {len(one.json()["pairs"]) for one in answers} == {200}
        assert service.process.wait(30) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.url}/health")
    log = service.log.read_text()
    assert log.endswith("extract-align serve: stopped\n")
    assert "Haus" not in log
    assert "Traceback" not in log


def test_a_token_and_an_end_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with serving(tmp_path, "--token-file", tmp_path / "token", "--host", "0.0.0.0") as service:
        named = {"authorization": f"Bearer {TOKEN}"}
        assert ask(service.url, LONG).status_code == 401
        assert httpx.get(f"{service.url}/health").json()["ready"]
        with ThreadPoolExecutor(1) as clients:
            waiting = clients.submit(ask, service.url, LONG, named)
            while not service.queued(**named):
                time.sleep(0.01)
            service.signal(signal.SIGTERM)
            time.sleep(0.3)
            assert service.process.poll() is None
            service.signal(signal.SIGTERM)
            assert service.process.wait(10) == 128 + signal.SIGTERM
            with pytest.raises(httpx.HTTPError):
                waiting.result()
    assert TOKEN not in service.log.read_text()


def usage(result: Result, reason: str) -> None:
    hint = "extract-align serve --help lists all options"
    assert (result.code, result.out, result.err) == (2, b"", f"extract-align serve: error: {reason}\n{hint}\n")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org"])
def test_other_machines_need_a_token(host: str, run_main: Callable[..., Result]) -> None:
    result = run_main(program.main, "serve", "--host", host)
    usage(result, f"--host {host} lets other machines in, and needs --token-file")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["text"], "unrecognized arguments: text"),
        (["--port", "65536"], "argument --port: '65536' is not a number from 0 to 65,535"),
        (["--buffer", "7"], "unrecognized arguments: --buffer 7"),
        (
            ["--queue-pairs", "10"],
            "--request-pairs is larger than --queue-pairs: a request of that size would always be refused",
        ),
        *(
            (
                ["--allow-origin", site],
                f"argument --allow-origin: '{site}' is not a scheme and a host, as http://localhost:3000",
            )
            for site in ("*", "null", "localhost:3000", "http://a/b", "http://a b", "file:///a")
        ),
        (["--symmetrize", "union"], "--symmetrize requires --reverse-model"),
        (
            ["--reverse-model", "en-de", "--threshold", "none"],
            "--threshold none has no effect with --symmetrize soft, which needs one",
        ),
    ],
)
def test_wrong_usage(arguments: Sequence[str], reason: str, run_main: Callable[..., Result]) -> None:
    usage(run_main(program.main, "serve", *arguments), reason)


def test_limits_are_those_of_the_options() -> None:
    args, _ = read_options(build_parser(), [])
    assert (args.request_pairs, args.queue_pairs) == (Limits().request_pairs, Limits().queue_pairs)
    args, _ = read_options(build_parser(), ["--request-pairs", "13", "--queue-pairs", "16"])
    assert (args.request_pairs, args.queue_pairs) == (13, 16)
    sites = ["https://a.example", "http://localhost:3000", "http://[::1]:8080"]
    arguments = [part for site in sites for part in ("--allow-origin", f"{site.upper()}/")]
    assert read_options(build_parser(), arguments)[0].allow_origin == sites


@pytest.mark.parametrize("token", ["", "short", "x" * 257, "0123456789 abcdef", "0123456789abcdéf", "a" * 16 + "\nb"])
def test_a_file_that_holds_no_token(token: str, tmp_path: Path, run_main: Callable[..., Result]) -> None:
    (tmp_path / "token").write_text(token)
    result = run_main(program.main, "serve", "--token-file", tmp_path / "token")
    failed(result, "token: no token: one line of 16 to 256 visible ASCII characters: for example what `openssl")
    assert not token or token not in result.err


def test_no_token_file(tmp_path: Path, run_main: Callable[..., Result]) -> None:
    failed(run_main(program.main, "serve", "--token-file", tmp_path / "none"), "none: No such file or directory")


def test_a_port_that_is_taken(run_main: Callable[..., Result]) -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        result = run_main(program.main, "serve", "--port", port)
        failed(result, f"127.0.0.1, port {port}: Address already in use: take another --port")


def test_a_port_that_is_taken_meanwhile() -> None:
    """Two may have an address as long as neither listens."""
    with bind("127.0.0.1", 0) as one, bind("127.0.0.1", one.getsockname()[1]) as other:
        one.listen()
        with pytest.raises(DataError, match=r"127\.0\.0\.1, port \d+: Address already in use: take another port"):
            serve(None, other, 1, lambda: None)


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
    for given, written in (
        ("http://A:80/", "http://a"),
        ("https://a:443", "https://a"),
        ("http://a:443", "http://a:443"),
    ):
        assert origin(given) == written
