"""`extract-align --reverse-model` from the outside: soft links, two runs and `combine`, what is refused."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

import align
from align import Pair
from align.cli import extract
from align.cli.combine import main as combine_main
from align.models.link_scorer import read_scorer
from tests import corpora, toy
from tests.cli.conftest import Result, Run, Write

pytestmark = pytest.mark.usefixtures("one_thread")

FORWARD, REVERSE = "toys/de-en/checkpoint.pt", "toys/en-de"
BOTH = ("-m", FORWARD, "--reverse-model", REVERSE)


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path) -> Run:
    """The command, in a folder with two toy models and a text of 130 lines, some of them blank."""
    toy.save_model(tmp_path / "toys" / "de-en")
    toy.save_reverse_model(tmp_path / "toys" / "en-de", {"max_source_positions": 20, "max_target_positions": 20})
    pairs = corpora.unrelated(130, seed=3)  # no second best word is nearer than 0.003 %: any processor tells them apart
    pairs[3] = pairs[70] = Pair((), (), 4)
    pairs[4] = Pair(("das",), (), 5)
    write(text=corpora.as_bitext(pairs), turned=corpora.as_bitext(corpora.turned(pairs)))
    return partial(run_main, extract.main)


@pytest.fixture
def combine(run_main: Run) -> Run:
    """The other command, which needs no model."""
    return partial(run_main, combine_main, "-q")


# What comes out


@pytest.mark.parametrize("options", [("--threshold", 0.3), ("--buffer", 30, "--score", "weight", "--null", "mask")])
def test_the_bytes_of_two_runs_and_combine(run: Run, combine: Run, options: tuple[str, ...]) -> None:
    assert run("-q", "-m", FORWARD, "text", *options, "-o", "forward").code == 0
    assert run("-q", "-m", REVERSE, "turned", *options, "-o", "reverse").code == 0
    for method in ("grow-diag-final-and", "union"):
        named = () if method == "grow-diag-final-and" else ("--symmetrize", method)  # the default of combine
        combined = combine("forward", "reverse", "--reverse-swapped", *named).out
        result = run("-q", *BOTH, "text", *options, "--symmetrize", method)
        assert (result.code, result.out) == (0, combined)
        assert result.out.count(b"\n") == 130


def signed(result: Result) -> str:
    """Return the signature, without the layers and heads that were chosen."""
    return re.sub(r"auto\(\w+\)", "auto", result.err.splitlines()[-1])


def test_signature_with_layer_and_head_of_the_forward_model(run: Run) -> None:
    out = signed(run(*BOTH, "--layer", 1, "--head", "all", "--symmetrize", "union", "text"))
    beside = "output-layer:auto|output-head:auto"
    scorers = "scorer:{0}+{0}".format(read_scorer().digest)
    assert f"|layer:1|head:all|both|{beside}|sum/mean|null:eos|threshold:0.5|{scorers}|reverse:fairseq:en-de@" in out
    reverse = "|reverse-layer:auto|reverse-head:auto|reverse-output-layer:auto|reverse-output-head:auto|union"
    assert out.endswith(f"{reverse}|v:{align.__version__}")
