"""The recipes in examples/pipelines with the programs that they feed; each is skipped where its program is missing."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import pytest

from align import load, two_way
from align.cli import extract
from align.evaluation.link_formats import parse_pharaoh
from align.io.compression import import_zstd
from tests.conftest import EXAMPLES, ROOT

RECIPES = ROOT / "examples" / "pipelines"
PAIRS = [line.partition(" ||| ")[::2] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
SPACES = " \u00a0\u202f\u3000\u2028\x85\x1c\x0b"


def run_recipe(name: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a recipe as a user does, with this interpreter and its programs."""
    path = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    python = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    command = [sys.executable] if name.endswith(".py") else []
    command += [str(RECIPES / name), *arguments]
    environment = {**os.environ, **path, **python, **environment}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, result.stderr
    return result


def checked(row: str) -> tuple[list[str], list[str], set[tuple[int, int]]]:
    """The words that OpusTrainer sees in a row, and its links, which are within them."""
    source, target, column = row.split("\t")
    words, links = (re.findall(r"[^\s]+", source), re.findall(r"[^\s]+", target)), set(parse_pharaoh(column))
    assert all(i < len(words[0]) and j < len(words[1]) for i, j in links)
    return *words, links


def test_opustrainer_varies_text_and_keeps_links(tmp_path: Path) -> None:
    pytest.importorskip("opustrainer", reason="OpusTrainer is not installed")
    result = run_recipe("opustrainer.sh", cwd=tmp_path, OPUSTRAINER=f"{sys.executable} -m opustrainer")
    assert "WARNING" not in result.stderr
    rows = list(map(checked, result.stdout.splitlines()))
    extract.main(["-q", "--reverse-model", "en-de-fast", str(EXAMPLES), "-f", "tsv", "-o", str(tmp_path / "links")])
    lines = (tmp_path / "links").read_text(encoding="utf-8").splitlines()
    assert all(links for _, _, links in rows)
    assert len([line for line in lines if line in result.stdout.splitlines()]) > 2  # as they were
    assert any(" ".join(source).isupper() for source, _, _ in rows)


def test_no_modifier_of_opustrainer_drops_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Spaces of Unicode part words for OpusTrainer, and some of them end lines for other programs."""
    trainer = pytest.importorskip("opustrainer.trainer", reason="OpusTrainer is not installed")
    spaces = cycle(SPACES)
    texts = (re.sub(" ", lambda _: next(spaces), f"{source}\t{target}\n") for source, target in PAIRS)
    (tmp_path / "text").write_text("".join(texts), encoding="utf-8")
    names = [str(tmp_path / name) for name in ("text", "corpus.tsv")]
    assert extract.main(["-q", names[0], "-f", "tsv", "--bad-lines", "drop", "-o", names[1]]) == 0
    lines = Path(names[1]).read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[:2] for line in lines] == [list(pair) for pair in PAIRS if pair[0]]
    plan = {"datasets": {"corpus": "corpus.tsv"}, "train": ["corpus 1.0", "until corpus 1"]}
    for name in ("RemoveEndPunct", "UpperCase", "TitleCase", "Typos", "Tags", "Noise", "Merge"):
        config = plan | {"seed": 1, "stages": ["train"], "num_fields": 3, "modifiers": [{name: 1.0}]}
        curriculum = trainer.CurriculumLoader().load(config, basepath=str(tmp_path))
        if name == "Tags":  # which writes links only with a vocabulary of an older sentencepiece
            curriculum.modifiers[0].print_alignments = True
        with caplog.at_level(logging.WARNING):
            (rows,) = trainer.Trainer(curriculum, shuffle=False).run(batch_size=len(lines), chunk_size=len(lines))
        assert not caplog.records
        links = [checked(row.removesuffix("\n"))[2] for row in rows]
        if name == "Merge":
            assert 5 <= len(rows) < len(lines)
            assert sum(map(len, links)) == sum(len(checked(line)[2]) for line in lines)
        else:
            assert len(rows) == len(lines) * (1 + (name == "Noise"))
        if name in ("UpperCase", "TitleCase"):
            assert links == [checked(line)[2] for line in lines]


MODELS = "de-en-fast", "en-de-fast"


@pytest.mark.skipif("MOZILLA_TRANSLATIONS" not in os.environ, reason="needs a checkout, MOZILLA_TRANSLATIONS")
def test_mozilla_translations_aligns_a_corpus(tmp_path: Path) -> None:
    for module in ("zstandard", "tqdm", "requests", "psutil"):
        pytest.importorskip(module, reason=f"needs {module}, as mozilla/translations does")
    if not (atools := shutil.which("atools", path=os.environ.get("BIN", os.environ["PATH"]))):
        pytest.skip("needs atools of fast_align in $BIN or on PATH")
    environment = {"BIN": str(Path(atools).parent), "SRC": "de", "TRG": "en", "MODELS": " ".join(MODELS)}

    def align(*arguments: str) -> None:
        run_recipe("mozilla.py", *arguments, cwd=tmp_path, **environment)

    def compress() -> None:  # the program removes what it has read
        for language in ("de", "en"):
            raw = (tmp_path / f"corpus.{language}").read_bytes()
            (tmp_path / f"corpus.{language}.zst").write_bytes(import_zstd().compress(raw))

    def read_compressed(name: str) -> list[str]:
        raw: bytes = import_zstd().decompress((tmp_path / name).read_bytes())
        return raw.decode().splitlines()

    align()
    aligner = two_way(load(MODELS[0]), load(MODELS[1]))
    expected = [alignment.links for alignment in aligner.fixed()(PAIRS)]
    whole = (tmp_path / "aligned" / "corpus.aln").read_text()
    assert [parse_pharaoh(line) for line in whole.splitlines()] == expected
    assert (tmp_path / "aligned" / "corpus.priors").read_bytes() == b""

    corpus = "--corpus_src=corpus.de.zst", "--corpus_trg=corpus.en.zst"
    compress()
    align(*corpus, "--chunk_lines=4", "--priors_input_path=aligned/corpus.priors", "--output_path=parts/corpus.aln")
    assert (tmp_path / "parts" / "corpus.aln").read_text() == whole

    if not find_spec("icu"):
        return
    for side, language in enumerate(("de", "en")):
        (tmp_path / f"corpus.{language}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    compress()
    align(*corpus, "--tokenization=icu", "--output_tokenized", "--output_path=icu/corpus.aln.zst")
    sides = (read_compressed(f"icu/corpus.tok-icu.{language}.zst") for language in ("de", "en"))
    rows = ["\t".join(row) for row in zip(*sides, read_compressed("icu/corpus.aln.zst"), strict=True)]
    assert len(rows) == len(PAIRS)
    for source, target, links in map(checked, rows):
        assert not any("\u2581" in (source[i], target[j]) for i, j in links)  # a space
    source, target, links = checked(rows[1])
    assert {("Das", "The"), ("Haus", "house"), ("alt", "old"), (".", ".")} <= {(source[i], target[j]) for i, j in links}
