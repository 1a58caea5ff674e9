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


def test_without_a_network_it_says_where_to_put_the_file(tmp_path: Path) -> None:
    code, _, err = get_data(tmp_path, "europarl", "--url", "http://127.0.0.1:1/none")
    assert code == 1
    assert f"put it at {tmp_path / 'europarl' / 'de-en.tgz'}" in err


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


def test_dev84_is_picked_out_of_a_homework(tmp_path: Path) -> None:
    gold = SHARED / "gold" / "deen-dev84"
    if not gold.is_dir():
        pytest.skip(f"needs gold/deen-dev84 in {SHARED.name}/ beside the repository (or $EXTRACT_ALIGN_DATA)")
    links, source, target = (
        (gold / f"dev84.{end}").read_text(encoding="utf-8").splitlines() for end in ("align", "de", "en")
    )
    folder = tmp_path / "gold" / "deen-dev84"
    folder.mkdir(parents=True)
    others = "0-0 1-1 2-2\n" * 3, "ein Satz mehr ||| a sentence more\n" * 3
    pairs = [f"{one} ||| {other}\n" for one, other in zip(source, target, strict=True)]
    (folder / "dev.align").write_text(
        "".join(f"{line}\n" for line in links[:16]) + others[0] + "\n".join(links[16:]) + "\n"
    )
    (folder / "test.data").write_text("".join(pairs[:16]) + others[1] + "".join(pairs[16:]) + others[1])
    code, out, err = get_data(tmp_path, "dev84")
    assert (code, out) == (0, "dev84: there\n"), err
    (folder / "test.data").write_text("".join(pairs[:16]))
    code, _, err = get_data(tmp_path, "dev84")
    assert (code, "dev84.de.unknown: sha256" in err) == (1, True)


def test_another_address_is_for_archives() -> None:
    code, out, err = get_data("x", "dev84", "--url", "file:///x")
    assert (code, out, "--url requires bicici100, hansards447, europarl, rwth\n" in err) == (2, "", True)


def test_what_is_missing_and_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "gold" / "deen-dev84").mkdir(parents=True)
    for name in ("dev84.de", "dev84.en", "dev84.align"):
        (tmp_path / "gold" / "deen-dev84" / name).touch()
    code, out, _ = get_data(tmp_path)
    assert code == 0
    assert f"europarl: missing: scripts/get_data {tmp_path} europarl\n" in out
    assert "rwth: missing; must be requested by form" in out
    assert "dev84: there, but dev84.de, dev84.en, dev84.align is not the file that the tables were made with\n" in out
    code, _, err = get_data(tmp_path, "train")
    assert (code, "train is no download" in err, "put train.de, train.en, train.source into" in err) == (1, True, True)
