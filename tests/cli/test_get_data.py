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

from tests.conftest import ROOT


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


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/short", "bytes; run this again"),
        ("/page", "cannot be unpacked"),
        ("/gone", "Not Found; fetch it by other means and put it at"),
    ],
)
def test_what_does_not_arrive_whole_is_refused(server: str, tmp_path: Path, path: str, part: str) -> None:
    code, out, err = get_data(tmp_path, "europarl", "--url", server + path)
    assert (code, out) == (1, "")
    assert part in err
    assert "Traceback" not in err
    assert [p.name for p in (tmp_path / "europarl").iterdir()] == (["de-en.tgz"] if path == "/page" else [])


def test_the_gold_is_requested_by_form_then_unpacked_to_utf8(tmp_path: Path) -> None:
    code, _, err = get_data(tmp_path, "rwth")
    assert (code, "requested by form" in err) == (1, True)
    files = {"DeEn/de": "größer\n".encode("latin-1"), "DeEn/en": b"bigger\n", "DeEn/alignmentDeEn.talp": b"1-1\n"}
    (tmp_path / "DeEnGoldAlignment.tar.gz").write_bytes(archive(files))
    assert get_data(tmp_path, "rwth")[:2] == (0, "rwth: there\n")
    assert (tmp_path / "rwth" / "deen.src").read_text(encoding="utf-8") == "größer\n"
    (tmp_path / "DeEnGoldAlignment.tar.gz").write_bytes(archive({"DeEn/de": b""}))
    assert "has no en, alignmentDeEn.talp" in get_data(tmp_path, "rwth")[2]


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
