"""Programs with Hugging Face models: the bundled ones in that format give the golden files of the bundled ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from align.cli import baseline, extract, sweep
from align.training.to_hugging_face import convert
from tests.cli.conftest import Result
from tests.conftest import EXAMPLES, ROOT, needs_fast_align

pytestmark = pytest.mark.usefixtures("one_thread")

GOLDEN = ROOT / "tests" / "golden"
NUMBER = re.compile(rb"(?<![\w.])\d+\.\d+(?![\w.])")


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both models."""
    folder = tmp_path_factory.mktemp("moved")
    for name in ("de-en", "en-de"):
        convert(name, folder / name)
    return folder


def test_two_directions(run_main: Callable[..., Result], moved: Path) -> None:
    result = run_main(extract.main, "-q", EXAMPLES, "-m", moved / "de-en", "--reverse-model", moved / "en-de")
    assert (result.code, result.err) == (0, "")
    assert result.out == (GOLDEN / "examples.two-way").read_bytes()


@needs_fast_align
def test_pieces_for_a_statistical_aligner(run_main: Callable[..., Result], moved: Path) -> None:
    options = ("fast_align", EXAMPLES, "--threads", "1", "--pieces")
    ours, theirs = (run_main(baseline.main, *options, model) for model in ("de-en", moved / "de-en"))
    assert ours.code == theirs.code == 0
    assert ours.out == theirs.out
    assert "|pieces:huggingface:de-en@" in theirs.err


def test_sweep(run_main: Callable[..., Result], moved: Path) -> None:
    result = run_main(sweep.main, "-q", "-m", moved / "de-en", EXAMPLES, "-g", GOLDEN / "examples.pharaoh")
    assert (result.code, result.err) == (0, "")
    *expected, _ = (GOLDEN / "examples.sweep").read_bytes().splitlines()
    *found, signature = result.out.splitlines()
    assert b"huggingface:de-en@" in signature
    assert [NUMBER.sub(b"0", line) for line in found] == [NUMBER.sub(b"0", line) for line in expected]
    numbers, wanted = ([float(n) for line in lines for n in NUMBER.findall(line)] for lines in (found, expected))
    assert numbers == pytest.approx(wanted, abs=2e-3)  # the last digits are the processor's
