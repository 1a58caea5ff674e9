"""`extract-align --reverse-model` from the outside: soft links, two runs and `combine`, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import align
from align import Pair, two_way
from align.cli import extract
from align.cli.combine import main as combine_main
from tests import corpora, toy
from tests.cli.conftest import Result
from tests.golden_files import assert_same_but_for_rounding

pytestmark = pytest.mark.usefixtures("one_thread")

FORWARD, REVERSE = "toys/de-en/checkpoint.pt", "toys/en-de"
BOTH = ("-m", FORWARD, "--reverse-model", REVERSE)


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> Callable[..., Result]:
    """The command, in a folder with two toy models and a text of 130 lines, some of them blank."""
    toy.save_model(tmp_path / "toys" / "de-en")
    toy.save_reverse_model(tmp_path / "toys" / "en-de", {"max_source_positions": 20, "max_target_positions": 20})
    pairs = corpora.unrelated(130, seed=3)  # no second best word is nearer than 0.003 %: any processor tells them apart
    pairs[3] = pairs[70] = Pair((), (), 4)
    pairs[4] = Pair(("das",), (), 5)
    write(text=corpora.as_bitext(pairs), turned=corpora.as_bitext(corpora.turned(pairs)))
    return partial(run_main, extract.main)


@pytest.fixture
def combine(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """The other command, which needs no model."""
    return partial(run_main, combine_main, "-q")


# What comes out


@pytest.mark.parametrize("options", [("--threshold", 0.3), ("--buffer", 30, "--score", "weight", "--null", "mask")])
def test_the_bytes_of_two_runs_and_combine(
    run: Callable[..., Result], combine: Callable[..., Result], options: tuple[str, ...]
) -> None:
    assert run("-q", "-m", FORWARD, "text", *options, "-o", "forward").code == 0
    assert run("-q", "-m", REVERSE, "turned", *options, "-o", "reverse").code == 0
    for method in ("grow-diag-final-and", "union"):
        named = () if method == "grow-diag-final-and" else ("--symmetrize", method)  # the default of combine
        combined = combine("forward", "reverse", "--reverse-swapped", *named).out
        result = run("-q", *BOTH, "text", *options, "--symmetrize", method)
        assert (result.code, result.out) == (0, combined)
        assert result.out.count(b"\n") == 130


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_soft_is_the_default_and_what_the_library_does(run: Callable[..., Result], tmp_path: Path) -> None:
    both = two_way(align.load(FORWARD, device="cpu"), align.load(REVERSE, device="cpu"))
    pairs = [line.split("|||") for line in (tmp_path / "text").read_text(encoding="utf-8").splitlines()]
    found = list(both((source, target) for source, target in pairs))
    assert sum(len(alignment.links) for alignment in found) > 30
    for options in ((), ("--symmetrize", "soft", "--threshold", ".5")):
        result = run("-q", *BOTH, "text", *options)
        assert (result.code, result.out.decode()) == (0, "".join(f"{alignment}\n" for alignment in found))
    scored = [" ".join(f"{i}-{j}:{alignment.scores[i, j]:.2f}" for i, j in alignment) for alignment in found]
    expected = "".join(f"{line}\n" for line in scored).encode()
    assert_same_but_for_rounding(run("-q", *BOTH, "text", "--print-scores").out, expected, "0.01")
    records = [json.loads(line) for line in run("-q", *BOTH, "text", "-f", "jsonl").out.splitlines()]
    for record, alignment in zip(records, found, strict=True):
        assert [tuple(link) for link in record["links"]] == list(alignment)
        assert record["scores"] == pytest.approx([alignment.scores[link] for link in alignment], abs=1e-4)
        assert record["null"] == alignment.null
        assert all(0.5 < score <= 1 for score in record["scores"])


def signed(result: Result) -> str:
    """Return the signature, without the layers and heads that were chosen."""
    return re.sub(r"auto\(\w+\)", "auto", result.err.splitlines()[-1])


def test_signature_with_layer_and_head_of_the_forward_model(run: Callable[..., Result]) -> None:
    out = signed(run(*BOTH, "--layer", 1, "--head", "all", "--symmetrize", "union", "text"))
    beside = "output-layer:auto|output-head:auto"
    assert f"|layer:1|head:all|both|{beside}|sum/mean|null:eos|threshold:0.5|reverse:fairseq:en-de@" in out
    reverse = "|reverse-layer:auto|reverse-head:auto|reverse-output-layer:auto|reverse-output-head:auto|union"
    assert out.endswith(f"{reverse}|v:{align.__version__}")


# What does not fit
