"""Find punctuation at the edges of words: which of it stays outside a tag, and where sentences end."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from align.core.text import normalize

_STOPS, _PAUSES = frozenset(".!?…。！？؟"), frozenset(",;:،؛，、；：")
_CLOSING = frozenset({"Pe", "Pf", "Pi"})
_OPENING = frozenset({"Ps", "Pf", "Pi"})
_QUOTES = frozenset("\"'`„‚「」『』《》〈〉〝〞")
_APOSTROPHE = "\u2019"


def is_punctuation(text: str) -> bool:
    """Tell whether a text consists of punctuation only, and is not empty."""
    text = normalize(text)
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


_JOINED = frozenset("\u200c\u200d\ufe0e\ufe0f") | {chr(code) for code in range(0x1F3FB, 0x1F400)}
"""Joiners, variation selectors and skin tones, which belong to the character before them."""

_REGIONAL = range(0x1F1E6, 0x1F200)  # letters of which two are a flag


def is_letter_or_mark(text: str) -> bool:
    """Tell whether characters are letters, marks on letters, or digits; none is not."""
    return bool(text) and all(
        character.isalnum() or unicodedata.category(character).startswith("M") for character in text
    )


def combines(left: str, right: str) -> bool:
    """Tell whether two characters next to each other are shown as one."""
    if not left or not right:
        return False
    flag = ord(left) in _REGIONAL and ord(right) in _REGIONAL
    return flag or left == "\u200d" or right in _JOINED or unicodedata.category(right).startswith("M")


def _is_invisible(character: str) -> bool:
    return not normalize(character)


def closes(character: str) -> bool:
    """Tell whether a character ends a sentence or a part of one, or closes a bracket or a quotation."""
    marks = character in _STOPS or character in _PAUSES or character == '"'
    return marks or (unicodedata.category(character) in _CLOSING and character != _APOSTROPHE)


def opens(character: str) -> bool:
    """Tell whether a character opens a bracket or a quotation, or a sentence in Spanish."""
    return character in '"¿¡' or (unicodedata.category(character) in _OPENING and character != _APOSTROPHE)


def visible_edges(text: str) -> tuple[str, str]:
    """Return the first and the last visible character of a text; two letters if it has none."""
    visible = [character for character in text if not character.isspace() and normalize(character)]
    return (visible[0], visible[-1]) if visible else ("x", "x")


def leading(word: str) -> int:
    """Return the number of characters before a word begins: brackets and quotes; 0 if it is only punctuation."""
    at = next((n for n, character in enumerate(word) if not opens(character) and not _is_invisible(character)), 0)
    while at and _is_invisible(word[at - 1]):  # these belong to the word
        at -= 1
    return 0 if is_punctuation(word) else at


def trailing(word: str, full_stop: bool) -> int:
    """Return the number of characters after a word's end: stops, commas, brackets, quotes; 0 if it is only punctuation.

    `full_stop` tells that a point ends a sentence here, not an abbreviation.
    """
    if is_punctuation(word):
        return 0
    at = next((n for n, c in enumerate(reversed(word)) if not closes(c) and not _is_invisible(c)), 0)
    while at and _is_invisible(word[len(word) - at]):
        at -= 1
    body, marks = word[: len(word) - at], word[len(word) - at :]
    dot = marks.rfind(".")
    ends = full_stop or (dot > 0 and closes(marks[dot - 1]) and marks[dot - 1] not in _STOPS)
    return at - dot - 1 if dot >= 0 and (not ends or (dot == 0 and _is_abbreviated(body))) else at


def _is_abbreviated(word: str) -> bool:
    """Tell whether a word before a point is like `z.B` or `e.g`: points between one or two letters each."""
    parts = word[leading(word) :].split(".")
    return len(parts) > 1 and all(part.isalpha() and len(part) < 3 for part in parts)


def ends_sentence(words: Sequence[str], k: int) -> bool:
    """Tell whether the point of a word may end a sentence, and not an abbreviation.

    Another word has to begin with a capital after it, and it has to be longer than most abbreviations.
    """
    if k + 1 >= len(words):
        return True
    following = words[k + 1][leading(words[k + 1]) :]
    body = words[k][: len(words[k]) - trailing(words[k], full_stop=True)]
    return following[:1].isupper() and "." not in body and len(body) > (3 if body.islower() or body.isupper() else 5)


def kind_of(character: str) -> str:
    """Return the kind of a character: punctuation marks of one kind replace each other in translations."""
    if character in _STOPS or character in _PAUSES:
        return "stop" if character in _STOPS else "pause"
    category = "Pf" if character in _QUOTES else unicodedata.category(character)
    kinds = {"Pi": "quote", "Pf": "quote", "Ps": "open", "Pe": "close", "Pd": "dash"}
    return kinds.get(category) or ("letter" if is_letter_or_mark(character) else character)


def leading_beyond(word: str, first: str) -> int:
    """Return how many characters of `leading` come before a mark of the same kind as `first`; all if there is none."""
    before = word[: leading(word)]
    return _before_kind(before, first) if opens(first) else len(before)


def trailing_beyond(word: str, full_stop: bool, last: str) -> int:
    """Return how many characters of `trailing` come after a mark of the same kind as `last`; all if there is none."""
    behind = word[len(word) - trailing(word, full_stop) :]
    return _before_kind(behind[::-1], last) if closes(last) else len(behind)


def _before_kind(marks: str, mark: str) -> int:
    return next((n for n, character in enumerate(marks) if kind_of(character) == kind_of(mark)), len(marks))


def mark_kind(word: str) -> str:
    """Return the kind of mark that a word ends in before quotes and brackets: "stop", "pause", or "" for none."""
    for character in reversed(word):
        if character in _STOPS or character in _PAUSES:
            return kind_of(character)
        if not closes(character) and not _is_invisible(character):
            break
    return ""
