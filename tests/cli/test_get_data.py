"""`scripts/get_data` against a server of the test's own: what arrives, and what goes wrong."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT, SHARED


def archive(files: dict[str, bytes]) -> bytes:
    """A tar.gz of these files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return raw.getvalue()


EUROPARL = archive({"europarl-v7.de-en.de": b"eins\n", "../europarl-v7.de-en.en": b"one\n", "../../evil": b"no"})


@pytest.fixture
def server() -> Iterator[str]:
    """A web server: /good, /short (fewer bytes than it says), /page (no archive), else 404."""
    answers = {"/good": EUROPARL, "/short": EUROPARL, "/page": b"<html>"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = answers.get(self.path)
            self.send_response(200 if content else 404)
            if content:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write((content or b"")[: 10 if self.path == "/short" else None])

        def log_message(self, *rest: object) -> None:
            pass

    running = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def get_data(*arguments: object) -> tuple[int, str, str]:
    command = [sys.executable, str(ROOT / "scripts" / "get_data"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={"no_proxy": "*"}, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_europarl_is_fetched_once_and_unpacked(server: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    code, out, err = get_data(data, "europarl", "--url", f"{server}/good")
    assert (code, out) == (0, "europarl: there\n"), err
    folder = data / "europarl"
    assert (folder / "europarl-v7.de-en.de").read_bytes() == b"eins\n"
    assert (folder / "europarl-v7.de-en.en").read_bytes() == b"one\n"
    digest = hashlib.sha256(b"eins\n").hexdigest()
    assert f"{folder / 'europarl-v7.de-en.de'}: sha256 {digest} (not checked: no other is known)\n" in err
    assert not list(tmp_path.rglob("evil"))
    assert get_data(data, "europarl", "--url", "http://127.0.0.1:1/none")[0] == 0  # it is there


def test_a_file_that_the_tables_were_not_made_with_is_set_aside(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "gold.zip", "w") as packed:
        packed.writestr("German-English_WordAlignment/test.de", "anders\n")
    code, out, err = get_data(tmp_path, "bicici100", "--url", (tmp_path / "gold.zip").as_uri())
    aside = tmp_path / "gold" / "deen-bicici100" / "test.de.unknown"
    digest = hashlib.sha256(b"anders\n").hexdigest()
    assert (code, out, f"{aside}: sha256 {digest}, where the tables were made with a file of c39fe34b" in err) == (
        1,
        "",
        True,
    )
    assert [path.name for path in aside.parent.iterdir()] == [aside.name]


def test_gold_of_the_shared_data_has_the_checksums_that_are_known(tmp_path: Path) -> None:
    """Packed as it is published, as far as that is known: in Latin 1, with marks around sentences."""
    gold = SHARED / "gold"
    if not gold.is_dir():
        pytest.skip(f"needs gold/ in {SHARED.name}/ beside the repository (or $EXTRACT_ALIGN_DATA)")
    with zipfile.ZipFile(tmp_path / "bicici.zip", "w") as packed:
        for path in (gold / "deen-bicici100").iterdir():
            packed.write(path, f"German-English_WordAlignment/{path.name}")
    assert get_data(tmp_path, "bicici100", "--url", (tmp_path / "bicici.zip").as_uri())[:2] == (0, "bicici100: there\n")
    files = {}
    for name in ("test.e", "test.f"):
        lines = (gold / "enfr-hansards447" / name).read_text(encoding="utf-8").splitlines()
        marked = "".join(f"<s snum={number:04}> {line}</s>\n" for number, line in enumerate(lines, 1))
        files[f"English-French/test/{name}"] = marked.encode("latin-1")
    answers = "test.wa.nonullalign"
    files[f"English-French/answers/{answers}"] = (gold / "enfr-hansards447" / answers).read_bytes()
    (tmp_path / "hansards.tgz").write_bytes(archive(files))
    code, out, err = get_data(tmp_path, "hansards447", "--url", (tmp_path / "hansards.tgz").as_uri())
    assert (code, out) == (0, "hansards447: there\n"), err
