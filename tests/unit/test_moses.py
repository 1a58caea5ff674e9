"""A word's tokens are those of sacremoses, whichever way they came; and it is imported only when a word needs it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesTokenizer

from align.models.preprocess import moses_tokenizer
from tests.conftest import shared_pairs

LANGUAGES = ("de", "en", "fr", "cs", "zh")
OPTIONS = [(False, False), (True, False), (True, True)]
BY_SACREMOSES = {language: MosesTokenizer(language) for language in LANGUAGES}
OURS = {(language, *options): moses_tokenizer(language, *options) for language in LANGUAGES for options in OPTIONS}
LETTERS = [*"aZ3äßñžж東ªµ²¼", *"usw", "Nr", "etc", "z.B", "DR"]
MARKS = [*".,'`-", *'()[]„“"…/&|<>:;!?$%€–\u00ad\u00a0\x07', "...", "n't"]


def by_sacremoses(
    language: str, escape: bool, split_hyphens: bool, word: str, first: bool, following: str
) -> list[str]:
    """The tokens of a word between others, cut out of what sacremoses makes of the three."""
    text = f"{'' if first else 'A '}{word} {following}"
    tokens = BY_SACREMOSES[language].tokenize(text, escape=escape, aggressive_dash_splits=split_hyphens)
    return list(tokens)[0 if first else 1 : -1 if following else None]


@given(
    st.lists(st.sampled_from([*LETTERS, *MARKS, ".", "-", ","]), min_size=1, max_size=6).map("".join),
    st.sampled_from(LANGUAGES),
    st.sampled_from(OPTIONS),
    st.booleans(),
    st.sampled_from(["", "a", "1", "A"]),
)
def test_tokens_are_those_of_sacremoses(
    word: str, language: str, options: tuple[bool, bool], first: bool, following: str
) -> None:
    key = (language, *options)
    found = OURS[key](word, first, following)
    assert found == by_sacremoses(language, *options, word, first, following)


@pytest.mark.parametrize("language", ["de", "zh"])
def test_every_character_is_a_letter_where_it_is_one_to_sacremoses(language: str) -> None:
    for number in [*range(0x21, 0x600), *range(0x2000, 0x2100), *range(0x3000, 0x3100), 0x4E00, 0xAC00, 0x1F600]:
        word = f"a{chr(number)}b"
        expected = by_sacremoses(language, False, False, word, False, "A")
        assert OURS[language, False, False](word, False, "A") == expected, hex(number)


@pytest.mark.parametrize("language", ["de", "en"])
def test_full_stops_of_real_words(language: str) -> None:
    sentences = [pair.source if language == "de" else pair.target for pair in shared_pairs(1000)]
    words = {word for sentence in sentences for word in sentence if word.endswith(".")}
    words |= {f"{prefix}." for prefix in BY_SACREMOSES[language].NONBREAKING_PREFIXES}
    for word in words:
        for following in ("", "a", "1", "A"):
            found = OURS[language, False, False](word, False, following)
            assert found == by_sacremoses(language, False, False, word, False, following)
