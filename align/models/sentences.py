"""Split text into sentences, with the abbreviations that sacremoses lists for each language."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from align.models.languages import base_language
from align.models.punctuation import mark_kind, opens, visible_edges


@lru_cache(maxsize=64)
def _abbreviations(language: str) -> frozenset[str]:
    """Return the words after which a point ends no sentence; those of English for a language without a list."""
    from sacremoses.corpus import NonbreakingPrefixes

    prefixes = NonbreakingPrefixes()
    code = base_language(language)
    return frozenset(prefixes.words(code if code in prefixes.available_langs else "en"))


def split_sentences(words: Sequence[str], language: str) -> list[tuple[int, int]]:
    """Return the first word of each sentence and the one after its last; none for a text without words.

    A sentence ends at a stop that is not followed by a small letter; a point ends none after an abbreviation, an
    initial or an ordinal number, nor before a number.
    """
    stops = (k for k, (word, _) in enumerate(pairwise(words), 1) if mark_kind(word) == "stop")
    bounds = [0, *(k for k in stops if _ends(words[k - 1], words[k], language)), len(words)]
    return [(start, end) for start, end in pairwise(bounds) if start < end]


def _ends(word: str, following: str, language: str) -> bool:
    first = visible_edges(following)[0]
    core = word.lstrip("([{„“\"'»«").rstrip(")]}“”\"'«»")
    if not core.endswith(".") or core.endswith(".."):
        return not first.islower()
    core = core[:-1]
    if first.islower() or first.isdigit() or not (first.isalpha() or opens(first)):
        return False
    if "." in core:
        return core.replace(".", "").isdigit()
    return not (core in _abbreviations(language) or core.isdigit() or (len(core) == 1 and core.isalpha()))
