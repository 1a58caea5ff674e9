"""GAP: paragraphs with a pronoun and two names, of which one, or neither, is who is meant (Webster et al. 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from align.core.errors import DataError, LineError, shorten, show_value
from align.core.text import find_spans, split_words
from align.core.types import Pair, Span
from align.io.reader import open_lines, read_lines

COLUMNS = ["ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"]

TRUTH = {"TRUE": True, "FALSE": False}

FEMININE, MASCULINE = "feminine", "masculine"
GENDERS = {
    **dict.fromkeys(("she", "her", "hers"), FEMININE),
    **dict.fromkeys(("he", "his", "him"), MASCULINE),
}


class Paragraph(NamedTuple):
    """A paragraph whose words are cut at spaces, and at both ends of each mention.

    Attributes:
        words: of it.
        pronoun: which of them it is: where it begins and ends, in words.
        candidates: A and B, likewise.
        right: which of them the pronoun means, 0 or 1; None for neither.
        gender: of the pronoun.
        title: words of the title of its page.
        line: its number in the file.
    """

    words: tuple[str, ...]
    pronoun: Span
    candidates: tuple[Span, Span]
    right: int | None
    gender: str
    title: frozenset[str]
    line: int

    def window(self, most: int) -> Paragraph:
        """What is left of it in so many words beside those from the first mention to the last, half of them on a side.

        Args:
            most: words before the first mention and behind the last together.
        """
        mentions = (self.pronoun, *self.candidates)
        first, last = min(begin for begin, _ in mentions), max(end for _, end in mentions)
        behind = min(len(self.words) - last, max(most // 2, most - first))
        begin = max(0, first - (most - behind))

        def moved(span: Span) -> Span:
            return span[0] - begin, span[1] - begin

        a, b = self.candidates
        words = self.words[begin : last + behind]
        return self._replace(words=words, pronoun=moved(self.pronoun), candidates=(moved(a), moved(b)))

    def pair(self) -> Pair:
        """What an encoder is given."""
        return Pair(self.words, (), self.line)


def cut_words(text: str, spans: Sequence[Span]) -> tuple[tuple[str, ...], list[Span]]:
    """The words of a text, cut at spaces and at both ends of each span, and where the spans are in words.

    Args:
        text: any.
        spans: in characters of it, without spaces at their ends.

    Raises:
        ValueError: a span holds no word.
    """
    ends = sorted({0, len(text), *(place for span in spans for place in span)})
    words: list[str] = []
    begins: list[int] = []
    for begin, end in pairwise(ends):
        part = text[begin:end]
        cut = split_words(part)
        words += cut
        begins += [begin + start for start, _ in find_spans(cut, part)]
    found = []
    for begin, end in spans:
        inside = [n for n, start in enumerate(begins) if begin <= start < end]
        if not inside:
            raise ValueError(f"no word at characters {begin} to {end}")
        found.append((inside[0], inside[-1] + 1))
    return tuple(words), found


def read_gap(lines: Iterable[str], name: str) -> Iterator[Paragraph]:
    """The paragraphs of a file.

    Args:
        lines: of the file, without their ends: the first names the columns.
        name: what to call it in errors.

    Raises:
        LineError: a line that is not as GAP has it; names the file and the line.
    """
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        try:
            if number == 1:
                if fields != COLUMNS:
                    raise ValueError(f"GAP's first line is {' '.join(COLUMNS)}, with TABs between")
            else:
                yield _paragraph(fields, number)
        except ValueError as error:
            raise LineError(str(error), file=name, line=number) from None


def read_paragraphs(file: str, most: int | None = None) -> list[Paragraph]:
    """The paragraphs of a file; see `read_gap`.

    Args:
        file: `.gz` and `.xz` are unpacked, `-` is stdin.
        most: so many at most; None for all.

    Raises:
        OSError: the file cannot be opened.
        DataError: it is not of GAP, or has no paragraph.
    """
    with open_lines(file) as stream:
        paragraphs = list(islice(read_gap(read_lines(stream, file), file), most))
    if not paragraphs:
        raise DataError("no paragraph", file=file)
    return paragraphs


def _paragraph(fields: Sequence[str], number: int) -> Paragraph:
    if len(fields) != len(COLUMNS):
        raise ValueError(f"{len(fields)} columns between TABs, where GAP has {len(COLUMNS)}")
    row = dict(zip(COLUMNS, fields, strict=True))
    spans = [_span(row["Text"], row[name], row[f"{name}-offset"]) for name in ("Pronoun", "A", "B")]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        if spans[one][0] < spans[other][1] and spans[other][0] < spans[one][1]:
            raise ValueError("two mentions overlap")
    for name in ("A-coref", "B-coref"):
        if row[name] not in TRUTH:
            raise ValueError(f"{name} is {show_value(row[name])}, neither TRUE nor FALSE")
    right = [TRUTH[row[f"{name}-coref"]] for name in "AB"]
    if all(right):
        raise ValueError("both A and B are said to be meant")
    gender = GENDERS.get(row["Pronoun"].lower())
    if gender is None:
        raise ValueError(f"{show_value(row['Pronoun'])} is none of {', '.join(GENDERS)}")
    words, (pronoun, a, b) = cut_words(row["Text"], spans)
    meant = right.index(True) if any(right) else None
    return Paragraph(words, pronoun, (a, b), meant, gender, _title(row["URL"]), number)


def _span(text: str, mention: str, offset: str) -> Span:
    """Where a mention stands in a text, in characters."""
    begin = int(offset) if re.fullmatch("[0-9]{1,9}", offset) else -1
    if begin < 0 or not mention.strip(" ") or text[begin : begin + len(mention)] != mention:
        raise ValueError(f"{shorten(mention)!r} does not stand at character {shorten(offset, 40)} of the text")
    return begin, begin + len(mention)


def _title(url: str) -> frozenset[str]:
    """The words of a page's title; none where the URL is none."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return frozenset()
    return frozenset(unquote(path.rpartition("/")[2]).replace("_", " ").split(" ")) - {""}
