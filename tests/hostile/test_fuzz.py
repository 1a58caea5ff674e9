"""A little of what `scripts/fuzz` does for longer, and what it once found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import toy
from tests.conftest import EXAMPLES
from tests.hostile import (
    fuzz_ctranslate2,
    fuzz_links,
    fuzz_marian,
    fuzz_markup,
    fuzz_models,
    fuzz_text,
)
from tests.hostile.driver import Case, search
from tests.hostile.link_cases import load

FOUND = Path(__file__).parent / "found"
FORKS = pytest.mark.skipif(sys.platform != "linux", reason="the limits of child processes are those of Linux")


@pytest.mark.parametrize(
    ("case", "count", "kinds"),
    [
        (fuzz_text.try_bytes, 5000, ("read", "refused")),
        (fuzz_links.try_links, 300, [f"{program} {code}" for program in fuzz_links.PROGRAMS for code in (0, 1)]),
        (fuzz_markup.try_tagging, 500, ("taggings",)),
    ],
)
def test_nothing_goes_wrong(case: Case, count: int, kinds: tuple[str, ...]) -> None:
    counts = search(case, count)
    assert counts["wrong"] == 0
    assert min(counts[kind] for kind in kinds) > count / 20


@FORKS
@pytest.mark.parametrize("kind", ["fairseq", "marian", "ctranslate2"])
def test_damaged_model_folders_are_answered(kind: str, tmp_path: Path) -> None:
    if kind == "ctranslate2":
        pytest.importorskip("ctranslate2")
        assert search(fuzz_ctranslate2.ctranslate2_case(tmp_path), 40)["wrong"] == 0
    elif kind == "marian":
        assert search(fuzz_marian.marian_case(tmp_path), 40)["wrong"] == 0
    else:
        sound = toy.save_model(tmp_path / "sound").parent
        assert search(fuzz_models.folder_case({"toy": sound}, tmp_path), 40)["wrong"] == 0


@pytest.mark.parametrize("path", sorted(FOUND.glob("bytes/*")), ids=lambda path: path.name)
def test_bytes_that_were_found_are_read_alike(path: Path) -> None:
    assert fuzz_text.read(path.read_bytes()) in ("read", "refused")


@pytest.mark.parametrize("path", sorted(FOUND.glob("links/*")), ids=lambda path: path.stem)
def test_links_that_were_found_stay_mended(path: Path) -> None:
    assert fuzz_links.try_case(load(path)).wrong == ""


@FORKS
@pytest.mark.parametrize("path", sorted(FOUND.glob("models/*")), ids=lambda path: path.name)
def test_folders_that_were_found_are_answered(path: Path, tmp_path: Path) -> None:
    toy.save_model(tmp_path / "folder")
    shutil.copytree(path, tmp_path / "folder", dirs_exist_ok=True)
    assert fuzz_models.load_folder(tmp_path / "folder", tmp_path).what in ("links", "refused")


@pytest.mark.parametrize(
    ("count", "seed", "arguments"),
    [(150, 8, []), (60, 8, ["--reverse-model", "en-de"]), (60, 7, ["--threshold", "none"])],
)
def test_lines_of_anything_come_out_in_order(count: int, seed: int, arguments: list[str]) -> None:
    counts = fuzz_text.run(count, seed, arguments)
    assert (counts["lines"], counts["wrong"]) == (count, 0)
    assert counts["links"] > count / 3


def test_a_run_that_is_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """Kill it at once and after each of the first shards; then let it end."""
    lines = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if line] * 10
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ["align", "-q", "--threads", "1", "--device", "cpu", "--buffer", "8", "text", "-o"]
    subprocess.run([sys.executable, "-m", *command, "whole"], cwd=tmp_path, check=True)
    for shards in range(3):
        with subprocess.Popen([sys.executable, "-m", *command, "links", "--resume"], cwd=tmp_path) as process:
            while process.poll() is None and not (tmp_path / f"links.parts/{shards:05}.json").exists() and shards:
                time.sleep(0.002)
            process.kill()
    subprocess.run([sys.executable, "-m", *command, "links", "--resume"], cwd=tmp_path, check=True)
    assert (tmp_path / "links").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"text", "whole", "links", "links.run.json"}
