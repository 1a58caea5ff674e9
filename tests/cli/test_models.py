"""`extract-align models` from the outside: what `describe` writes and shows, and what it refuses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from align import ModelOptions
from align.cli import extract, models
from align.core.types import Cell, Position, Score
from align.models.folder import find_model, hub_toml
from align.models.model_toml import format_model_toml, read_model_toml
from tests import toy
from tests.cli.conftest import Result, failed

LINE = "das haus ||| the house\n"


@pytest.fixture
def run(run_main: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `models describe` in an empty folder, which is the home folder too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return partial(run_main, models.main, "describe")


@pytest.fixture
def align(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """Aligns a line."""
    return partial(run_main, extract.main, "--layer", 1, "--head", 1, stdin=LINE)


def test_bundled_models_are_shown_and_not_changed(run: Callable[..., Result]) -> None:
    result = run("de-en")
    assert (result.code, result.err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in result.out.decode().splitlines())
    assert rows["languages"] == "de to en"
    assert rows["attention"] == "3 decoder layers of 4 heads"
    assert rows["text"].startswith("de (lower case, moses tokens, sentencepiece pieces)")
    failed(run("de-en", "--case", "keep"), "de-en: a bundled model has its description")


def test_a_fairseq_checkpoint_with_dictionaries_elsewhere(
    run: Callable[..., Result], align: Callable[..., Result], tmp_path: Path
) -> None:
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
    assert (replaced.code, f"--heads would replace the input {dictionary}" in replaced.err) == (2, True)
    assert (codes.read_bytes(), dictionary.read_bytes()) == before
    assert align("-q", "-m", checkpoint).code == 0


def test_what_cannot_be_stored(run: Callable[..., Result], tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path / "toy")
    failed(run(checkpoint, "--subwords-file", "gone.spm"), "gone.spm: no sentencepiece file")
    failed(run(checkpoint, "--dictionaries", "no/such"), "no/such: no such folder of dictionaries")
    failed(run("no/such/model", "--case", "lower"), "no/such/model: no such file or folder")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "codes").write_text(f"#version: 0.2\n{folder} x</w>\n")
    two = ("--subwords-file", "a/codes", "--subwords-file", "b/codes")
    failed(run(checkpoint, *two), "b/codes: two files have this name")
    for arguments, reason in (
        (("x", *("--subwords-file", "a") * 3), "given once for both sides, or twice"),
        ((), "required: MODEL"),
    ):
        result = run(*arguments)
        assert (result.code, result.out, reason in result.err) == (2, b"", True)
    assert not (tmp_path / "toy" / "codes").exists()


def test_a_model_of_the_hub_is_described_in_the_users_configuration(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_nothing_is_written_through_links_and_no_file_is_lost(run: Callable[..., Result], tmp_path: Path) -> None:
    """A model folder may come from someone else, and may consist of links to another model."""
    checkpoint = toy.save_model(tmp_path / "toy")
    folder, data = checkpoint.parent, tmp_path / "data"
    shutil.copytree(folder, data)
    (tmp_path / "home").write_text("precious")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (data / "dict.zz.txt").write_text("zz 1\n")
    os.symlink(tmp_path / "home", folder / "dict.zz.txt")
    assert run(checkpoint, "--dictionaries", data).code == 0  # only the model's own languages are copied
    for make in (lambda name: os.symlink(tmp_path / "home", name), lambda name: os.symlink("gone", name), os.mkfifo):
        make(folder / "codes")
        (data / "codes").write_text("#version: 0.2\ne n</w>\n")
        failed(run(checkpoint, "--subwords-file", data / "codes"), "toy/codes: another file has this name")
        os.unlink(folder / "codes")
    (data / "dict.de.txt").write_text("nur 1\n")
    failed(run(checkpoint, "--dictionaries", data), "was trained with")
    (data / checkpoint.name).write_text("#version: 0.2\ne n</w>\n")
    failed(run(checkpoint, "--subwords-file", data / checkpoint.name, "--subwords", "subword-nmt"), "this name is kept")
    os.rename(folder / "model.toml", tmp_path / "shared.toml")
    os.symlink(tmp_path / "shared.toml", folder / "model.toml")
    shared = (tmp_path / "shared.toml").read_bytes()
    assert run(checkpoint, "--case", "lower").code == 0
    assert (tmp_path / "shared.toml").read_bytes() == shared
    assert (tmp_path / "home").read_text() == "precious"
    assert {name: (folder / name).read_bytes() for name in before if name != "model.toml"} == {
        name: content for name, content in before.items() if name != "model.toml"
    }


def test_permissions_of_a_description_stay(run: Callable[..., Result], tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path / "toy")
    path = checkpoint.parent / "model.toml"
    assert run(checkpoint, "--case", "lower").code == 0
    path.chmod(0o660)
    assert run(checkpoint, "--case", "keep").code == 0
    assert path.stat().st_mode & 0o777 == 0o660
    path.chmod(0o444)
    failed(run(checkpoint, "--case", "lower"), "model.toml: is read-only")


def test_what_could_not_be_read_again_is_not_written(run: Callable[..., Result], tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path / "toy")
    (tmp_path / "my codes").write_text("#version: 0.2\ne n</w>\n")
    before = sorted(path.name for path in checkpoint.parent.iterdir())
    options = ("--subwords", "subword-nmt", "--subwords-file", "my codes")
    failed(run(checkpoint, *options), "'my codes', not the name of a file in this folder")
    failed(run(checkpoint, "--source-prefix", "a." * 1100), "prefix")
    for name in ("model.toml", "x.pt", "x.safetensors"):
        (tmp_path / name).write_text("#version: 0.2\ne n</w>\n")
        failed(run(checkpoint, "--subwords", "subword-nmt", "--subwords-file", name), f"{name}: this name is kept")
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == before
    assert run(checkpoint, "--source-lang", "de").code == 0
    assert find_model(str(checkpoint), ModelOptions()).options.target_lang == "en"
