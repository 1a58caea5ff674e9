"""`extract-align models` from the outside: what `describe` writes and shows, and what it refuses."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from align import ModelOptions, load
from align.cli import describe, extract
from align.core.consistency import CHOOSING_PAIRS, MIN_PAIRS
from align.core.types import Cell, Position, Score
from align.io.checks import FIRST_LINES
from align.models.folder import BUNDLED, find_model, hub_toml
from align.models.model_toml import format_model_toml, read_model_toml
from tests import toy
from tests.cli.conftest import Run, failed
from tests.conftest import example_pairs

LINE = "das haus ||| the house\n"


@pytest.fixture
def run(run_main: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `models describe` in an empty folder, which is the home folder too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return partial(run_main, describe.main)


@pytest.fixture
def align(run_main: Run) -> Run:
    """Aligns a line."""
    return partial(run_main, extract.main, "--layer", 1, "--head", 1, stdin=LINE)


def test_bundled_models_are_shown_and_not_changed(run: Run) -> None:
    result = run("de-en")
    assert (result.code, result.err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in result.out.decode().splitlines())
    assert rows["languages"] == "de to en"
    assert rows["attention"] == "3 decoder layers of 4 heads"
    assert rows["text"].startswith("de (lower case, moses tokens, sentencepiece pieces)")
    failed(run("de-en", "--case", "keep"), "de-en: the description of a bundled model is fixed")


def test_a_model_with_one_position_keeps_it(run: Run, tmp_path: Path) -> None:
    shutil.copytree(BUNDLED / "de-en-fast", tmp_path / "mine")
    text = [(pair.source, pair.target) for pair in example_pairs()]
    for name, sides in zip("st", zip(*text, strict=True), strict=True):
        lines = [f"{' '.join(words)}\n" for words in sides]
        Path(name).write_text("".join(lines * (1 + MIN_PAIRS // len(lines))), encoding="utf-8")
    assert run("mine", "-s", "s", "-t", "t").code == 0
    (cells,) = read_model_toml(tmp_path / "mine" / "model.toml")[1].values()
    assert {position for _, position in cells} == {"input"}
    assert load("mine").forward.settings.position == "input"


def test_lines_after_those_that_choose_heads_stay_unread(run: Run, tmp_path: Path) -> None:
    toy.save_model(tmp_path / "toy")
    for name, words in (("s", "das haus"), ("t", "the house")):
        Path(name).write_bytes(f"{words}\n".encode() * FIRST_LINES + b"\xff\n")
    assert f"by {CHOOSING_PAIRS:,} pairs" in run("toy", "-s", "s", "-t", "t").err
    Path("s").write_bytes(b"das haus\n\xff\n")
    damaged = run("toy", "-s", "s", "-t", "t")
    failed(damaged, "s, line 2: not UTF-8")
    assert "--bad-lines" not in damaged.err


def test_a_fairseq_checkpoint_with_dictionaries_elsewhere(run: Run, align: Run, tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path / "toy")
    (tmp_path / "toy" / "model.toml").unlink(missing_ok=True)
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"] = {"_name": "translation", "data": "data-bin"}
    torch.save(state, checkpoint)
    data = tmp_path / "data-bin"
    data.mkdir()
    for language in ("de", "en"):
        (tmp_path / "toy" / f"dict.{language}.txt").rename(data / f"dict.{language}.txt")
    (data / "joined.codes").write_text("#version: 0.2\ne n</w>\n", encoding="utf-8")
    failed(align("-m", checkpoint), "no dictionaries", "extract-align models describe MODEL --dictionaries")
    failed(run(checkpoint, "--dictionaries", data), "does not say its languages")
    assert not (tmp_path / "toy" / "model.toml").exists()
    (data / "train.de-en.de.idx").touch()
    result = run(checkpoint, "--dictionaries", data, "--case", "lower")
    assert (result.code, result.err) == (0, f"extract-align models: {tmp_path}/toy/model.toml is written\n")
    assert align("-q", "-m", checkpoint).code == 0
    plain = find_model(str(checkpoint), ModelOptions()).options
    assert (plain.source_lang, plain.target_lang, plain.case, plain.subwords) == ("de", "en", "lower", None)
    result = run(checkpoint, "--subwords-file", data / "joined.codes", "--subwords", "subword-nmt")
    assert "sub" in dict(line.split(maxsplit=1) for line in result.out.decode().splitlines())["text"]
    kept = find_model(str(checkpoint), ModelOptions()).options
    assert (kept.case, kept.subwords) == ("lower", "subword-nmt")  # what was stored before stays
    assert [Path(file).name for file in kept.subword_files or ()] == ["joined.codes"]
    (data / "joined.codes").rename(data / "any.name")
    run(checkpoint, "--subwords-file", data / "any.name", "--subwords", "subword-nmt")
    codes, dictionary = tmp_path / "toy" / "any.name", data / "dict.de.txt"
    before = codes.read_bytes(), dictionary.read_bytes()
    heads = ("--dictionaries", data, "-s", codes, "-t", codes, "--heads", dictionary)
    replaced = run(checkpoint, *heads)
    assert (replaced.code, f"--heads would replace {dictionary}, a file of a model" in replaced.err) == (2, True)
    assert (codes.read_bytes(), dictionary.read_bytes()) == before
    assert align("-q", "-m", checkpoint).code == 0


def test_what_cannot_be_stored(run: Run, tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path / "toy")
    failed(run(checkpoint, "--subwords-file", "gone.spm"), "gone.spm: no sentencepiece file")
    failed(run(checkpoint, "--dictionaries", "no/such"), "no/such: no such folder of dictionaries")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "codes").write_text(f"#version: 0.2\n{folder} x</w>\n")
    two = ("--subwords-file", "a/codes", "--subwords-file", "b/codes")
    failed(run(checkpoint, *two), "b/codes: two files have this name")
    assert not (tmp_path / "toy" / "codes").exists()
    text = ("-s", "a/codes", "-t", "a/codes")
    failed(
        run(checkpoint, *text, "--heads", "a/model.bin"), f"{checkpoint}: --heads FILE.bin needs a CTranslate2 model"
    )


def test_a_model_of_the_hub_is_described_in_the_users_configuration(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.save_model(tmp_path / "snapshot")
    monkeypatch.setattr("align.models.folder.fetch_model", lambda name: tmp_path / "snapshot")
    result = run("owner/model", "--case", "lower", "--source-lang", "de", "--target-lang", "en")
    path = tmp_path / "config" / "extract-align" / "models" / "owner--model.toml"
    assert (result.code, result.err) == (0, f"extract-align models: {path} is written\n")
    assert path == hub_toml("owner/model")
    assert find_model("owner/model", ModelOptions()).options.case == "lower"
    assert find_model(str(tmp_path / "snapshot"), ModelOptions()).options.case is None
    failed(run("owner/model", "--dictionaries", tmp_path / "snapshot"), "has its own dictionaries")


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    options = ModelOptions("de", "en", case="keep", tokenizer="moses", subwords="none", source_prefix='a "b"\\\x7f\té')
    cells: dict[tuple[Score, Position], Cell] = {("norm", "input"): Cell(1, 2), ("weight", "output"): Cell(3, "all")}
    for given in (options, ModelOptions(case="lower"), ModelOptions(subword_files=[tmp_path / "a.spm"])):
        for stored in ({"": cells}, {"": cells, "deu_Latn to eng_Latn": cells}, {"zh-CN to nl.x": cells}, {}):
            (tmp_path / "model.toml").write_text(format_model_toml(given, stored), encoding="utf-8")
            assert read_model_toml(tmp_path / "model.toml") == (given, stored)
