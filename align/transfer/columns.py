"""Read and write sentences in columns, one word per line and a blank line after each sentence: CoNLL and CoNLL-U."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, repeat, tee
from typing import NamedTuple

from align.core.errors import LineError, plural, show_value
from align.core.text import split_words
from align.core.types import Pair
from align.io.reader import in_step
from align.transfer.labels import OUT, project_labels, project_words, read_bio, write_bio
from align.transfer.lines import Links, Placed
from align.transfer.tags import find_words, words_in
from align.transfer.windows import Scores

COLUMNS = ("bio", "words", "conll")
"""Kinds of files: the first column has the word and the last its label, of a span or of one word; or CoNLL-U."""

ENTITY = "NER"  # key of the labels of spans in the last column of CoNLL-U; in either case, as all keys there
MISC = "MISC:"  # prefix of another key there, whose labels are of single words
_PLACES = {"LEMMA": 2, "UPOS": 3, "XPOS": 4, "FEATS": 5, "DEPREL": 7}
"""Columns of CoNLL-U that have a label of each word; the others have the word, or numbers of words."""

_OF_SPANS = ("bio", ENTITY)  # columns whose labels are of spans, as in `B-PER I-PER O`, not one for each word
NONE = "_"  # a word without a label, where each word has its own

_COMMENT = re.compile(r"#[ ]*(?:id\b|\w+[ ]*=)[^\t]*$")
_TEXT = re.compile(r"#[ \t]*text[ \t]*=[ \t]*(.*)")


class Labelled(NamedTuple):
    """A sentence; of CoNLL-U, with the comments before it."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    comments: tuple[str, ...] = ()


def read_column(name: str) -> str:
    """Return the standard form of the name of a column of CoNLL-U: `UPOS`, `NER`, `MISC:Gloss`."""
    if name.upper() in (*_PLACES, ENTITY):
        return name.upper()
    if not re.fullmatch(rf"{MISC}[^\s=|]+", name, re.IGNORECASE):
        known = f"{', '.join(_PLACES)}, {ENTITY} or {MISC}KEY"
        raise ValueError(f"{name!r} is not a column with labels: {known}")
    return MISC + name[len(MISC) :]


def _read_row(line: str, column: str) -> tuple[str, str] | None:
    """Return a word and its label; None for a multi-word token of CoNLL-U and an empty node."""
    if column in COLUMNS:  # TABs separate the columns, or spaces if there are none
        fields = [field.strip(" ") for field in line.split("\t")] if "\t" in line else split_words(line)
        if len(fields) < 2 or not fields[0]:
            raise ValueError("expected a word and a label, separated by a space or TAB")
        return fields[0].replace(" ", "\xa0"), fields[-1]
    fields = line.split("\t")
    number = re.fullmatch(r"[0-9]+([-.][0-9]+)?", fields[0])
    if len(fields) != 10 or not number:
        found = f"{plural(len(fields), 'column')}, the first one {show_value(fields[0])}"
        raise ValueError(f"expected 10 TAB-separated columns, as in CoNLL-U, with a number in the first; got {found}")
    if column in _PLACES:
        label = fields[_PLACES[column]] or NONE
    else:
        key = f"{column.removeprefix(MISC)}=".lower()
        labels = [part[len(key) :] for part in fields[9].split("|") if part.lower().startswith(key)]
        label = (*labels, OUT if column == ENTITY else NONE)[0]
    return None if number[1] else (fields[1].replace(" ", "\xa0"), label)


def read_labelled(lines: Iterable[str], name: str, column: str) -> Iterator[Labelled]:
    """Read the sentences of a file in columns; two blank lines have a sentence without words between them.

    Except in CoNLL-U, lines that begin with # before the first word of a sentence are comments, and skipped.

    Args:
        column: "bio" or "words" for labels in the last column; or one of CoNLL-U; see `read_column`.

    Raises:
        LineError: a line is no word with its label.
    """
    before = 0  # whether a sentence came before, which the next blank line ends
    for is_blank, group in groupby(enumerate(lines, 1), lambda row: not row[1].strip(" \t")):
        if is_blank:
            yield from [Labelled((), ())] * (len(list(group)) - before)
        else:
            yield _read_sentence(list(group), name, column)
            before = 1


def _read_sentence(lines: Sequence[tuple[int, str]], name: str, column: str) -> Labelled:
    """Return a sentence of numbered lines."""
    is_conll = column not in COLUMNS
    rows: list[tuple[str, str]] = []
    comments = tuple(line for _, line in lines if is_conll and line.startswith("#"))
    for number, line in lines:
        may_be_comment = line.startswith("#") and (is_conll or not rows)
        hint = ""
        try:
            row = None if may_be_comment and (is_conll or _COMMENT.match(line)) else _read_row(line, column)
            if row and column in _OF_SPANS:
                other = 'column="MISC:NER"' if is_conll else 'tags="words"'
                hint = f"for one label per word, such as its part of speech, use ‹{other}›"
                read_bio([row[1]])
            rows += [row] if row else []
        except ValueError as error:
            if not may_be_comment:
                raise LineError(str(error), file=name, line=number, hint=hint) from None
    words = [word for word, _ in rows]
    if not is_conll and len(words) > 1 and words in [[*map(str, range(n, n + len(words)))] for n in (0, 1)]:
        message = "the first column of the sentence that ends here is a running number, not the word"
        raise LineError(message, file=name, line=number, hint="`cut -f 2-` removes the numbers")
    return Labelled(tuple(words), tuple(label for _, label in rows), comments)


def pair_sentences(
    sentences: Iterable[Labelled], targets: Iterable[str], names: tuple[str, str]
) -> Iterator[tuple[Labelled, str]]:
    """Pair sentences with their translations.

    A sentence without words pairs with a blank line; if the next line is not blank, the sentence is skipped.
    """
    lines, copies = tee(targets)
    ahead, left = chain(copies, repeat("-")), iter(sentences)

    def next_sentence() -> Labelled | None:
        is_blank = not next(ahead).strip(" \t")
        return next((sentence for sentence in left if sentence.words or is_blank), None)

    return in_step((iter(next_sentence, None), lines), names)


def format_labelled(sentence: Labelled, column: str) -> str:
    """Return the lines of a sentence, each with its end, and the blank line after them.

    In CoNLL-U, the sentence's comments are those of its source: `# text` becomes `# source_text`, and the words are the
    new text.
    """
    lines: list[str] = []
    for comment in sentence.comments if sentence.words else ():
        match = _TEXT.fullmatch(comment)
        text = f"# text = {' '.join(sentence.words)}"
        lines += [text, f"# source_text = {match[1]}"] if match else [comment]
    for n, (word, label) in enumerate(zip(sentence.words, sentence.labels, strict=True), 1):
        fields = [str(n), word, *[NONE] * 8]
        if column in COLUMNS:
            fields = [word, label]
        elif column in _PLACES:
            fields[_PLACES[column]] = label
        elif label != (OUT if column == ENTITY else NONE):
            fields[9] = f"{column.removeprefix(MISC)}={label}"
        lines.append("\t".join(fields))
    return "".join(f"{line}\n" for line in (*lines, ""))


class LabelledLine(NamedTuple):
    """A sentence in columns and its translation, used as `align.transfer.lines.TaggedLine`."""

    sentence: Labelled
    pair: Pair
    column: str  # as in `read_labelled`
    least: float  # scores up to this do not give a label to a single word

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
        if self.column in _OF_SPANS:
            report = project_labels(read_bio(own), scores, len(own), len(words))
            labels = write_bio(report, len(words))
        else:
            report = project_words(own, Scores(scores, len(own), len(words)), self.least)
            report = [word for word in report if word.tag != NONE]
            labels = [NONE] * len(words)
            for word in report:
                for j, _ in word.target:
                    labels[j] = word.tag
        translation = Labelled(words, tuple(labels), self.sentence.comments)
        return Placed(format_labelled(translation, self.column).removesuffix("\n"), report, self.plain)
