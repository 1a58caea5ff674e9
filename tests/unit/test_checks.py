"""Text that is not tokenised as a model's was is told by its pieces; other warnings are tested with the programs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer
from subword_nmt.learn_bpe import learn_bpe

from align import Direction, Pair
from align.core.stream import SideNames, encode
from align.core.types import Pieces
from align.models.preprocess import Preprocessor, TextRules
from align.models.text_check import ModelCheck
from tests.conftest import example_pairs
from tests.known import KnownRecorder

SENTENCES = [
    " ".join(side).replace(" ,", ",").replace(" .", ".") for p in example_pairs() for side in (p.source, p.target)
]
PAIRS = [Pair(tuple(s.split()), tuple(t.split()), 1) for s, t in zip(SENTENCES[::2], SENTENCES[1::2], strict=True)]

MOSES = MosesTokenizer("en")
TOKENS = [Pair(tuple(MOSES.tokenize(" ".join(p.source))), tuple(MOSES.tokenize(" ".join(p.target))), 1) for p in PAIRS]


class BpeRecorder(KnownRecorder):
    """A model's text processing: BPE learned from these lines."""

    def __init__(self, lines: Sequence[str], path: Path, tokenizer: str) -> None:
        codes = io.StringIO()
        learn_bpe(io.StringIO("\n".join(lines)), codes, num_symbols=300, min_frequency=1)
        path.write_text(codes.getvalue(), encoding="utf-8")
        rules = TextRules("en", tokenizer=tokenizer, subwords="subword-nmt", subword_file=path)
        self._preprocess = Preprocessor(rules, lambda piece: 10)

    def encode(self, pair: Pair) -> Pieces:
        (source, owners), (target, others) = self._preprocess(pair.source), self._preprocess(pair.target)
        return Pieces([*source, 2], [*owners, -1], target, others, (len(pair.source), len(pair.target)))


def warnings_about(recorder: KnownRecorder, pairs: Sequence[Pair]) -> list[str]:
    encoded = [encode(recorder, pair) for pair in pairs]
    return ModelCheck("known", "source", "target").begin(Direction(recorder), encoded, None, SideNames())


@pytest.mark.parametrize(
    ("trained_on_tokens", "tokenizer", "warned"), [(True, "none", True), (True, "moses", False), (False, "none", False)]
)
def test_punctuation_at_words_for_a_model_of_tokens(
    tmp_path: Path, trained_on_tokens: bool, tokenizer: str, warned: bool
) -> None:
    lines = [MOSES.tokenize(line, return_str=True, escape=False) for line in SENTENCES]
    recorder = BpeRecorder(lines if trained_on_tokens else SENTENCES, tmp_path / "codes", tokenizer)
    doubts = warnings_about(recorder, PAIRS * 3)
    assert [doubt[: doubt.index(" the")] for doubt in doubts] == (
        ["with punctuation apart from words (`house ,`)"] * warned
    )
    assert warnings_about(recorder, PAIRS[:10]) == []
    if warned:
        assert "of the model in place of" in doubts[0]
        assert warnings_about(recorder, TOKENS * 3) == []


def test_tokenised_text_for_a_model_of_raw_text(tmp_path: Path) -> None:
    recorder = BpeRecorder(SENTENCES, tmp_path / "codes", "none")
    for raw in (False, True):
        recorder.raw = raw
        doubts = warnings_about(recorder, TOKENS * 3)
        assert [doubt[:36] for doubt in doubts] == ["punctuation is apart from words (`ho"] * raw
        assert warnings_about(recorder, PAIRS * 3) == []
