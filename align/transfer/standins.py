"""Translate text with tags. What must not be translated stays in the text as a number, which the model copies."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from html import escape, unescape
from itertools import groupby, pairwise
from typing import NamedTuple, TypeVar

from align.core.types import Alignment, Origin, Pair
from align.io.session import Session
from align.models.languages import base_language
from align.models.sentences import split_sentences
from align.models.translate import CopyingPair
from align.transfer.inline import Inline
from align.transfer.markup import Placement
from align.transfer.pages import KEPT, WORD_LETTER, Page, Segment, unescaped
from align.transfer.tags import ICU, PLACEHOLDER, Token

T = TypeVar("T")

_COPIED = frozenset((KEPT, PLACEHOLDER, ICU))  # names of tokens that a translation contains as they are

_FIRST, _STEP = (417, 634), 11
"""First numbers of two series, the second for sentences in which a number of the first is lost."""

_MARKS = 0xF0000
"""First of the characters for private use that stand for tokens to copy, until numbers take their places."""

_MARK = re.compile(r"[\U000f0000-\U000ffffd]+")

_Variant = tuple[tuple[str, ...], Mapping[str, Sequence[int]]]
"""A sentence as it may be translated: its words, and the adjacent tokens that each number in it stands for."""


class Passage:
    """A segment, translated sentence by sentence."""

    def __init__(self, segment: Segment, language: str) -> None:
        self._segment = segment
        # a mark in the place of each token to copy, unless the text has such characters itself
        copied = [n for n, token in enumerate(segment.tokens) if token.kind == "point" and token.name in _COPIED]
        if _MARK.search(unescape(segment.text)):
            copied = []
        words = Inline(self._tokens({n: chr(_MARKS + n) for n in copied}), [], segment.syntax).source_words
        # numbers of three digits that the text does not contain
        candidates = ([str(100 + (first - 100 + n * _STEP) % 900) for n in range(80)] for first in _FIRST)
        series = [[number for number in numbers if number not in segment.text] for numbers in candidates]
        # sentences with numbers for marks; one that loses a number is translated with others, then without any
        self._variants: list[list[_Variant]] = []
        self.pairs: list[Pair] = []  # its sentences
        for start, end in split_sentences(words, language):
            sentence = words[start:end]
            mark_count = len("".join(_MARK.findall(" ".join(sentence)))) if copied else 0
            variants: list[_Variant] = [(tuple(sentence), {})]
            if mark_count:
                variants = [_variant(sentence, numbers) for numbers in (*series, [])]
                series = [numbers[mark_count:] for numbers in series]
            pair = Pair(variants[-1][0], (), segment.line)
            for with_numbers, numbers in reversed(variants[:-1]):
                pair = CopyingPair(with_numbers, (), segment.line, tuple(numbers), pair)
            self._variants.append(variants)
            self.pairs.append(pair)

    def _tokens(self, texts: Mapping[int, str]) -> list[Token]:
        """Return the segment's tokens as a model reads them, some of them replaced by texts."""
        tokens, apostrophe = list[Token](), "''" if self._segment.kind == "icu" else "'"
        for n, token in enumerate(self._segment.tokens):
            if token.kind == "text":
                token = token._replace(text=unescaped(token.text).replace(apostrophe, "'"))
            tokens.append(Token("text", texts[n]) if n in texts else token)
        return [token for token in tokens if token.text]

    def place(self, alignments: Sequence[Alignment], *, split: bool = False) -> tuple[str, list[Placement]]:
        """Return the translation with all tags, and where each is."""
        # the sentences as one: the tokens that each number stands for, scores, and words of both sides
        copied: dict[str, Sequence[int]] = {}
        scores: dict[tuple[int, int], float] = {}
        sources: list[str] = []
        words: list[str] = []
        sentences: list[str] = []
        for alignment, variants in zip(alignments, self._variants, strict=True):
            copied |= next(tokens for sentence, tokens in variants if sentence == alignment.pair.source)
            target = _without_repeats(alignment.pair.target, copied)
            filled = [j for j, word in enumerate(target) if word.strip()]
            places = {j: len(words) + n for n, j in enumerate(filled)}
            at = len(sources)
            scores |= {(i + at, places[j]): score for (i, j), score in alignment.scores.items() if j in places}
            sources += alignment.pair.source
            sentence = " ".join(target[j] for j in filled)
            if self._segment.kind == "icu":
                # apostrophes are doubled: all, or only those that would begin a quoted text
                apostrophe = "'" if "''" in self._segment.text else r"'(?=[{}#|\d])"
                sentence = re.sub(r"[{}#]+", r"'\g<0>'", re.sub(apostrophe, "''", sentence))
            words += sentence.split(" ") if filled else ()
            sentences.append(sentence)
        syntax = self._segment.syntax
        # both sides have the numbers while tags are placed
        originals: dict[str, str] = {}
        texts: dict[int, str] = {}
        for number, tokens in copied.items():
            originals[number] = "".join(self._segment.tokens[n].text for n in tokens)
            texts |= dict.fromkeys(tokens, "") | {tokens[0]: number}
        source = self._tokens(texts)
        # no spaces where words or angle brackets of the source, or numbers, touch numbers
        plain, numbers = "".join(token.text for token in source if token.kind == "text"), "|".join(copied)
        plain = unescape(plain) if syntax.escaped else plain
        sides = (WORD_LETTER, WORD_LETTER), ("<", ">")
        edges = [pair for number in copied for left, right in sides for pair in ((left, number), (number, right))]
        glued = (pair for pair in (*edges, *pairwise(copied)) if re.search("".join(pair), plain))
        joint = "|".join(rf"(?<={left}) (?={right})" for left, right in glued) or "(?!)"
        text = " ".join(re.sub(joint, "", sentence) for sentence in sentences if sentence)
        inline = Inline(source, [Token("text", escape(text, quote=False) if syntax.escaped else text)], syntax)
        if (*inline.source_words, *inline.target_words) != (*sources, *words):
            inline.use_words(sources, [re.sub(r"\s", " ", word) for word in words])
        text, report = inline.place(scores, split=split)
        text = self._segment.escape(text)
        # then what they stand for takes their places
        placements = [*report]
        for number, original in originals.items():
            i, j = (next(n for n, word in enumerate(side) if number in word) for side in (sources, words))
            placements.append(Placement(original, (i, i + 1), ((j, j + 1),), 1.0))
        if originals:
            run = rf"(?:(?<!\d)|(?<=\\u....)|(?<=\\x..))(?:{numbers})+(?!\d)"
            text = re.sub(run, lambda run: re.sub(numbers, lambda number: originals[number[0]], run[0]), text)
        if self._segment.kind in ("quoted", "unquoted"):
            text = text.replace('"', "&quot;").replace("'", "&#39;")
        return text, sorted(placements, key=lambda placement: placement.source)


def _without_repeats(words: Sequence[str], numbers: Collection[str]) -> list[str]:
    """Return words without numbers that are repeated because an unknown word was replaced by its source word."""
    seen: set[str] = set()

    def once(match: re.Match[str]) -> str:
        number = "" if match[0] in seen else match[0]
        seen.add(match[0])
        return number

    pattern = re.compile(rf"(?<!\d)(?:{'|'.join(numbers)})(?!\d)")
    return [pattern.sub(once, word) for word in words] if numbers else [*words]


def _variant(words: Sequence[str], numbers: Sequence[str]) -> _Variant:
    """Return a sentence in which numbers stand for what is to be copied, as far as they last."""
    left = iter(numbers)
    tokens: dict[str, list[int]] = {}

    def number(match: re.Match[str]) -> str:
        sides = match.string[: match.start()][-1:], match.string[match.end() :][:1]
        if any(map(str.isdigit, sides)):
            return ""
        standins = []
        for _, group in groupby(enumerate(match[0]), lambda row: ord(row[1]) - row[0]):  # one for adjacent tokens
            if standin := next(left, ""):
                tokens[standin] = [ord(mark) - _MARKS for _, mark in group]
                standins.append(standin)
        return " ".join(standins).join(" " * bool(standins and re.match(WORD_LETTER, side)) for side in sides)

    return tuple(filter(None, _MARK.sub(number, " ".join(words)).split(" "))), tokens


class Draft:
    """A page to translate."""

    def __init__(self, page: Page, languages: tuple[str, str]) -> None:
        self.page = page
        page.name_language(*map(base_language, languages))
        self._passages = [Passage(segment, languages[0]) for segment in page.segments]
        self.pairs = [pair for passage in self._passages for pair in passage.pairs]  # its sentences

    def place(self, alignments: Sequence[Alignment], *, split: bool = False) -> TranslatedPage:
        """Return the translation of each segment with its tags.

        Args:
            alignments: one for each of `pairs`; if one was skipped, the page is not translated.
        """
        if skipped := next(filter(None, (alignment.skipped for alignment in alignments)), ""):
            return TranslatedPage(self.page, [], [], skipped)
        rest = iter(alignments)
        placed = [passage.place([next(rest) for _ in passage.pairs], split=split) for passage in self._passages]
        return TranslatedPage(self.page, [text for text, _ in placed], [report for _, report in placed])


class TranslatedPage(NamedTuple):
    """A translated page."""

    page: Page  # the original
    texts: list[str]  # the translation of each segment
    report: list[list[Placement]]  # the position of each tag, by segment
    skipped: str = ""  # why there is no translation; empty if there is one

    @property
    def text(self) -> str:
        """Return the page with its translations."""
        return self.page.fill(self.texts)


def translate_pages(
    session: Session, pages: Iterable[tuple[T, Page]], *, split: bool = False, file: str = ""
) -> Generator[tuple[T, TranslatedPage], None, None]:
    """Translate pages, or lines with tags, with the forward model; yield them in order.

    Args:
        pages: the pages, each with what it belongs to, which comes back with its translation.

    Raises:
        PairError: a sentence or its translation is too long, unless the aligner's `too_long` is "blank".
        LostItemError: a translation is missing.
    """
    languages = session.aligner.forward.recorder.languages
    drafts = ((owner, Draft(page, languages)) for owner, page in pages)

    def pairs_of(item: tuple[T, Draft]) -> list[Pair]:
        return [replace(pair, origin=Origin(file, pair.id)) for pair in item[1].pairs]

    with closing(session.results(drafts, pairs_of)) as translated:
        for (owner, draft), alignments in translated:
            yield owner, draft.place(alignments, split=split)
