"""Glossaries: whether a term of the source was translated as asked, by the links."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import contains
from typing import Any, TypeAlias

from align.core.errors import DataError, Remedy
from align.core.formats import to_json
from align.core.text import fold, normalize, split_words
from align.core.types import Alignment, Pair, Span

Words: TypeAlias = tuple[str, ...]
Spellings: TypeAlias = tuple[str, ...]
"""How a word of the text may be written in a glossary, in folded case: as it is, or without punctuation around it."""


@dataclass(frozen=True, slots=True)
class Term:
    """What a glossary asks for: the words of a term, and those of each translation of which one will do."""

    source: Words
    targets: tuple[Words, ...]


Glossary: TypeAlias = Mapping[str, Sequence[Term]]
"""Terms by their first word, in folded case."""


@dataclass(frozen=True, slots=True)
class FoundTerm:
    """A term in a pair.

    Attributes:
        term: what the glossary asks for.
        source: the first of its source words, from 0, and the one behind the last.
        target: likewise from the first to the last target word that is linked to them; None where none is.
        as_asked: whether one of the asked translations stands in the target, and a word of it is linked to a word of
            the term; None where no word is.
    """

    term: Term
    source: Span
    target: Span | None
    as_asked: bool | None

    def to_dict(self, pair: Pair) -> dict[str, Any]:
        """Numbers, strings and lists of them, which `json.dumps` takes; with spans if the pair has kept its lines."""
        target = self.target
        record: dict[str, Any] = {
            "term": " ".join(self.term.source),
            "asked": [" ".join(words) for words in self.term.targets],
            "given": None if target is None else " ".join(pair.target[slice(*target)]),
            "as_asked": self.as_asked,
            "source_words": [*self.source],
            "target_words": target and [*target],
        }
        if spans := pair.spans:
            record["source_span"] = _characters(spans[0], self.source)
            record["target_span"] = target and _characters(spans[1], target)
        return record


def _characters(spans: Sequence[Span], words: Span) -> list[int]:
    return [spans[words[0]][0], spans[words[1] - 1][1]]


def read_glossary(lines: Iterable[str], name: str) -> Glossary:
    """Read a term a line: its words, TAB, the words of its translation. Of a term in several lines any will do.

    Args:
        lines: without their ends.
        name: what to call the file in errors.

    Raises:
        DataError: a line is not of this form; names file and line. Or there is none.
    """
    terms: dict[Words, Term] = {}
    for number, line in enumerate(lines, 1):
        sides = [tuple(filter(normalize, split_words(side))) for side in line.split("\t")]
        if len(sides) != 2 or not all(sides):
            what = {1: "no TAB", 2: "an empty side"}.get(len(sides), f"{len(sides)} fields between TABs")
            raise DataError(what, file=name, line=number, remedy=Remedy("a line is a term, a TAB, and its translation"))
        source, target = sides
        same = terms.setdefault(_folded(source), Term(source, ()))
        terms[_folded(source)] = Term(same.source, (*same.targets, target))
    if not terms:
        raise DataError("no term in it", file=name)
    return make_glossary(terms.values())


def make_glossary(terms: Iterable[Term]) -> Glossary:
    """Terms by their first word, long ones first."""
    glossary: dict[str, list[Term]] = {}
    for term in sorted(terms, key=lambda term: -len(term.source)):
        glossary.setdefault(_folded(term.source)[0], []).append(term)
    return glossary


def check_terms(pair: Pair, links: Collection[tuple[int, int]], terms: Glossary) -> list[FoundTerm]:
    """Terms in the source of a pair, and what its links give for each.

    Case does not matter, nor does punctuation at the edges of a word of the text. Of terms that overlap, the one that
    begins first is taken, and of those the longest.

    Args:
        pair: in the user's own words.
        links: of its words.
        terms: what `read_glossary` reads.
    """
    source, target = list(map(_spellings, pair.source)), list(map(_spellings, pair.target))
    found: list[FoundTerm] = []
    at = 0
    while at < len(source):
        near = chain.from_iterable(terms.get(spelling, ()) for spelling in source[at])
        standing = [term for term in near if _stands(term.source, source, at)]
        if not standing:
            at += 1
            continue
        term = max(standing, key=lambda term: len(term.source))
        end = at + len(term.source)
        linked = {j for i, j in links if at <= i < end}
        window, as_asked = None, None
        if linked:
            window = min(linked), max(linked) + 1
            as_asked = any(_given(words, target, linked) for words in term.targets)
        found.append(FoundTerm(term, (at, end), window, as_asked))
        at = end
    return found


def _given(words: Words, target: Sequence[Spellings], linked: Collection[int]) -> bool:
    """Whether words stand somewhere in the target, one of them linked."""
    return any(
        _stands(words, target, at) for at in sorted({j - k for j in linked for k in range(len(words)) if j >= k})
    )


def _stands(words: Words, sentence: Sequence[Spellings], at: int) -> bool:
    """Whether a sentence has these words at a place."""
    there = sentence[at : at + len(words)]
    return len(there) == len(words) and all(map(contains, there, _folded(words)))


def _spellings(word: str) -> Spellings:
    folded = fold(word)
    first, last = 0, len(folded)
    while first < last and _is_punctuation(folded[first]):
        first += 1
    while first < last and _is_punctuation(folded[last - 1]):
        last -= 1
    return (folded, folded[first:last]) if last - first < len(folded) else (folded,)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _folded(words: Words) -> Words:
    return tuple(fold(word) for word in words)


def format_checked(alignment: Alignment, terms: Glossary) -> str:
    """The JSON object of `Alignment.to_dict()`, with `terms`: what `check_terms` finds."""
    found = check_terms(alignment.pair, alignment.links, terms)
    return to_json({**alignment.to_dict(), "terms": [one.to_dict(alignment.pair) for one in found]})
