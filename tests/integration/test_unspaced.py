"""Text without spaces through whole models: the pieces are those of the whole line, and so are their links."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor

from align import Aligner, LinePair, Pair, PairError, load, two_way
from align.core.stream import LONGEST_PIECE
from align.models import divide
from align.models.divide import align_unspaced, in_units
from tests import hugging

SENTENCES = ["今天天气很好。", "天气不好", "我们今天去学校", "学校很好。", "我们不去", "今天不去学校。"]
SPACED = [("Er hat das Buch gelesen .", "He has read the book ."), ("", "x"), ("Haus", "the house"), ("\xad", "a")]
PAIRS = [
    ("我们今天去学校。", "今天天气很好。"),
    (" 天气  不好\u3000", "我们不去学校"),
    ("", ""),
    ("学校", "\u3000"),
    ("很好。", "不好"),
]


@pytest.fixture
def aligner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aligner:
    """A model with a sentencepiece model of text without spaces."""
    monkeypatch.setattr(hugging, "WORDS", SENTENCES)
    monkeypatch.setattr(hugging, "train_pieces", partial(hugging.train_pieces, hard_vocab_limit=False))
    hugging.save_model("marian", tmp_path / "model")
    return load(tmp_path / "model", layer=1, head=1, position="input", threshold=None, null="none", device="cpu")


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


def test_a_line_that_no_model_takes_is_not_divided(aligner: Aligner, monkeypatch: pytest.MonkeyPatch) -> None:
    """To divide it would take a kilobyte for each of its characters."""
    monkeypatch.setattr(divide, "divide", lambda *_: pytest.fail("it is divided"))
    limit = LONGEST_PIECE * aligner.forward.recorder.max_positions[0]
    pair = LinePair.of("a" * (limit + 1), "b")
    (alignment,) = align_unspaced(replace(aligner, too_long="blank"), [pair], "characters")
    assert (alignment.pair, alignment.scores, alignment.skipped) == (pair, {}, "too long")
    with pytest.raises(PairError, match=f"^line 1: source has {limit + 1:,} characters, the model takes {limit:,}: "):
        list(align_unspaced(aligner, [pair], "characters"))


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


@pytest.mark.filterwarnings("ignore::align.TextWarning")
def test_two_models_with_the_same_pieces_link_what_each_links(aligner: Aligner) -> None:
    forward = Aligner(replace(aligner.forward, settings=replace(aligner.forward.settings, threshold=0.5)))
    pair = LinePair.of("我们今天去学校", "天气不好")
    swapped = LinePair.of(pair.target_line, pair.source_line)
    [one], [other] = (list(align_unspaced(forward, [some], "pieces")) for some in (pair, swapped))
    [both] = align_unspaced(two_way(forward, forward, "union"), [pair], "pieces")
    assert (both.pair.source, both.pair.target) == (one.pair.source, one.pair.target)
    assert both.links == one.links | {(i, j) for j, i in other.links}


@pytest.mark.parametrize("method", ["soft", "grow-diag"])
def test_segmented_text_with_spaces_gets_the_links_of_its_words(method: str, both_models: Aligner) -> None:
    aligner = replace(both_models, method=method)
    pairs = [LinePair.of(source, target, n) for n, (source, target) in enumerate(SPACED, 1)]
    segmented = list(align_unspaced(aligner, pairs, "segmented"))
    assert segmented == list(aligner(pairs))


def test_segmented_text_is_read_without_its_spaces(aligner: Aligner) -> None:
    """The ids are those of the whole line, and words in one piece share its links."""
    words, line = "我们 今 天 去 学校 。", "我们今天去学校。"
    segmented, by_character = (
        next(align_unspaced(aligner, [LinePair.of(text, "天气不好")], cut))
        for text, cut in ((words, "segmented"), (line, "characters"))
    )
    assert segmented.pair.source == tuple(words.split())
    of = [n for n, word in enumerate(words.split()) for _ in word]
    # "天气不好" is one word of the user's, whose links are those of all its pieces
    assert {i for i, _ in segmented.links} <= {of[i] for i, _ in by_character.links}
    assert segmented.links


def test_heads_are_chosen_by_pieces_where_text_has_no_words(aligner: Aligner) -> None:
    lines = [LinePair.of(*PAIRS[0]), LinePair.of("", "")]
    (pair, blank) = in_units(aligner.forward.recorder, lines)
    [divided] = align_unspaced(aligner, lines[:1], "pieces")
    assert (len(pair.source), len(pair.target)) == (len(divided.pair.source), len(divided.pair.target))
    assert blank.blank
    spaced = [Pair(("我们", "今", "天", "去", "学校", "。"), ("We", "go", "to", "school", "."), 1)]
    for words in (spaced, [Pair(("Haus",), ("house",), 1)], []):
        assert in_units(aligner.forward.recorder, words) is words
