"""Parts of a text's links: by what the target word is, by how long the source is, by how far from the diagonal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from align.core.types import Pair

Link = tuple[int, int]

Belongs = Callable[[Pair, frozenset[str], Link], bool]
"""Whether a link of a pair belongs to a part, given the target language's most frequent words in lower case."""


def word_class(words: tuple[str, ...], place: int, frequent: frozenset[str]) -> str:
    """What kind of word stands at a place: a name has a capital, but not because it begins a sentence."""
    word = words[place]
    if any(map(str.isdigit, word)):
        return "number"
    if not any(map(str.isalpha, word)):
        return "punctuation"
    if word.lower() in frequent:
        return "function word"
    begins = not any(letter.isalpha() for before in words[:place] for letter in before)
    return "name" if word[0].isupper() and not begins else "content word"


def is_class(name: str, pair: Pair, frequent: frozenset[str], link: Link) -> bool:
    """Whether a link's target word is of a class."""
    return word_class(pair.target, link[1], frequent) == name


def is_length(least: int, most: int, pair: Pair, frequent: frozenset[str], link: Link) -> bool:
    """Whether a link's source sentence has so many words."""
    return least <= len(pair.source) <= most


def is_distance(least: float, most: float, pair: Pair, frequent: frozenset[str], link: Link) -> bool:
    """Whether a link is so far from the diagonal, as a share of the sentence."""
    i, j = ((place + 0.5) / len(words) for place, words in zip(link, (pair.source, pair.target), strict=True))
    return least <= abs(i - j) < most


CLASSES = ("content word", "function word", "name", "number", "punctuation")
LENGTHS = {"up to 10": (0, 10), "11 to 20": (11, 20), "21 to 30": (21, 30), "over 30": (31, 1 << 31)}
DISTANCES = {"under 0.05": (0, 0.05), "0.05 to 0.15": (0.05, 0.15), "0.15 to 0.3": (0.15, 0.3), "over 0.3": (0.3, 2)}

PARTS: dict[str, dict[str, Belongs]] = {
    "target word": {name: partial(is_class, name) for name in CLASSES},
    "words of the source": {name: partial(is_length, *ends) for name, ends in LENGTHS.items()},
    "distance from the diagonal": {name: partial(is_distance, *ends) for name, ends in DISTANCES.items()},
}
"""All parts, by what they are parts of."""
