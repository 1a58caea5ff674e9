"""Run Moses' tokenizer (sacremoses) on one word at a time, skipping the rules that do not apply to the word."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any
from unicodedata import category

Tokenize = Callable[[str, bool, str], list[str]]
"""Tokenises a word, given whether it is the first one and a stand-in for the next word ("": none)."""

_familiar = re.compile("[!-ɏ‐-‧‰-⁞€]*").fullmatch
"""Matches words of Latin letters and common punctuation."""

_FAMILIAR_LETTERS = "0-9A-Za-zªµºÀ-ÖØ-öø-ɏ"
"""The letters and digits among these according to Moses, so that its rules need not be loaded."""


@cache
def _moses(language: str) -> Any:
    """Return Moses' own rules, imported when a word needs them: that takes longer than aligning a hundred pairs."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    # sacremoses would make a set of thousands of characters each time that it looks at one
    moses.islower = lambda text: all(character in moses.IsLower for character in text)
    moses.isanyalpha = lambda text: any(character in moses.IsAlpha for character in text)
    return moses


def moses_normalizer(language: str) -> Callable[[str], str]:
    """Return a function that normalises punctuation like `FSMTTokenizer` of transformers, by three of Moses' scripts.

    Args:
        language: selects the rules for quotation marks and numbers.
    """
    from sacremoses import MosesPunctNormalizer

    moses: Any = MosesPunctNormalizer(lang=language)

    def normalize(word: str) -> str:
        normal: str = moses.normalize(moses.replace_unicode_punct(word))
        return "".join(character for character in normal if not category(character).startswith("C"))

    return normalize


def moses_tokenizer(language: str, escape: bool = False, split_hyphens: bool = False) -> Tokenize:
    """Return a function that tokenises words as Moses does.

    Args:
        language: selects the list of abbreviations.
        escape: write `&apos;` for an apostrophe and so on, as Moses' own script does by default.
        split_hyphens: write `a @-@ b` for `a-b`, as Moses does with `-a`.
    """
    options = {"escape": escape, "aggressive_dash_splits": split_hyphens}
    # The rules that look further than one character only look at full stops, apostrophes, backticks, commas within
    # numbers and, if they are split, hyphens. In words without those, which are most words, letters and digits stay
    # together and any other character is a token; a full stop at the end has a separate rule.
    inner_hyphen, special_hyphen = ("", "-") if split_hyphens else ("-", "")
    is_plain = re.compile(rf"[^\s.'`,\0-\x1f{special_hyphen}]*[,.]?").fullmatch

    def finder(letters: str) -> Callable[[str], list[str]]:
        return re.compile(rf"[{letters}{inner_hyphen}]+\.?|.").findall

    familiar_tokens = finder(_FAMILIAR_LETTERS)
    all_tokens = cache(lambda: finder(_moses(language).IsAlnum))

    def tokenize(word: str, first: bool, following: str) -> list[str]:
        if not is_plain(word):
            context = f"{'' if first else 'A '}{word} {following}"
            return list(_moses(language).tokenize(context, **options))[0 if first else 1 : -1 if following else None]
        tokens = familiar_tokens(word) if _familiar(word) else all_tokens()(word)
        if tokens and tokens[-1][1:].endswith("."):
            ending = _moses(language).handles_nonbreaking_prefixes(f"{tokens[-1]} {following}").split(" ")
            tokens[-1:] = ending[: -1 if following else None]
        return [_moses(language).escape_xml(token) for token in tokens] if escape else tokens

    return tokenize
