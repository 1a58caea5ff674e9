"""`extract-align serve` as a process: where it listens, whom it lets in, how it ends; and how it refuses to start."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

import httpx
import yaml

from align.cli import main as program
from align.cli.serve import build_parser, origin, read_options
from align.service.gate import OPEN
from align.service.server import bind
from tests.cli.conftest import Result, failed
from tests.cli.conftest import run_main as run_main
from tests.conftest import ROOT
from tests.docs.blocks import blocks
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
    own_group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)  # on Windows, where Ctrl-Break goes to a group
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stderr=errors, env=environment, text=True, creationflags=own_group) as process,
    ):
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


def test_it_starts_answers_and_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        answer = ask(service.url, pairs(("Das Haus ist alt.", "The house is old.")))
        assert answer.json() == {"pairs": [{"status": "ok", "links": "0-0 1-1 2-2 3-3"}]}
        service.signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
        assert service.process.wait(30) == 0
    assert service.log.read_text().endswith("extract-align serve: stopped\n")


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
        assert bool(re.search(r"\nextract-align serve: POST /align 200 [0-9]+ ms\n", log)) == (signals == 1)
        assert not any(word in log for word in ("Haus", "Traceback", TOKEN))


SITE = "expected a scheme and a host, such as http://localhost:3000"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        *(
            (f"--host {host}", f"--host {host} accepts requests from other machines and requires --token-file")
            for host in ("0.0.0.0", "::", "127.0.0.1.example.org")
        ),
        (
            "--queue-pairs 10",
            "--request-pairs is larger than --queue-pairs: a request of that size would always be refused",
        ),
        ("--allow-origin *", f"argument --allow-origin: {SITE}; got '*'"),
        ("--allow-origin http://a/b", f"argument --allow-origin: {SITE}; got 'http://a/b'"),
    ],
)
def test_wrong_usage(arguments: str, reason: str, run_main: Callable[..., Result]) -> None:
    result = run_main(program.main, "serve", *arguments.split())
    hint = "extract-align serve --help lists all options"
    assert (result.code, result.out, result.err) == (2, b"", f"extract-align serve: error: {reason}\n{hint}\n")


@pytest.mark.parametrize("token", ["short", "0123456789 abcdef", "a" * 16 + "\nb"])
def test_a_file_that_holds_no_token(token: str, tmp_path: Path, run_main: Callable[..., Result]) -> None:
    (tmp_path / "token").write_text(token)
    result = run_main(program.main, "serve", "--token-file", tmp_path / "token")
    failed(result, "token: expected one line of 16 to 256 visible ASCII characters: for example what `openssl")
    assert not token or token not in result.err


def test_where_it_cannot_listen(tmp_path: Path, run_main: Callable[..., Result]) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for host, message in (
            ("127.0.0.1", f"127.0.0.1, port {port}: Address already in use: use another --port"),
            ("192.0.2.1", f"192.0.2.1, port {port}: Cannot assign requested address"),
            ("a" * 64, "a" * 64),
        ):
            options = ("--host", host, "--port", port, "--token-file", tmp_path / "token")
            result = run_main(program.main, "serve", *options)
            failed(result, message)
            assert ("use another --port" in result.err) == (host == "127.0.0.1")


def test_origins_are_as_browsers_write_them() -> None:
    assert [*map(origin, ("http://A:80/", "https://a:443", "http://a:443"))] == [
        "http://a",
        "https://a",
        "http://a:443",
    ]


def container() -> tuple[str, list[str]]:
    """The text of Containerfile, and the options of its program."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (words,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    program, command, *options = json.loads(words)
    assert (program, command) == ("extract-align", "serve")
    return text, options


def test_the_container_starts_the_service_for_other_machines_with_a_token_and_without_root() -> None:
    text, options = container()
    args, _ = read_options(build_parser(), options)
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)
    assert (args.host, args.port, args.token_file) == ("0.0.0.0", int(port), "/run/secrets/token")
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE)).split()
    assert all((ROOT / name).exists() for name in copied)
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["align"]


def documented(kind: str) -> list[str]:
    return [block.text for block in blocks(ROOT / "docs" / "serve.md") if block.kind == kind]


def test_the_documented_unit_starts_the_service(tmp_path: Path) -> None:
    (text,) = documented("ini")
    program, command, *options = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0].split()
    assert (Path(program).name, command) == ("extract-align", "serve")
    args, _ = read_options(build_parser(), options)
    (token,) = re.findall(r"^LoadCredential=(\w+):", text, re.MULTILINE)
    assert args.token_file == f"${{CREDENTIALS_DIRECTORY}}/{token}"
    if not (systemd := shutil.which("systemd-analyze")):
        pytest.skip("needs systemd-analyze, of the system's package systemd")
    unit = tmp_path / "extract-align.service"
    unit.write_text(text.replace(program, sys.executable), encoding="utf-8")
    result = subprocess.run([systemd, "verify", unit], capture_output=True, text=True)
    assert (result.returncode, unit.name in result.stderr) == (0, False), result.stderr


def test_the_documented_containers_start_the_service() -> None:
    compose, pod = map(yaml.safe_load, documented("yaml"))
    options = container()[1]
    service = compose["services"]["align"]
    assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).samefile(ROOT / "Containerfile")
    args, _ = read_options(build_parser(), [*options, *service["command"]])
    assert service["ports"] == [f"127.0.0.1:8000:{args.port}"]
    assert args.token_file == f"/run/secrets/{service['secrets'][0]}"
    assert [*compose["secrets"]] == service["secrets"]
    (one,) = pod["containers"]
    read_options(build_parser(), [*options, *one["args"]])
    assert one["ports"] == [{"containerPort": args.port}]
    probes = [one[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert probes == [{"path": OPEN[0], "port": args.port}] * 3
    assert one["volumeMounts"][0]["mountPath"] == str(Path(args.token_file).parent)
    assert one["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
