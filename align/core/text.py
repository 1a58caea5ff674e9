"""Splits sentences into words, finds words in their line, and numbers the pairs of a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypeAlias

from align.core.errors import shorten, show_value
from align.core.types import Pair, Span

_JOINED = "\u0600-\u18af\u1a00-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe0f\ufe70-\ufefe\U00011000-\U00011fff"
"""Scripts whose spelling has zero-width characters: Arabic to Mongolian, and those of South and South-East Asia."""

_EMOJI = "\u2600-\u27bf\U0001f000-\U0001faff"  # emoji, which zero-width joiners combine

_INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
    f"|(?<![{_JOINED}{_EMOJI}])[\u200b-\u200d]+(?![{_JOINED}{_EMOJI}])"
)
"""Soft hyphens, direction marks, and zero-width characters where they are not part of the spelling."""


def split_words(text: str, words: str = "spaces") -> tuple[str, ...]:
    """Split a sentence into words at ASCII space and TAB, or for "unicode" at all white space, as `str.split` does."""
    return tuple(text.split() if words == "unicode" else filter(None, text.replace("\t", " ").split(" ")))


MAX_MARKS = 1000
"""Combining marks in a row that are normalised: the time to sort them grows with the square of their number."""


def to_form(text: str, form: Literal["NFC", "NFKD"] = "NFC") -> str:
    """Return a text in a form of Unicode; a text with more than MAX_MARKS marks in a row stays as it is."""
    runs = groupby(text if len(text) > MAX_MARKS else "", _is_mark)
    if any(marks and sum(1 for _ in run) > MAX_MARKS for marks, run in runs):
        return text
    return unicodedata.normalize(form, text)


def _is_mark(character: str) -> bool:
    """Tell whether a character, or what it stands for, is a combining mark."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0


def normalize(text: str) -> str:
    """Return a text as models read it in training: composed (NFC), without invisible characters.

    Soft hyphens, direction marks and zero-width characters are removed; zero-width characters only where no neighbour
    is an emoji or of a script that uses them, such as Arabic or Thai. U+2010, U+2011 and the minus sign become `-`.
    """
    if text.isascii():
        return text
    text = _INVISIBLE.sub("", text).translate({0x2010: "-", 0x2011: "-", 0x2212: "-"})
    composed = to_form(text)
    if composed == text:
        return text
    # NFC decomposes or replaces some characters, such as Bengali U+09DF: these stay.
    kept = "".join(character for character in set(text) if unicodedata.normalize("NFC", character) != character)
    if not kept:
        return composed
    parts = re.split(f"([{re.escape(kept)}])", text)
    return "".join(part if part in kept else to_form(part) for part in parts)


def fold(word: str) -> str:
    """Return a word in the form in which words are compared: normalised, composed, and without case."""
    return to_form(normalize(word)).casefold()


def find_spans(words: Sequence[str], line: str) -> list[Span]:
    """Return where words stand in their line, in characters; words that do not are a ValueError."""
    spans, end = [], 0
    for word in words:
        start = line.find(word, end)
        if start < 0:
            raise ValueError(f"{show_value(word)} does not stand behind character {end} of its line")
        end = start + len(word)
        spans.append((start, end))
    return spans


@dataclass(frozen=True, slots=True)
class LinePair(Pair):
    """A pair with the lines that it was read from, so that links can refer to characters; `LinePair.of` makes one.

    Attributes:
        source_line: the source as given, with its own spaces.
        target_line: line of the target.
    """

    source_line: str
    target_line: str

    @classmethod
    def of(cls, source: str, target: str, id: int = 1, words: str = "spaces") -> LinePair:
        """Split two lines into a pair: at ASCII space and TAB, or for the words "unicode" at all white space."""
        return cls(split_words(source, words), split_words(target, words), id, source, target)

    def memory(self) -> int:
        """Return the approximate number of bytes in memory."""
        return Pair.memory(self) + len(self.source_line) + len(self.target_line)

    @property
    def spans(self) -> tuple[list[Span], list[Span]]:
        """Where the words of source and target stand in their lines.

        Raises:
            ValueError: the lines do not consist of the words.
        """
        return find_spans(self.source, self.source_line), find_spans(self.target, self.target_line)

    def with_target(self, words: tuple[str, ...]) -> LinePair:
        """Return the same source with another target, whose line has a space between words."""
        return replace(self, target=words, target_line=" ".join(words))


MakePair: TypeAlias = Callable[[str, str, int], Pair]
"""Makes a pair of a source line, a target line and their number."""


def make_pair(source: str, target: str, id: int, words: str = "spaces") -> Pair:
    """Return a pair that does not keep its lines."""
    return Pair(split_words(source, words), split_words(target, words), id)


PairLike = Pair | tuple[str | Sequence[str], str | Sequence[str]]
"""A pair, or its source and target: strings, whose words are between spaces, or sequences of words."""


def number_pairs(pairs: Iterable[PairLike]) -> Iterator[Pair]:
    """Yield pairs; a source and a target become a pair with their number."""
    for number, pair in enumerate(pairs, 1):
        if isinstance(pair, Pair):
            yield pair
        elif _in_order(pair) and len(pair) == 2:
            source, target = pair
            source = words_of(source, f"the source of pair {number}")
            target = words_of(target, f"the target of pair {number}")
            yield Pair(source, target, number)
        else:
            kind = ValueError if _in_order(pair) else TypeError
            raise kind(f"pair {number} is {shorten(repr(pair))}, not a source and a target")


def _in_order(value: object) -> bool:
    """Tell whether a value is a list, a tuple, an array or the like, and not text."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Mapping | Set)


def words_of(sentence: str | Sequence[str], name: str) -> tuple[str, ...]:
    """Return the words of a sentence, given as a string or as a sequence of words."""
    if isinstance(sentence, str):
        return split_words(sentence)
    if not _in_order(sentence):
        raise TypeError(f"{name} is {shorten(repr(sentence))}, not a string or a sequence of words")
    for word in sentence:
        if not isinstance(word, str):
            raise TypeError(f"{name}: {shorten(repr(word))} is not a word: words are strings")
        if split_words(word) != (word,):
            raise ValueError(
                f"{name}: {shorten(repr(word))} is not a word: words are not empty and have no space or TAB in them"
            )
    return tuple(sentence)


WordOf = tuple[int | None, ...]  # the word of each id, from 0; None for special pieces


@dataclass(frozen=True, slots=True)
class IdPair(Pair):
    """A pair given as ids; `IdPair.of` makes one.

    Its words are the ids of their pieces joined by commas, and "-" for a word without a piece.

    Attributes:
        source_ids: as the encoder reads them, special pieces and padding included.
        target_ids: as `generate` returns them, or without the special pieces around the translation.
        source_words: word of each source id; None where each id is a separate word.
        target_words: word of each target id, or None.
        others: the same words as ids of the further models of an aligner, in its order; of a reverse model swapped.
    """

    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    source_words: WordOf | None
    target_words: WordOf | None
    others: tuple[IdPair, ...] = ()

    @classmethod
    def of(
        cls,
        source_ids: Iterable[int],
        target_ids: Iterable[int],
        source_words: Iterable[int | None] | None = None,
        target_words: Iterable[int | None] | None = None,
        id: int = 1,
    ) -> IdPair:
        """Return a pair of lists, or of tensors and arrays of one dimension.

        Args:
            source_ids: S ids.
            target_ids: T ids.
            source_words: word of each source id, from 0, None for special pieces, as `word_ids()` of a tokenizer of
                transformers returns. Without it links count the ids, and special pieces have no link.
            target_words: word of each target id, or None.
            id: number of the pair, for messages.

        Raises:
            TypeError: an id or a word is not an integer.
            ValueError: a negative number, or not as many words as ids.
        """
        ids = _numbers(source_ids, "source_ids"), _numbers(target_ids, "target_ids")
        words = _words_of(source_words, ids[0], "source_words"), _words_of(target_words, ids[1], "target_words")
        return cls(_spelt(ids[0], words[0]), _spelt(ids[1], words[1]), id, *ids, *words)


def _numbers(ids: Iterable[int], name: str) -> tuple[int, ...]:
    values = ids.tolist() if hasattr(ids, "tolist") else ids
    numbers = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else None
    if numbers is None or not all(isinstance(n, int) for n in numbers):
        raise TypeError(f"{name} is {shorten(repr(ids))}, not a list of whole numbers")
    if min(numbers, default=0) < 0:
        raise ValueError(f"{name} has {min(numbers)}; ids are numbers from 0")
    return numbers


def _words_of(words: Iterable[int | None] | None, ids: Sequence[int], name: str) -> WordOf | None:
    if words is None:
        return None
    items = tuple(words)
    _numbers([word for word in items if word is not None], name)
    if len(items) != len(ids):
        raise ValueError(f"{name} has {len(items):,} items for {len(ids):,} ids")
    return items


def _spelt(ids: Sequence[int], words: WordOf | None) -> tuple[str, ...]:
    if words is None:
        return tuple(map(str, ids))
    spelt: list[list[str]] = [[] for _ in range(max((word for word in words if word is not None), default=-1) + 1)]
    for n, word in zip(ids, words, strict=True):
        if word is not None:
            spelt[word].append(str(n))
    return tuple(",".join(parts) or "-" for parts in spelt)
