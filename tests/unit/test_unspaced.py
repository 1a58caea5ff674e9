"""Words in text without spaces: what of a line a model's pieces hold together."""

from importlib.util import find_spec
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from align.core.text import find_spans, split_words
from align.models.divide import divide, join

Sides = tuple[list[str], list[list[str]]]


@pytest.mark.parametrize(
    ("part", "pieces", "words", "numbers"),
    [
        ("今天天气。", ["▁今天", "天气", "。"], ["今天", "天气", "。"], [0, 1, 2]),
        ("今天", ["▁", "今", "天"], ["今", "天"], [0, 0, 1]),
        ("ＡＢ！ｶﾞ", ["▁ab", "!", "ガ"], ["ＡＢ", "！", "ｶﾞ"], [0, 1, 2]),  # NFKC, lower case
        ("กำลัง", ["▁ก", "ำลัง"], ["กำลัง"], [0, 0]),  # no piece ends at the end of a character
        ("今\u3000天", ["▁今", "▁天"], ["今", "天"], [0, 1]),
        ("今?天", ["▁今", "<unk>", "天"], ["今", "?", "天"], [0, 1, 2]),  # other text between the same
        ("今天", ["▁今", "<unk>", "天"], ["今", "天"], [0, 1, 1]),  # text that is not there
        ("das", ["da", "s</w>"], ["da", "s"], [0, 1]),
        ("昨a我b", ["<0xE6>", "<0x98>", "<0xA8>", "a", "<unk>", "b"], [*"昨a我b"], [0, 0, 0, 1, 2, 3]),
        ("我昨天é", ["Ġ", "æĪĳ", "æ", "ĺ¨", "å¤©", "Ã", "©"], [*"我昨天é"], [0, 0, 1, 1, 2, 3, 3]),  # BPE of bytes
        ("é我", [*"Ã©æ\x88\x91"], ["é", "我"], [0, 0, 1, 1, 1]),  # ByT5
    ],
)
def test_pieces_are_words(part: str, pieces: list[str], words: list[str], numbers: list[int]) -> None:
    divided = divide([part], [[pieces]], "pieces")
    assert ([*divided.words], divided.pieces) == (words, [numbers])
    assert divided.units == [(n, n + 1) for n in range(len(words))]


def test_characters_share_a_piece_and_pieces_a_character() -> None:
    divided = divide(["今天天", "\u3000", "กำ"], [[["▁今天", "天"], ["▁"], ["▁ก", "ำ"]]], "characters")
    assert divided.words == ("今", "天", "天", "กำ")
    assert divided.units == [(0, 2), (2, 3), (3, 4)]
    assert divided.pieces == [[0, 1, 1, 2, 2]]


letters = st.text(
    st.sampled_from("今天aßİ\u3000\u0301ำ👨\u200d！ｶﾞ") | st.characters(exclude_categories=["Cs"]), max_size=12
)


@st.composite
def some_sides(draw: st.DrawFn) -> Sides:
    """A line's parts, each cut anywhere; or pieces of something else."""
    parts = split_words(draw(letters))
    pieces = []
    for part in parts:
        cuts = sorted({0, len(part), *draw(st.lists(st.integers(0, len(part)), max_size=4))})
        pieces.append(
            [part[a:b] for a, b in pairwise(cuts)] if draw(st.booleans()) else draw(st.lists(letters, max_size=4))
        )
    return list(parts), pieces


@given(some_sides(), st.sampled_from(["characters", "pieces", *["icu"] * bool(find_spec("icu4py"))]))
@example((["\u200d今"], [["\u200d", "今"]]), "pieces")
@example((["今\xad天\u200b"], [["今", "", "\xad天"]]), "pieces")
def test_units_are_all_words_in_order_and_every_piece_has_one(sides: Sides, cut: str) -> None:
    parts, pieces = sides
    divided = divide(parts, [pieces], cut)
    [numbers] = divided.pieces
    assert [n for unit in divided.units for n in range(*unit)] == list(range(len(divided.words)))
    assert all(begin < end for begin, end in divided.units)
    assert len(numbers) == sum(map(len, pieces))
    assert numbers == sorted(numbers)
    assert not divided.units or set(numbers) <= set(range(len(divided.units)))
    line = " ".join(parts)
    spans = find_spans(divided.words, line)
    left = set(range(len(line))) - {n for begin, end in spans for n in range(begin, end)}
    assert all(line[n].isspace() for n in left)


@pytest.mark.skipif(not find_spec("icu4py"), reason="needs icu4py")
@pytest.mark.parametrize(
    ("part", "pieces", "words", "units"),
    [
        ("我今天去学校。", ["▁我", "今天去", "学", "校。"], "我 今天 去 学校 。", [(0, 1), (1, 3), (3, 5)]),
        ("สวัสดีครับ", ["▁สวัส", "ดีครับ"], "สวัสดี ครับ", [(0, 2)]),  # a piece reaches from one into the other
        ("😀it's,\u3000x", ["▁😀it", "'s", ",", "▁x"], "😀 it's , x", [(0, 2), (2, 3), (3, 4)]),
    ],
)
def test_words_of_a_dictionary(part: str, pieces: list[str], words: str, units: list[tuple[int, int]]) -> None:
    divided = divide([part], [[pieces]], "icu")
    assert (" ".join(divided.words), divided.units) == (words, units)


plain = st.text(st.sampled_from("今天气很好abc"), min_size=1, max_size=12)


@given(plain, *[st.sets(st.integers(1, 11))] * 3)
def test_units_of_two_models_end_where_a_word_and_pieces_of_both_do(
    text: str, words: set[int], first: set[int], second: set[int]
) -> None:
    spans, *of_models = (
        [*pairwise([0, *sorted(n for n in cuts if n < len(text)), len(text)])] for cuts in (words, first, second)
    )
    spelt = [[[text[a:b] for a, b in pieces]] for pieces in of_models]
    divided = divide([text], spelt, "segmented", [spans])
    assert divided.words == tuple(text[a:b] for a, b in spans)
    common = {b for _, b in spans} & {b for _, b in of_models[0]} & {b for _, b in of_models[1]}
    lengths = [len("".join(divided.words[slice(*unit)])) for unit in divided.units]
    assert [*accumulate(lengths)] == sorted(common)
    for pieces, numbers in zip(of_models, divided.pieces, strict=True):
        assert numbers == [sum(end <= begin for end in common) for begin, _ in pieces]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("なお 近年 行な わ れ た 。", "なお近年行なわれた。"),
        ("2001 年 に Perl 6 を 使 っ た", "2001年にPerl 6を使った"),
        ("한국 어 를 말 한다", "한국 어 를 말 한다"),  # Korean has spaces
        ("ก ข \u3000 ค a", "กข \u3000 คa"),  # words that a model does not see stay apart
        ("東京 \xad 大阪", "東京 \xad 大阪"),
        (">>jpn<< 東京 は", ">>jpn<< 東京は"),
        ("ＡＢ ＣＤ １ ２", "ＡＢ ＣＤ １ ２"),
        ("", ""),
    ],
)
def test_words_of_scripts_without_spaces_are_joined(line: str, expected: str) -> None:
    parts, spans = join(split_words(line))
    assert " ".join(parts) == expected
    words = [part[a:b] for part, some in zip(parts, spans, strict=True) for a, b in some]
    assert tuple(words) == split_words(line)
