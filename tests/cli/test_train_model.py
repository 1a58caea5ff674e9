"""`extract-align train`: a training, which a signal and a kill do not change, what is trained from it, refusals."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from align import load
from align.cli.train import main
from align.io.process import module
from align.models.fairseq.checkpoint import load_checkpoint
from tests.cli.conftest import Run, failed
from tests.cli.test_current_folder import ALL, plant
from tests.conftest import example_pairs
from tests.training_recipe import steady_recipe, tiny_recipe

LONG = " ".join(map(str, range(1000, 1110)))
UPDATES = 24
FILES = {"README.md", "checkpoint.pt", "model.toml", "training.tsv", "de.spm", "en.spm", "dict.de.txt", "dict.en.txt"}


def write_text(folder: Path, recipe: str) -> list[str]:
    """Write the examples as two files, with a blank side, a pair twice and a side that is too long; the arguments."""
    pairs = [(" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs() if not pair.blank]
    pairs[1:1] = [pairs[0], ("leer", ""), (LONG, LONG)]
    for language, side in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (folder / f"text.{language}").write_text("".join(line + "\n" for line in side), encoding="utf-8")
    (folder / "tiny.toml").write_text(recipe, encoding="utf-8")
    options = ["--source-lang", "de", "--target-lang", "en", "--threads", "1", "--device", "cpu"]
    files = ["-s", str(folder / "text.de"), "-t", str(folder / "text.en"), "--recipe", str(folder / "tiny.toml")]
    return [str(folder / "model"), *files, *options]


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Begin or go on with a training in FOLDER/model, as the leader of a process group of its own."""
    folder.mkdir(exist_ok=True)
    command = module("align", "train", *write_text(folder, steady_recipe(UPDATES, "average", interval=3)))
    with (folder / "said").open("a", encoding="utf-8") as said:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, cwd=folder, start_new_session=True)


def said(folder: Path) -> str:
    return (folder / "said").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nobody disturbed, one for all tests and all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "trained"
    with FileLock(f"{folder}.lock"):
        if not (folder / "model" / "README.md").exists():
            plant(folder, ALL)  # modules in the current folder, which no process of a training may run
            assert start(folder).wait() == 0, said(folder)
    return folder


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The arguments of a training of two updates, in a folder with its text and recipe."""
    return write_text(tmp_path, tiny_recipe(2))


def model_of(folder: Path) -> dict[str, bytes]:
    """The files of a finished model without the speeds and paths in them."""
    files = {name: (folder / "model" / name).read_bytes() for name in FILES}
    files["training.tsv"] = re.sub(rb"\t[0-9]*\n", b"\t\n", files["training.tsv"])
    files["README.md"] = re.sub(rb", median [0-9,]+ target pieces/s", b"", files["README.md"])
    files["README.md"] = files["README.md"].replace(os.fsencode(folder), b"")
    return files


def test_a_model_of_a_training(trained: Path) -> None:
    model = trained / "model"
    assert not (trained / "RAN").exists()
    assert {path.name for path in model.iterdir()} == FILES | {"work"}
    curve = (model / "training.tsv").read_text(encoding="utf-8").split("\n")
    validated = [row.split("\t")[0] for row in curve[1:-1]]
    assert {"3", "6", "21", "24"} <= set(validated)
    card = (model / "README.md").read_text(encoding="utf-8")
    for expected in ("seen before | 1 |", "a side is empty | 1 |", "has no piece, or 200 and more | 1 |", "24 updates"):
        assert expected in card
    assert os.fsencode(trained) not in zipfile.ZipFile(model / "checkpoint.pt").read("archive/data.pkl")
    pairs = example_pairs()
    aligner = load(str(model), device="cpu")
    assert len(list(aligner(pairs))) == len(pairs)
    assert aligner.forward.recorder.name.startswith("fairseq:de-en@")


def test_a_training_that_is_stopped_and_whose_parent_is_killed_ends_as_the_same_model(
    trained: Path, tmp_path: Path, run_main: Run
) -> None:
    ignore = shutil.ignore_patterns("seed*")  # prepared already: stop and kill are for the training
    shutil.copytree(trained / "model" / "work", tmp_path / "model" / "work", ignore=ignore)
    for how, kill, ending in ((signal.SIGINT, os.killpg, "interrupted; the same command goes on\n"), (9, os.kill, "")):
        process = start(tmp_path)
        before = said(tmp_path).count("validation")
        while said(tmp_path).count("validation") < before + 2:  # the checkpoint of the first one is written
            assert process.poll() is None
            time.sleep(0.01)
        kill(process.pid, how)
        assert process.wait(60) == (130 if ending else -9)
        assert said(tmp_path).endswith(ending)
        end = time.monotonic() + 30
        while time.monotonic() < end:  # or else fairseq trains on by itself
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.01)
        else:
            pytest.fail("fairseq outlives its parent")
        assert {path.name for path in (tmp_path / "model").iterdir()} - {".lock"} == {"work"}
    assert start(tmp_path).wait() == 0
    assert "cleaning" not in said(tmp_path)
    assert "going on from" in said(tmp_path)
    assert model_of(tmp_path) == model_of(trained)
    repeated = run_main(main, *write_text(tmp_path, steady_recipe(UPDATES, "average", interval=3)))
    assert (repeated.code, "update" in repeated.err) == (0, False)  # it is trained already
    changed = steady_recipe(UPDATES, "best", interval=3).replace("lr = 0.001", "lr = 0.1")
    changes = "lr: 0.001 → 0.1; select: average → best"
    repeated = run_main(main, *write_text(tmp_path, changed))
    assert (repeated.code, "update" in repeated.err) == (0, False)
    assert f"seed1: begun with another recipe, number of threads or device ({changes})" in repeated.err


@pytest.mark.usefixtures("forked_fairseq")
def test_a_model_of_another_language_begins_with_what_both_have(trained: Path, tmp_path: Path, run_main: Run) -> None:
    recipe = tiny_recipe(2).replace("lr = 0.01", "lr = 0.00001").replace('"average"', '"last"')
    command, parent = write_text(tmp_path, recipe), trained / "model"
    text = (tmp_path / "text.de").read_text(encoding="utf-8")
    (tmp_path / "text.de").write_text(text.replace("n", "\u00f1"), encoding="utf-8")  # other pieces
    result = run_main(main, *command, "--source-lang", "fr", "--finetune-from", str(parent))
    assert result.code == 0, result.err
    assert "model has de, not fr, which gets new pieces and word vectors" in result.err
    assert "learning 120 pieces of fr" in result.err
    assert "pieces of en" not in result.err
    child = tmp_path / "model"
    for name in ("en.spm", "dict.en.txt"):
        assert (child / name).read_bytes() == (parent / name).read_bytes()
    name = load(str(parent)).forward.recorder.name
    assert f"| begun with | `{name}`, its weights and en pieces |" in (child / "README.md").read_text()
    assert load(str(child)).forward.recorder.name.startswith("fairseq:fr-en@")
    before, after = (load_checkpoint(place / "checkpoint.pt")["model"] for place in (parent, child))
    assert before.keys() == after.keys()
    for weights in before.keys() - {"encoder.embed_tokens.weight"}:
        torch.testing.assert_close(after[weights], before[weights], atol=1e-3, rtol=1e-2)
    without = run_main(main, *command, "--source-lang", "fr")
    failed(without, f"{child / 'work'}: was prepared from another text, recipe or model; name another folder")


def test_a_full_disk_is_reported(command: list[str], tmp_path: Path) -> None:
    full = subprocess.run(
        [sys.executable, "-m", "align", "train", *command],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert (full.returncode, "File too large" in full.stderr) == (1, True)
    assert not (tmp_path / "model" / "work" / "prepared.json").exists()


@pytest.mark.parametrize(
    ("file", "text", "parent", "message"),
    [
        ("tiny.toml", "[text]", "en-de", "en-de: translates en to de, neither from de nor to en"),
        ("tiny.toml", '[text]\ncase = "keep"', "de-en", "de-en: its text is de (lower case, moses tokens, "),
        ("model/README.md", "mine", None, "README.md: exists and would be replaced; move it, or name another folder"),
    ],
)
def test_what_cannot_be_trained_on_or_would_be_replaced_is_refused(
    command: list[str], tmp_path: Path, run_main: Run, file: str, text: str, parent: str | None, message: str
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / file).write_text(tiny_recipe(2).replace("[text]", text) if parent else text, encoding="utf-8")
    failed(run_main(main, *command, *(["--finetune-from", parent] if parent else [])), message)


@pytest.mark.usefixtures("forked_fairseq")
def test_what_fairseq_refuses_is_shown(trained: Path, tmp_path: Path, run_main: Run) -> None:
    command = write_text(tmp_path, steady_recipe(2, "average", 3).replace('"align_small"', '"nonsense"'))
    ignore = shutil.ignore_patterns("seed*")
    shutil.copytree(trained / "model" / "work", tmp_path / "model" / "work", ignore=ignore)
    failed(run_main(main, *command), "invalid choice: 'nonsense'")
