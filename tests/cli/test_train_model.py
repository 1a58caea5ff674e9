"""`extract-align train`: the model that it makes, and what it refuses; test_kill_training.py stops and resumes it."""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from align import load
from align.cli.train import main
from align.io.manifest import locked_folder
from align.models.fairseq.checkpoint import load_checkpoint
from align.training.prepare import Bitext, prepare
from align.training.recipe import read_recipe
from tests.cli.conftest import Result, failed
from tests.conftest import example_pairs
from tests.training_recipe import tiny_recipe

LONG = " ".join(map(str, range(1000, 1110)))
LANGUAGES = ("--source-lang", "de", "--target-lang", "en")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Examples as two files, with what real bitexts have: a blank side, a pair twice, a side that is too long."""
    pairs = [(" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs() if not pair.blank]
    pairs[1:1] = [pairs[0], ("leer", ""), (LONG, LONG)]
    for language, side in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (tmp_path / f"text.{language}").write_text("".join(line + "\n" for line in side), encoding="utf-8")
    return tmp_path


def arguments(folder: Path, updates: int) -> list[str]:
    recipe = folder / "tiny.toml"
    recipe.write_text(tiny_recipe(updates), encoding="utf-8")
    files = ["-s", str(folder / "text.de"), "-t", str(folder / "text.en")]
    return [str(folder / "model"), *files, *LANGUAGES, "--recipe", str(recipe), "--threads", "1", "--device", "cpu"]


def test_a_full_disk_is_reported_and_the_same_command_begins_again(folder: Path) -> None:
    program = [sys.executable, "-m", "align", "train", *arguments(folder, updates=2)]
    full = subprocess.run(
        program,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert full.returncode == 1
    assert "extract-align train: error: " in full.stderr
    assert "File too large" in full.stderr
    assert not (folder / "model" / "work" / "prepared.json").exists()
    bitext = Bitext(("de", "en"), (folder / "text.de", folder / "text.en"))
    prepared = prepare(bitext, read_recipe(folder / "tiny.toml"), folder / "model" / "work", print)
    assert prepared.dropped["a side has no piece, or 200 and more"] == 1


def test_nothing_is_imported_when_a_training_is_interrupted(folder: Path) -> None:
    """A signal during an import ends the program before it says how far it came."""
    script = (
        "import sys\nfrom align.cli import train\n"
        "train.prepare_and_train = lambda *_: print(*sys.modules)\n"
        "train.train_all(train.read_options(train.build_parser(), sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", script, *arguments(folder, updates=2)]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    needed = {f"align.training.{name}" for name in ("begin", "card", "export")} | {"align.models.fairseq.checkpoint"}
    assert needed <= {*imported}


def test_another_recipe_for_the_same_folder_is_refused(folder: Path, run_main: object) -> None:
    arguments(folder, updates=2)
    recipe = folder / "tiny.toml"
    bitext = Bitext(("de", "en"), (folder / "text.de", folder / "text.en"))
    first = prepare(bitext, read_recipe(recipe), folder / "work", print)
    assert prepare(bitext, read_recipe(recipe), folder / "work", print) == first
    recipe.write_text(tiny_recipe(2).replace("120", "121"), encoding="utf-8")
    with pytest.raises(ValueError, match="prepared from another text, recipe or model; name another folder"):
        prepare(bitext, read_recipe(recipe), folder / "work", print)


def test_a_second_run_in_the_same_folder_is_refused(folder: Path, run_main: object) -> None:
    with locked_folder(folder / "model"):
        result: Result = run_main(main, *arguments(folder, 2))  # type: ignore[operator]
    assert result.code == 1
    assert "another run is still at work there" in result.err


@pytest.mark.usefixtures("forked_fairseq")
def test_a_model_is_trained_on_with_its_pieces_and_weights(folder: Path, run_main: object) -> None:
    def train_for(updates: int) -> Result:
        result: Result = run_main(main, *arguments(folder, updates))  # type: ignore[operator]
        return result

    assert train_for(40).code == 0
    card = folder / "model" / "README.md"
    card.write_text("edited")
    again = train_for(40)  # has nothing to do
    assert (again.code, "BLEU" in again.err, card.read_text()) == (0, False, "edited")
    first = (folder / "model").rename(folder / "first")
    (folder / "text.en").write_text((folder / "text.en").read_text(encoding="utf-8").replace("e", "a"))  # other pieces
    command = [*arguments(folder, 2), "--finetune-from", str(first)]
    content = tiny_recipe(2).replace("lr = 0.01", "lr = 0.00001").replace('"average"', '"last"')
    (folder / "tiny.toml").write_text(content, encoding="utf-8")
    result: Result = run_main(main, *command)  # type: ignore[operator]
    assert result.code == 0, result.err
    assert "learning" not in result.err

    model = folder / "model"
    for name in ("de.spm", "en.spm", "dict.de.txt", "dict.en.txt"):
        assert (model / name).read_bytes() == (first / name).read_bytes()
    old, new = (load_checkpoint(place / "checkpoint.pt")["model"] for place in (first, model))
    assert old.keys() == new.keys()
    for name, weight in old.items():
        torch.testing.assert_close(new[name], weight, atol=1e-3, rtol=1e-2)
    assert any(not torch.equal(new[name], weight) for name, weight in old.items())
    assert os.fsencode(folder) not in zipfile.ZipFile(model / "checkpoint.pt").read("archive/data.pkl")
    name = load(str(first)).forward.recorder.name
    assert f"| begun with | `{name}`, its weights and pieces |" in (model / "README.md").read_text(encoding="utf-8")

    without: Result = run_main(main, *command[:-2])  # type: ignore[operator]
    assert without.code == 1
    assert "was prepared from another text, recipe or model" in without.err


@pytest.mark.usefixtures("forked_fairseq")
def test_a_model_of_another_language_begins_with_what_both_have(folder: Path, run_main: object) -> None:
    first: Result = run_main(main, *arguments(folder, 2))  # type: ignore[operator]
    assert first.code == 0, first.err
    parent = (folder / "model").rename(folder / "parent")
    name = load(str(parent)).forward.recorder.name
    slow = tiny_recipe(2).replace("lr = 0.01", "lr = 0.00001").replace('"average"', '"last"')
    for flag, old, kept, tables in (
        ("--source-lang", "de", "en", {"encoder.embed_tokens.weight"}),
        ("--target-lang", "en", "de", {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}),
    ):
        command = [*arguments(folder, 2), flag, "fr", "--finetune-from", str(parent)]
        (folder / "tiny.toml").write_text(slow, encoding="utf-8")
        file = folder / f"text.{old}"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("n", "\u00f1"), encoding="utf-8")  # other pieces
        result: Result = run_main(main, *command)  # type: ignore[operator]
        file.write_text(text, encoding="utf-8")
        assert result.code == 0, result.err
        assert f"parent has {old}, not fr, which gets new pieces and word vectors" in result.err
        assert "learning 120 pieces of fr" in result.err
        assert f"pieces of {kept}" not in result.err

        child = (folder / "model").rename(folder / f"child-{old}")
        for name_of_file in (f"{kept}.spm", f"dict.{kept}.txt"):
            assert (child / name_of_file).read_bytes() == (parent / name_of_file).read_bytes()
        assert f"| begun with | `{name}`, its weights and {kept} pieces |" in (child / "README.md").read_text()
        before, after = (load_checkpoint(place / "checkpoint.pt")["model"] for place in (parent, child))
        assert before.keys() == after.keys()
        for weights in before.keys() - tables:
            torch.testing.assert_close(after[weights], before[weights], atol=1e-3, rtol=1e-2)
        pieces = [
            [line.rpartition(" ")[0] for line in (place / f"dict.{language}.txt").read_text("utf-8").split("\n")[:-1]]
            for place, language in ((parent, old), (child, "fr"))
        ]
        both = set(pieces[0]) & set(pieces[1])
        assert 10 < len(both) < len(pieces[1])
        for table in tables & before.keys():
            for piece in both:
                was, now = (
                    weights[table][4 + side.index(piece)] for weights, side in zip((before, after), pieces, strict=True)
                )
                torch.testing.assert_close(now, was, atol=1e-3, rtol=1e-2)
        assert load(str(child)).forward.recorder.name.startswith("fairseq:fr-en@" if old == "de" else "fairseq:de-fr@")


@pytest.mark.usefixtures("forked_fairseq")
@pytest.mark.parametrize(
    ("change", "model", "message"),
    [
        ("", "nothing", "nothing: no such file or folder, nor a bundled model"),
        ("", "en-de", "en-de: translates en to de, neither from de nor to en"),
        ("", "de-en", "please ensure that the architectures match"),
        ('[text]\ncase = "keep"', "de-en", "de-en: its text is de (lower case, moses tokens, sentencepiece pieces)"),
    ],
)
def test_a_model_that_cannot_be_trained_on_is_refused(
    folder: Path, run_main: object, change: str, model: str, message: str
) -> None:
    command = arguments(folder, 2)
    recipe = folder / "tiny.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("[text]", change or "[text]"), encoding="utf-8")
    result: Result = run_main(main, *command, "--finetune-from", model)  # type: ignore[operator]
    assert result.code == 1
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--valid-source", "x"], "--valid-source and --valid-target go together"),
        (["--target-lang", "de"], "are the same"),
        (["--threads", "0"], "is not a number from 1"),
        (["--seed", "-1"], "is not a number from 0"),
    ],
)
def test_wrong_usage(folder: Path, run_main: object, extra: list[str], message: str) -> None:
    result: Result = run_main(main, *arguments(folder, 2), *extra)  # type: ignore[operator]
    assert result.code == 2
    assert message in result.err


@pytest.mark.usefixtures("forked_fairseq")
def test_a_training_of_limited_time_ends_its_schedule_and_goes_on_as_it_began(
    folder: Path, run_main: Callable[..., Result]
) -> None:
    command = [*arguments(folder, updates=40), "--minutes", "1"]
    recipe = folder / "tiny.toml"
    content = f"minutes = 2\n{recipe.read_text()}"
    recipe.write_text(f'{content}lr-scheduler = "polynomial_decay"\ntotal-num-update = 40\n', encoding="utf-8")
    result = run_main(main, *command)
    assert result.code == 0, result.err
    assert result.err.startswith("extract-align train: 1 min: 10 of 40 updates of recipe tiny\n")
    assert "10 updates" in (folder / "model" / "README.md").read_text(encoding="utf-8")
    log = (folder / "model" / "work" / "seed1" / "log").read_text(encoding="utf-8")
    assert re.findall(r'"valid_num_updates": "([0-9]+)"', log) == ["2", "4", "6", "8", "10"]
    assert re.findall(r'"train_lr": "([^"]+)"', log)[-1] == "0"
    again = run_main(main, *command)
    assert (again.code, "10 of 40 updates" in again.err, "update 10:" in again.err) == (0, True, False)
    recipe.write_text(recipe.read_text().replace("minutes = 2", "minutes = 200"))
    failed(run_main(main, str(folder / "other"), *command[1:]), "--minutes 1 is too short")
    assert not (folder / "other" / "work").exists()


def test_a_missing_fairseq_is_reported_before_anything_is_prepared(
    folder: Path, run_main: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    for name, message in (
        ("fairseq", "fairseq is not installed. These two commands install it:\n  pip install "),
        (
            "sacrebleu",
            "fairseq needs sacrebleu, which is not installed. This installs all that it needs:\n  pip install",
        ),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("importlib.util.find_spec", lambda asked, name=name: None if asked == name else find(asked))
            result = run_main(main, *arguments(folder, 2))
        assert result.code == 1
        assert result.err.startswith(f"extract-align train: error: {message}")
        assert result.err.endswith(f"\nThis program runs in {sys.prefix}.\n")
        assert not (folder / "model").exists()


def mine(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "README.md").write_text("mine")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "text.en").unlink(), "text.en: No such file"),
        (lambda folder: (folder / "text.en").write_text("x\n"), "text.en has 1: line 2 has no other side"),
        (lambda folder: (folder / "text.de").write_bytes(b"\xff\n" * 23), "text.de, line 1: not UTF-8"),
        (lambda folder: (folder / "tiny.toml").write_text("x"), "tiny.toml: "),
        (mine, "README.md: exists and would be replaced; move it, or name another folder"),
    ],
)
def test_bad_data_ends_with_one_line(folder: Path, run_main: object, change: object, message: str) -> None:
    command = arguments(folder, 2)
    change(folder)  # type: ignore[operator]
    result: Result = run_main(main, *command)  # type: ignore[operator]
    assert result.code == 1
    assert result.out == b""
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.usefixtures("forked_fairseq")
def test_what_fairseq_refuses_is_shown(folder: Path, run_main: object) -> None:
    command = arguments(folder, 2)
    recipe = folder / "tiny.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace('"align_small"', '"nonsense"'), encoding="utf-8")
    result: Result = run_main(main, *command)  # type: ignore[operator]
    assert result.code == 1
    assert "invalid choice: 'nonsense'" in result.err
