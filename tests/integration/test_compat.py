"""The calls that other programs make of eflomal, simalign and machine.py, on translation models."""

from __future__ import annotations

import inspect
import math
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import align
from align import Aligner, load, two_way
from align.compat import eflomal
from align.compat.simalign import METHODS, SentenceAligner
from align.io.compression import import_zstd
from tests import naive
from tests.conftest import example_pairs

LINES = [(" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs()]


@pytest.fixture(scope="module")
def distilled() -> Aligner:
    return two_way(load("de-en-fast", device="cpu"), load("en-de-fast", device="cpu"))


def test_calls_of_pipelines(tmp_path: Path, both_models: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    """As mozilla/translations aligns a corpus, and OpusFilter scores one."""
    monkeypatch.chdir(tmp_path)
    source, target = ([f"{line[n]}\n" for line in LINES] for n in (0, 1))
    Path("priors").write_text("LEX\tHaus\thouse\t3\n")
    aligner = eflomal.Aligner()
    links = {"links_filename_fwd": "fwd.zst", "links_filename_rev": "rev"}
    with open("priors") as priors, pytest.warns(UserWarning, match="eflomal's option priors_input has no effect"):
        aligner.align(iter(source), iter(target), **links, priors_input=priors, quiet=False, use_gdb=False)
    expected = list(both_models(LINES))
    assert Path("rev").read_text().splitlines() == [str(alignment) for alignment in expected]
    assert import_zstd().decompress(Path("fwd.zst").read_bytes()) == Path("rev").read_bytes()
    with NamedTemporaryFile("w+") as forward, NamedTemporaryFile("w+") as reverse:
        names: dict[str, Any] = {"scores_filename_fwd": forward.name, "scores_filename_rev": reverse.name}
        aligner.align(source, target, **names, priors_input=None, quiet=True)
        of_sides = [[float(line) for line in file] for file in (forward, reverse)]
    for side, scores in enumerate(of_sides):
        assert scores == [
            pytest.approx(-math.log((alignment.agreement or (0.001, 0.001))[side]), abs=1e-4) for alignment in expected
        ]
    assert sorted(os.listdir()) == ["fwd.zst", "priors", "rev"]


def test_eflomal_takes_the_same_arguments() -> None:
    real = pytest.importorskip("eflomal")
    assert list(inspect.signature(real.Aligner.align).parameters) == list(
        inspect.signature(eflomal.Aligner.align).parameters
    )
    assert list(inspect.signature(real.Aligner.__init__).parameters)[1:] == list(eflomal.UNUSED)
    for name in ("calculate_priors", "write_priors"):
        theirs, ours = (inspect.signature(getattr(module, name)).parameters.values() for module in (real, eflomal))
        assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in theirs]


def test_directions_of_simalign() -> None:
    scores = {(0, 0): 0.9, (0, 1): 0.6}
    forward = np.eye(2)[np.array([[0.9, 0.6]]).argmax(1)]  # as simalign computes them
    back = np.eye(1)[np.array([[0.9, 0.6]]).argmax(0)].T
    for letter, matrix in (("f", forward), ("r", back)):
        assert METHODS[letter][1](scores) == {(int(i), int(j)) for i, j in np.argwhere(matrix)}


def test_methods_of_simalign(distilled: Aligner) -> None:
    with pytest.warns(UserWarning, match="simalign's option layer has no effect"):
        aligner = SentenceAligner(model="bert", token_type="bpe", matching_methods="maifr", layer=6)
    fixed = distilled.fixed()
    for source, target in LINES:
        links = aligner.get_word_aligns(source.split(), target)
        assert list(links) == ["mwmf", "inter", "itermax", "fwd", "rev"]
        assert links["itermax"] == sorted(fixed.align(source, target))
        sets = {name: set(pairs) for name, pairs in links.items()}
        assert sets["inter"] == sets["itermax"] & sets["fwd"] & sets["rev"]
        assert [len({link[side] for link in links["mwmf"]}) for side in (0, 1)] == [len(links["mwmf"])] * 2
        assert len({i for i, _ in links["fwd"]}) == len(links["fwd"])
        assert len({j for _, j in links["rev"]}) == len(links["rev"])
    with pytest.raises(ValueError, match="matching_methods must have letters of amifr; got 'x'"):
        SentenceAligner(matching_methods="mx")


def test_tokens_may_be_spaces_or_have_some_as_in_simalign() -> None:
    aligner = SentenceAligner(matching_methods="if")
    links = aligner.get_word_aligns(["Das", " ", "alte Haus", "", "steht ."], ["The", "old house", "\t", "stands ."])
    assert links == {"itermax": [(0, 0), (2, 1), (4, 3)], "fwd": [(0, 0), (2, 1), (4, 3)]}


def test_spaces_of_unicode_part_words_as_for_the_programs(tmp_path: Path) -> None:
    source, target = "Das\u00a0Haus\u3000ist\u202falt .\n", "The house\u2028is old .\n"
    aligner = SentenceAligner(matching_methods="i", device=torch.device("cpu"))
    plain = aligner.get_word_aligns(source.split(), target.split())
    assert aligner.get_word_aligns(source, target) == plain == {"itermax": [(n, n) for n in range(5)]}
    assert aligner.device == torch.device("cpu")  # which the evaluation of mozilla/translations logs
    eflomal.Aligner(forward="de-en-fast", reverse="en-de-fast").align([source], [target], str(tmp_path / "fwd"))
    assert (tmp_path / "fwd").read_text() == "0-0 1-1 2-2 3-3 4-4\n"


def test_machine_aligns_a_corpus(distilled: Aligner) -> None:
    pytest.importorskip("machine")
    from machine.corpora import DictionaryTextCorpus, MemoryText, TextRow
    from machine.tokenization import WhitespaceTokenizer
    from machine.translation import WordAligner, word_align_corpus

    from align.compat.machine import ExtractAligner

    def corpus(side: int) -> Any:
        rows = [TextRow("text", n, [line[side]]) for n, line in enumerate(LINES)]
        return DictionaryTextCorpus(MemoryText("text", rows)).tokenize(WhitespaceTokenizer())

    aligner = ExtractAligner(device="cpu")
    assert isinstance(aligner, WordAligner)
    fixed = distilled.fixed()
    with word_align_corpus(corpus(0).align_rows(corpus(1)), aligner=aligner).get_rows() as rows:
        for row in rows:
            links = {(pair.source_index, pair.target_index) for pair in row.aligned_word_pairs or ()}
            assert links == fixed.align(list(row.source_segment), list(row.target_segment)).links
    matrix = aligner.align(["das", "Haus"], ["the", "house"])
    assert [matrix[0, 0], matrix[0, 1], matrix[1, 0], matrix[1, 1]] == [True, False, False, True]
    assert [(one.row_count, one.column_count) for one in aligner.align_batch([((), ("a",)), (("a", "b"), ())])] == [
        (0, 1), (2, 0),
    ]  # fmt: skip


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 1000), st.booleans())
def test_soft_links_of_similarities(rows: int, columns: int, seed: int, one: bool) -> None:
    draw = np.random.default_rng(seed)
    forward, reverse = draw.uniform(0.05, 1, (2, rows, columns))
    reverse = forward if one else reverse
    found = align.soft_links(forward, None if one else reverse, threshold=0)
    shares = [
        naive.sharpen([[*row, 0.0] for row in matrix], "none") for matrix in (forward.T.tolist(), reverse.tolist())
    ]
    expected = {(i, j): score for j, row in enumerate(naive.soft_scores(*shares)) for i, score in enumerate(row)}
    assert found == pytest.approx({link: score for link, score in expected.items() if score > 0}, abs=1e-3)
    assert align.soft_links(3 * forward, 5 * reverse, threshold=0) == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize(
    ("matrices", "message"),
    [(([1.0],), "one shape; got "), (([[1.0]], [[1.0, 2.0]]), "one shape; got "), (([[math.nan]],), "finite numbers")],
)
def test_similarities_that_are_none(matrices: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        align.soft_links(*matrices)
