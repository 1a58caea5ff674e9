"""`extract-align score`, and the agreement that other outputs have."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import align
from align import Aligner, load, two_way
from align.cli import extract, score
from align.core.formats import format_tsv
from tests.cli.conftest import Run, Write
from tests.conftest import EXAMPLES, example_pairs

BOTH = ("-m", "de-en", "--reverse-model", "en-de", "--device", "cpu")


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    write(text=EXAMPLES.read_bytes())
    return partial(run_main, score.main)


def expected(aligner: Aligner) -> list[str]:
    alignments = aligner.fixed()(example_pairs())
    return ["\t".join(f"{value:.4f}" for value in one.agreement or (0, 0)) for one in alignments]


def test_two_numbers_for_each_line(run: Run) -> None:
    one, other = load("de-en", device="cpu"), load("en-de", device="cpu")
    for arguments, aligner in ((BOTH[:2], one), (BOTH, two_way(one, other))):
        result = run("-q", *arguments, "text")
        assert result.code == 0, result.err
        lines = result.out.decode().splitlines()
        assert lines == expected(aligner)
        blank = [n for n, pair in enumerate(example_pairs()) if pair.blank]
        assert [n for n, line in enumerate(lines) if line == "0.0000\t0.0000"] == blank
    alone = [run("-q", *BOTH, stdin=f"{line}\n").out.decode() for line in Path("text").read_text().splitlines()[:3]]
    assert alone == [f"{line}\n" for line in lines[:3]]
    assert "|scorer:" not in run(*BOTH, "text").err  # with which they were not measured
    resumed = run("-q", *BOTH, "text", "-o", "scores", "--resume")
    assert (resumed.code, Path("scores").read_bytes()) == (0, result.out)


def test_translations_score_higher_than_other_sentences(run: Run) -> None:
    lines = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if line.strip()]
    sources, targets = zip(*(line.split(" ||| ") for line in lines), strict=True)
    wrong = "".join(f"{a} ||| {b}\n" for a, b in zip(sources, (*targets[7:], *targets[:7]), strict=True))
    scores = []
    for text in ("".join(f"{line}\n" for line in lines), wrong):
        rows = run("-q", *BOTH, stdin=text).out.decode().splitlines()
        scores.append([min(map(float, row.split("\t"))) for row in rows])
    assert sorted(scores[0])[len(lines) // 2] > max(scores[1])


def test_lines_with_source_and_target(run_main: Run, write: Write) -> None:
    write(text="das  haus\tthe house\n\t\nwir\t\n", sides="das haus ||| the house\n")
    result = run_main(extract.main, "-q", *BOTH[:2], "text", "-f", "tsv", "--print-scores")
    lines = result.out.decode().splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["das haus", "the house"], ["", ""], ["wir", ""]]
    assert lines[0].split("\t")[2].startswith("0-0:1.00 ")
    Path("out").write_bytes(run_main(extract.main, "-q", *BOTH[:2], "text", "-f", "tsv").out)
    again = run_main(extract.main, "-q", *BOTH[:2], "out", "--columns", "1,2", "-f", "tsv")
    assert again.out == Path("out").read_bytes()
    odd = align.Alignment(align.Pair(("a\tb",), ("c",), 3), {})
    with pytest.raises(ValueError, match="pair 3 has a word with a TAB or a line feed in it"):
        format_tsv(odd)
