"""Jobs whose files are in an object store: a real S3 server on this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from align.core.errors import DataError
from align.jobs import files
from tests.cli.conftest import Result
from tests.scale.jobs import lines, sentences, tree

moto = pytest.importorskip("moto.server", reason="needs moto and flask")

JOB = ("jobs", "s3://bucket/in/*.tsv", "--output", "s3://bucket/out/", "--workers", "1")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys, and nowhere else to look for some; file systems are made anew."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    files._remote.cache_clear()
    yield
    files._remote.cache_clear()


class Server:
    """A server whose objects stay when it stops."""

    def __init__(self) -> None:
        import_module("moto.s3.urls")  # else with the first request, for which Arrow's client waits three seconds
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        self._server = moto.ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    yield server
    server.stop()


@pytest.fixture
def bucket(server: Server) -> Any:
    """The store, with an empty bucket."""
    store = fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{server.port}",
        scheme="http",
        request_timeout=60,  # of a busy machine
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )
    if store.get_file_info("bucket").type != fs.FileType.NotFound:  # of the test before: they share moto's memory
        store.delete_dir("bucket")
    store.create_dir("bucket")
    return store


def put(store: Any, name: str, content: bytes) -> None:
    with store.open_output_stream(f"bucket/{name}") as out:
        out.write(content)


def links(store: Any) -> dict[str, bytes]:
    """The results, by name."""
    found = {}
    for about in store.get_file_info(fs.FileSelector("bucket/out")):
        if about.is_file:
            with store.open_input_stream(about.path) as stream:
                found[about.base_name] = stream.read()
    return found


def expect(run: Callable[..., Result], store: Any, *rows: int) -> dict[str, bytes]:
    """What is to come of files with so many rows, which are put into the store."""
    for n, count in enumerate(rows):
        content = lines(sentences(count, n))
        put(store, f"in/{n}.tsv", content)
        Path(f"in/{n}.tsv").write_bytes(content)
    assert run("jobs", "in/*.tsv", "--output", "local", "--workers", "1").code == 0
    return tree("local")


def test_a_job_in_a_store_has_the_same_bytes_and_goes_on(run: Callable[..., Result], bucket: Any) -> None:
    expected = expect(run, bucket, 20, 20, 20)
    result = run(*JOB)
    assert (result.code, links(bucket)) == (0, expected), result.err
    bucket.delete_file("bucket/out/1.tsv")  # as if killed between the two
    put(bucket, "in/2.tsv", lines(sentences(21, 9)))
    result = run(*JOB)
    assert (result.code, "2 of 3 files (1 before); 20 rows" in result.err) == (1, True), result.err
    assert "s3://bucket/in/2.tsv: has changed since s3://bucket/out/2.tsv was made" in result.err
    assert links(bucket) == expected


def test_when_the_server_is_back_the_same_command_goes_on(
    run: Callable[..., Result], server: Server, bucket: Any
) -> None:
    expected = expect(run, bucket, 20, 20)  # for each of which a worker asks in vain for some seconds

    def stop() -> None:
        while not bucket.get_file_info("bucket/out/_run/run.json").is_file:
            time.sleep(0.02)
        server.stop()  # which a worker that loads its model notices later

    thread = threading.Thread(target=stop)
    thread.start()
    result = run(*JOB, "-q")
    thread.join()
    assert result.code == 1
    assert "error: s3://bucket/" in result.err
    assert "AWS Error NETWORK_CONNECTION" in result.err
    assert "of 2 files not done: " in result.err
    server.start()
    result = run(*JOB)
    assert (result.code, links(bucket)) == (0, expected), result.err


def test_what_is_not_there_is_named(run: Callable[..., Result], bucket: Any) -> None:
    put(bucket, "in/0.tsv", b"a\tb\n")
    result = run("jobs", "s3://nothing/in/*.tsv", "--output", "out")
    assert (result.code, "s3://nothing/in/*.tsv: no file is named so" in result.err) == (1, True)
    result = run("jobs", "s3://bucket/in/9.tsv", "--output", "out")
    assert (result.code, "s3://bucket/in/9.tsv: no such file" in result.err) == (1, True)
    result = run(*JOB[:3], "s3://nothing/out", "-q")
    assert (result.code, "s3://nothing/out/_run: cannot write: Bucket 'nothing' not found" in result.err) == (1, True)


class _Refusing(BaseHTTPRequestHandler):
    """What a store says to the wrong key."""

    def do_HEAD(self) -> None:
        self.send_response(403)
        self.send_header("x-amz-bucket-region", "us-east-1")
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *_: Any) -> None:
        pass


def test_a_wrong_key_is_said(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        result = run("jobs", "s3://bucket/in/*.tsv", "--output", "out")
        server.shutdown()
    assert result.code == 1
    assert "s3://bucket/in/*.tsv: cannot be read:" in result.err
    assert "ACCESS_DENIED" in result.err


@pytest.mark.parametrize("place", ["s3://key:secret@bucket/in", "hdfs://user:secret@host:1/in"])
def test_a_key_in_an_address_is_refused_and_not_repeated(place: str) -> None:
    with pytest.raises(DataError, match="its key would be in the records") as error:
        files.locate(place)
    assert "secret" not in str(error.value)


def test_other_stores_are_an_error() -> None:
    with pytest.raises(DataError, match="no place to read or write"):
        files.locate("nostore://bucket/in")
