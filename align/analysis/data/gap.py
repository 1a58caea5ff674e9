"""GAP: paragraphs with a pronoun and two names, at most one of which the pronoun refers to (Webster et al. 2018)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, islice, pairwise
from typing import NamedTuple
from urllib.parse import unquote

from align.core.errors import DataError, LineError, shorten, show_value
from align.core.text import find_spans, split_words
from align.core.types import Pair, Span
from align.io.reader import open_lines, read_lines

COLUMNS = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"]

RIGHT = {("TRUE", "FALSE"): 0, ("FALSE", "TRUE"): 1, ("FALSE", "FALSE"): None}
"""The candidate that a pronoun refers to, by A-coref and B-coref."""

FEMININE, MASCULINE = "feminine", "masculine"
GENDERS = {
    **dict.fromkeys(("she", "her", "hers"), FEMININE),
    **dict.fromkeys(("he", "his", "him"), MASCULINE),
}


class Paragraph(NamedTuple):
    """A paragraph, split into words at spaces and at both ends of each mention."""

    words: tuple[str, ...]  # the words of the paragraph
    pronoun: Span  # begin and end of the pronoun, in words
    candidates: tuple[Span, Span]  # begin and end of A and of B, in words
    right: int | None  # the candidate that the pronoun refers to, 0 or 1; None for neither
    gender: str  # gender of the pronoun
    title: frozenset[str]  # words of the title of the paragraph's page
    line: int  # line number in the file

    def window(self, limit: int) -> Paragraph:
        """Return the paragraph cut to the mentions and at most `limit` words around them."""
        mentions = (self.pronoun, *self.candidates)
        first, last = min(begin for begin, _ in mentions), max(end for _, end in mentions)
        after = min(len(self.words) - last, max(limit // 2, limit - first))
        begin = max(0, first - (limit - after))

        def moved(span: Span) -> Span:
            return span[0] - begin, span[1] - begin

        a, b = self.candidates
        words = self.words[begin : last + after]
        return self._replace(words=words, pronoun=moved(self.pronoun), candidates=(moved(a), moved(b)))

    def pair(self) -> Pair:
        """Return the input of an encoder."""
        return Pair(self.words, (), self.line)


def cut_words(text: str, spans: Sequence[Span]) -> tuple[tuple[str, ...], list[Span]]:
    """Split a text at spaces and at both ends of each span; return the words, and the spans in words."""
    ends = sorted({0, len(text), *(place for span in spans for place in span)})
    words: list[str] = []
    begins: list[int] = []
    for begin, end in pairwise(ends):
        part = text[begin:end]
        cut = split_words(part)
        words += cut
        begins += [begin + start for start, _ in find_spans(cut, part)]
    word_spans = []
    for begin, end in spans:
        inside = [n for n, start in enumerate(begins) if begin <= start < end]
        if not inside:
            raise ValueError(f"no word at characters {begin} to {end}")
        word_spans.append((inside[0], inside[-1] + 1))
    return tuple(words), word_spans


def read_paragraphs(file: str, limit: int | None = None) -> list[Paragraph]:
    """Read the paragraphs of a file."""
    paragraphs = []
    with open_lines(file) as stream:
        for number, line in enumerate(islice(read_lines(stream, file), limit and limit + 1), 1):
            fields = line.split("\t")
            try:
                if number > 1:
                    paragraphs.append(_paragraph(fields, number))
                elif fields != COLUMNS:
                    raise ValueError(f"expected the header {' '.join(COLUMNS)}, separated by TABs")
            except ValueError as error:
                raise LineError(str(error), file=file, line=number) from None
    if not paragraphs:
        raise DataError("no paragraph", file=file)
    return paragraphs


def _paragraph(fields: Sequence[str], number: int) -> Paragraph:
    if len(fields) != len(COLUMNS):
        raise ValueError(f"{len(fields)} TAB-separated columns, but GAP has {len(COLUMNS)}")
    row = dict(zip(COLUMNS, fields, strict=True))
    text, spans = row["Text"], []  # begin and end of the mentions in characters
    for name in ("Pronoun", "A", "B"):
        mention, offset = row[name], row[f"{name}-offset"]
        begin = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
        if begin < 0 or not mention.strip(" ") or text[begin : begin + len(mention)] != mention:
            raise ValueError(f"{shorten(mention)!r} does not stand at character {shorten(offset, 40)} of the text")
        spans.append((begin, begin + len(mention)))
    if any(a[0] < b[1] and b[0] < a[1] for a, b in combinations(spans, 2)):
        raise ValueError("two mentions overlap")
    right = row["A-coref"], row["B-coref"]
    if right not in RIGHT:
        raise ValueError(
            f"expected A-coref and B-coref TRUE or FALSE, one TRUE at most; got {shorten(' '.join(right), 40)}"
        )
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        raise ValueError(f"{show_value(row['Pronoun'])} is not one of {', '.join(GENDERS)}")
    words, (pronoun, a, b) = cut_words(text, spans)
    title = unquote(row["URL"].rpartition("/")[2]).replace("_", " ").split(" ")
    return Paragraph(words, pronoun, (a, b), RIGHT[right], gender, frozenset(title) - {""}, number)
