"""Read and write sentences in columns, one word per line and a blank line after each sentence: CoNLL and CoNLL-U."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import tee
from typing import NamedTuple

from align.core.errors import LineError, show_value
from align.core.text import split_words
from align.core.types import Pair
from align.io.reader import in_step
from align.transfer.labels import OUT, Span, best_sources, project_labels, read_bio, write_bio
from align.transfer.lines import Links, Placed
from align.transfer.markup import UNLINKED, Placement
from align.transfer.tags import find_words, words_in
from align.transfer.windows import Scores

COLUMNS = ("bio", "words", "conll")
"""Kinds of files: the first column has the word and the last its label, of a span or of one word; or CoNLL-U."""

ENTITY = "NER"  # key of the labels of spans in the last column of CoNLL-U; in either case, as all keys there
MISC = "MISC:"  # prefix of another key there, whose labels are of single words

_COLUMNS = {"LEMMA": 2, "UPOS": 3, "XPOS": 4, "FEATS": 5, "DEPREL": 7}
"""Columns of CoNLL-U that have a label of each word; the others have the word, or numbers of words."""

NONE = "_"  # a word without a label, where each word has its own

_COMMENT = re.compile(r"#[ ]*(?:id\b|\w+[ ]*=)[^\t]*$")
_TEXT = re.compile(r"#[ \t]*text[ \t]*=[ \t]*(.*)")


class Labelled(NamedTuple):
    """A sentence; of CoNLL-U, with the comments before it."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    comments: tuple[str, ...] = ()


def read_column(name: str) -> str:
    """Return the standard form of a column's name: `UPOS`, `NER`, `MISC:Gloss`."""
    if name.upper() in (*_COLUMNS, ENTITY):
        return name.upper()
    if not re.fullmatch(rf"{MISC}[^\s=|]+", name, re.IGNORECASE):
        known = f"{', '.join(_COLUMNS)}, {ENTITY} or {MISC}KEY"
        raise ValueError(f"{name!r} is not a column with labels: {known}")
    return MISC + name[len(MISC) :]


def has_spans(kind: str, column: str) -> bool:
    """Tell whether labels are of spans, as in `B-PER I-PER O`, not one for each word."""
    return kind == "bio" or (kind == "conll" and column == ENTITY)


def _read_row(line: str, kind: str, column: str) -> tuple[str, str] | None:
    """Return a word and its label; None for a multi-word token of CoNLL-U and an empty node."""
    if kind != "conll":  # TABs separate the columns, or spaces if there are none
        fields = [field.strip(" ") for field in line.split("\t")] if "\t" in line else split_words(line)
        if len(fields) < 2 or not fields[0]:
            raise ValueError("no word and label with a space or TAB between")
        return fields[0].replace(" ", "\xa0"), fields[-1]
    fields = line.split("\t")
    if len(fields) != 10:
        raise ValueError(f"{len(fields)} columns between TABs, where CoNLL-U has 10")
    if re.fullmatch(r"[0-9]+[-.][0-9]+", fields[0]):
        return None
    if not fields[0].isdigit():
        raise ValueError(f"{show_value(fields[0])} is not a number, nor one of several words or of an empty node")
    if column in _COLUMNS:
        label = fields[_COLUMNS[column]] or NONE
    else:
        key = f"{column.removeprefix(MISC)}=".lower()
        labels = [part[len(key) :] for part in fields[9].split("|") if part.lower().startswith(key)]
        label = (*labels, OUT if column == ENTITY else NONE)[0]
    return fields[1].replace(" ", "\xa0"), label


def read_labelled(lines: Iterable[str], name: str, kind: str, column: str = ENTITY) -> Iterator[Labelled]:
    """Read the sentences of a file in columns; two blank lines have a sentence without words between them.

    Except in CoNLL-U, lines that begin with # before the first word of a sentence are comments, and skipped.

    Args:
        kind: one of COLUMNS.
        column: column of CoNLL-U, as `read_column` returns it.

    Raises:
        LineError: a line is no word with its label.
    """
    spans = has_spans(kind, column)
    other = 'tags="words"' if kind == "bio" else 'column="MISC:NER"'
    rows: list[tuple[str, str]] = []
    comments: list[str] = []
    begun, number = False, 0
    for number, line in enumerate(lines, 1):
        if not line.strip(" \t"):
            yield _sentence(rows, comments, kind, name, number)
            rows, comments, begun = [], [], False
            continue
        begun = True
        may_be_comment = line.startswith("#") and (kind == "conll" or not rows)
        if may_be_comment and (kind == "conll" or _COMMENT.match(line)):
            comments += [line] if kind == "conll" else []
            continue
        hint = ""
        try:
            row = _read_row(line, kind, column)
            if row and spans:
                hint = f"for one label per word, such as its part of speech, use ‹{other}›"
                read_bio([row[1]])
            rows += [row] if row else []
        except ValueError as error:
            if not may_be_comment:
                raise LineError(str(error), "wrong fields", file=name, line=number, hint=hint) from None
    if begun:
        yield _sentence(rows, comments, kind, name, number)


def _sentence(rows: list[tuple[str, str]], comments: list[str], kind: str, name: str, line: int) -> Labelled:
    """Return the sentence that ends at a line."""
    words = [word for word, _ in rows]
    first = int(words[:1] == ["1"])
    if kind != "conll" and len(words) > 1 and words == [*map(str, range(first, first + len(words)))]:
        message = "the first column of the sentence that ends here is a running number, not the word"
        raise LineError(message, "wrong fields", file=name, line=line, hint="`cut -f 2-` removes the numbers")
    return Labelled(tuple(words), tuple(label for _, label in rows), tuple(comments))


def pair_sentences(
    sentences: Iterable[Labelled], targets: Iterable[str], names: tuple[str, str]
) -> Iterator[tuple[Labelled, str]]:
    """Pair sentences with their translations.

    A sentence without words pairs with a blank line; if the next line is not blank, the sentence is skipped.
    """
    lines, ahead = tee(targets)

    def paired() -> Iterator[Labelled]:
        line: str | None = None  # the next one, if it is known
        for sentence in sentences:
            line = next(ahead, "-") if line is None else line
            if sentence.words or not line.strip(" \t"):
                yield sentence
                line = None

    return in_step((paired(), lines), names)


def format_labelled(sentence: Labelled, kind: str, column: str = ENTITY) -> str:
    """Return the lines of a sentence, each with its end, and the blank line after them.

    In CoNLL-U, the sentence's comments are those of its source: `# text` becomes `# source_text`, and the words are the
    new text.
    """
    rows = list(zip(sentence.words, sentence.labels, strict=True))
    if kind != "conll":
        return "".join((*(f"{word}\t{label}\n" for word, label in rows), "\n"))
    lines = []
    for comment in sentence.comments if rows else ():
        if match := _TEXT.fullmatch(comment):
            lines += [f"# text = {' '.join(sentence.words)}", f"# source_text = {match[1]}"]
        else:
            lines.append(comment)
    for n, (word, label) in enumerate(rows, 1):
        fields = [str(n), word, *[NONE] * 8]
        if column in _COLUMNS:
            fields[_COLUMNS[column]] = label
        elif label != (OUT if column == ENTITY else NONE):
            fields[9] = f"{column.removeprefix(MISC)}={label}"
        lines.append("\t".join(fields))
    return "".join(f"{line}\n" for line in (*lines, ""))


class LabelledLine(NamedTuple):
    """A sentence in columns and its translation; see `align.transfer.lines.Line`.

    Attributes:
        kind: one of COLUMNS.
        least: scores up to this do not give a label to a single word.
    """

    sentence: Labelled
    pair: Pair
    kind: str
    column: str
    least: float

    @property
    def plain(self) -> str:
        """Return the source without its labels."""
        return " ".join(self.sentence.words)

    def divided(self, pair: Pair, scores: Links) -> tuple[LabelledLine, Links]:
        """Return the line in the words of a pair, with their scores; those of the columns stay."""
        starts = [start for start, _ in words_in(self.plain)]
        numbers = [bisect_right(starts, start) - 1 for start, _ in find_words(pair.source, self.plain, False)]
        joined: dict[tuple[int, int], float] = {}
        for (i, j), score in scores.items():
            joined[numbers[i], j] = max(score, joined.get((numbers[i], j), 0.0))
        return self._replace(pair=replace(pair, source=self.sentence.words)), joined

    def place(self, scores: Links) -> Placed:
        """Return the target with the labels of the source."""
        own, words = self.sentence.labels, self.pair.target
        if has_spans(self.kind, self.column):
            found = project_labels(read_bio(own), scores, len(own), len(words))
            labels = write_bio([Span(one.label, one.target) for one in found if one.target], len(words))
            report = [one.placement() for one in found]
        else:  # a label for each word, that of its best source word
            table = Scores(scores, len(own), len(words))
            best = best_sources(table, self.least)
            labels = [NONE if i is None else own[i] for i in best]
            report = []
            for i, label in enumerate(own):
                windows = tuple((j, j + 1) for j, source in enumerate(best) if source == i)
                if label != NONE:
                    confidence = table.confidence((i, i + 1), windows)
                    report.append(Placement(label, (i, i + 1), windows, confidence, () if windows else (UNLINKED,)))
        translation = Labelled(words, tuple(labels), self.sentence.comments)
        text = format_labelled(translation, self.kind, self.column).removesuffix("\n")
        return Placed(text, report, self.plain)
