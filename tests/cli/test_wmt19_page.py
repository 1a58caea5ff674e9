"""Every command of research/wmt19.md, on small archives with the layout of the published ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import published
from tests.conftest import ROOT, example_pairs

PAGE = (ROOT / "research" / "wmt19.md").read_text(encoding="utf-8")
FOLDER = "wmt19.de-en.joined-dict.single_model"
MORE = ("Peters altbekannte E-Mail , so heißt es .", "Peter's well-known e-mail , it's said .")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the text that the page aligns, and programs: a curl that finds our archives, and extract-align."""
    pairs = [*((" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs()), MORE] * 3
    text = {language: [pair[side] for pair in pairs] for side, language in enumerate(("de", "en"))}
    programs, archives = tmp_path / "programs", tmp_path / "archives"
    for folder in (programs, archives, tmp_path / "here"):
        folder.mkdir()
    for source, target in (("de", "en"), ("en", "de")):
        archive = archives / f"wmt19.{source}-{target}.joined-dict.single_model.tar.gz"
        published.save_archive(archive, (source, target), text)
    for language, lines in text.items():
        (tmp_path / "here" / f"news.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    extract = f'exec "{sys.executable}" -P -m align "$@"'
    for name, line in (("curl", f'cp "{archives}/$(basename "$2")" .'), ("extract-align", extract)):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    return tmp_path / "here"


def test_the_page_from_download_to_links(here: Path) -> None:
    path = os.pathsep.join((str(here.parent / "programs"), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    said = ""
    for kind, block in re.findall(r"^```(console|toml)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        if kind == "toml":
            (here / FOLDER / "model.toml").write_text(block, encoding="utf-8")
            continue
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = session.partition("\n")
            run = subprocess.run(command, shell=True, cwd=here, env=environment, capture_output=True, text=True)
            assert (run.returncode, run.stdout) == (0, expected), (command, run.stderr)
            said += run.stderr
    assert "warning" not in said
    assert "fairseq:de-en@" in said
    assert "fairseq:en-de@" in said
    lines = len((here / "news.de").read_text(encoding="utf-8").splitlines())
    for name in ("news.links", "news.both"):
        links = (here / name).read_text(encoding="utf-8").splitlines()
        assert len(links) == lines
        assert all(re.fullmatch(r"(\d+-\d+ ?)*", line) for line in links)
