"""Text without spaces through whole models: the pieces are those of the whole line, and so are their links."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor

from align import Aligner, LinePair, ModelError, load, two_way
from align.models.divide import align_unspaced
from align.models.model_toml import ModelOptions
from align.models.preprocess import sentencepiece_pieces
from tests import hugging, toy

SENTENCES = ["今天天气很好。", "天气不好", "我们今天去学校", "学校很好。", "我们不去", "今天不去学校。"]
PAIRS = [
    ("我们今天去学校。", "今天天气很好。"),
    (" 天气  不好\u3000", "我们不去学校"),
    ("", ""),
    ("学校", "\u3000"),
    ("很好。", "不好"),
]


def marian(folder: Path) -> Aligner:
    """A Hugging Face model with a sentencepiece model of text without spaces."""
    hugging.save_model("marian", folder)
    return load(folder, layer=1, head=1, position="input", threshold=None, null="none", device="cpu")


def fairseq(folder: Path) -> Aligner:
    """A fairseq model with such pieces."""
    hugging.train_pieces(folder / "source.spm")
    pieces = sentencepiece_pieces(folder / "source.spm")[3:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy, "SOURCE_WORDS", pieces)
        patch.setattr(toy, "TARGET_WORDS", pieces)
        checkpoint = toy.save_model(folder)
    options = ModelOptions(subwords="sentencepiece", subword_files=(folder / "source.spm",))
    return load(
        checkpoint, layer=1, head=1, position="input", threshold=None, null="none", device="cpu", options=options
    )


@pytest.fixture(params=[marian, fairseq])
def aligner(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aligner:
    """A model whose pieces were learned from such text."""
    monkeypatch.setattr(hugging, "WORDS", SENTENCES)
    monkeypatch.setattr(hugging, "train_pieces", partial(hugging.train_pieces, hard_vocab_limit=False))
    build: Callable[[Path], Aligner] = request.param
    return build(tmp_path / "model")


def test_pieces_of_the_whole_line_and_their_links(aligner: Aligner, tmp_path: Path) -> None:
    processor = SentencePieceProcessor(model_file=str(tmp_path / "model" / "source.spm"))
    pairs = [LinePair.of(*pair, n) for n, pair in enumerate(PAIRS, 1)]
    by_piece, by_character = (list(align_unspaced(aligner, pairs, words)) for words in ("pieces", "characters"))
    assert [one.pair.id for one in by_piece] == [one.pair.id for one in by_character] == [1, 2, 3, 4, 5]
    assert any(len(word) > 1 for one in by_piece for word in one.pair.source)
    for (source, target), pieces, characters in zip(PAIRS, by_piece, by_character, strict=True):
        for side, line in ((pieces.pair.source, source), (pieces.pair.target, target)):
            read = [piece.replace("\u2581", "") for piece in processor.encode(line, out_type=str)]
            assert [*side] == [piece for piece in read if piece]
        assert "".join(characters.pair.source) == "".join(source.split())
        # a link of two characters is one of the pieces that they are in
        of = [[n for n, word in enumerate(side) for _ in word] for side in (pieces.pair.source, pieces.pair.target)]
        assert characters.links == {
            (i, j) for i, u in enumerate(of[0]) for j, v in enumerate(of[1]) if (u, v) in pieces.links
        }
        assert len(pieces.scores) == (0 if pieces.pair.blank else len(pieces.pair.target))


@pytest.mark.parametrize("aligner", [marian], indirect=True)
def test_links_are_those_of_the_same_ids(aligner: Aligner, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    known = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    pair = "我们今天去学校", "天气不好"
    sides = [
        SentencePieceProcessor(model_file=str(folder / f"{side}.spm")).encode(line, out_type=str)
        for side, line in zip(("source", "target"), pair, strict=True)
    ]
    words = [[max(0, n - (side[0] == "\u2581")) for n in range(len(side))] for side in sides]  # a lone blank is no word
    source, target = ([known.get(piece, known["<unk>"]) for piece in side] for side in sides)
    expected = aligner.align_ids([*source, known["</s>"]], target, [*words[0], None], words[1])
    [found] = align_unspaced(aligner, [LinePair.of(*pair)], "pieces")
    assert dict(found.scores) == dict(expected.scores)


def test_what_cannot_be_done_is_refused(aligner: Aligner) -> None:
    with pytest.raises(ModelError, match=r"words='pieces' needs one model: two cut a text into different pieces"):
        list(align_unspaced(two_way(aligner, aligner), [], "pieces"))
    with pytest.raises(ValueError, match="words are one of characters, pieces, icu; not 'spaces'"):
        list(align_unspaced(aligner, [], "spaces"))
