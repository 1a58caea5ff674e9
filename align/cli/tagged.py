"""What `transfer-align` reads: pairs whose source has tags or labels, and links where they are given."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from align.cli.transfer_options import Options
from align.core.errors import LineError, LinksError, Remedy
from align.core.text import split_words
from align.core.types import Pair
from align.evaluation.scored import parse_scored
from align.io.reader import (
    KEEP_AS_SOURCE,
    BadLines,
    SideSplitter,
    in_step,
    name_shown,
    open_lines,
    read_lines,
    refuse_numbers,
)
from align.transfer.columns import COLUMNS, Labelled, pair_sentences, read_labelled
from align.transfer.spans import SPANS, TARGET, Annotated, read_annotated, split_text
from align.transfer.tree import Markup, read_markup, readable


class Tagged(NamedTuple):
    """A pair and its tags.

    Attributes:
        pair: the words of both sides, as a model is to read them.
        source: the source's markup or labels.
        target: the target as it was given.
        scores: of its links, where they are given.
    """

    pair: Pair
    source: Markup | Labelled | Annotated
    target: str
    scores: dict[tuple[int, int], float]


class TaggedText:
    """The pairs of the input, in order; to be closed.

    Args:
        options: what to read.

    Attributes:
        name: what messages call all of it.
        bad: the policy for lines that cannot be read, and those that became blank.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shown = [name_shown(name) for name in options.files]
        self.name = " and ".join(self._shown)
        self.bad = BadLines(options.models.too_long == "blank")

    def __iter__(self) -> Generator[Tagged, None, None]:
        """Read them.

        Raises:
            OSError: a file cannot be opened.
            DataError: files of different length, a line that cannot be read, or links that do not fit; names the file.
        """
        options = self._options
        spans = options.tags == SPANS
        with ExitStack() as stack:
            lines = [
                read_lines(stack.enter_context(open_lines(name)), shown, self.bad, json_lines=spans and n == 0)
                for n, (name, shown) in enumerate(zip(options.files, self._shown, strict=True))
            ]
            rows = self._sides(lines)
            if options.links is None:
                for number, (source, target) in enumerate(rows, 1):
                    yield self._make(source, target, number)
                return
            shown = name_shown(options.links)
            links = read_lines(stack.enter_context(open_lines(options.links)), shown)
            for number, ((source, target), line) in enumerate(in_step((rows, links), (self._shown[-1], shown)), 1):
                item = self._make(source, target, number)
                if item.pair.blank and self.bad.blank:
                    yield item
                    continue
                yield item._replace(scores=_read_scores(line, item.pair, shown, number))

    def _sides(self, lines: Sequence[Iterator[str]]) -> Iterator[tuple[Any, ...]]:
        """Yield source and target of each pair; the target is blank where there is none to read."""
        if self._options.tags in COLUMNS:
            sentences = read_labelled(lines[0], self._shown[0], self._options.tags)
            targets = (line for (line,) in refuse_numbers(zip(lines[1], strict=True), self._shown[1:]))
            return pair_sentences(sentences, targets, (f"{self._shown[0]} (sentences)", self._shown[1]))
        if len(lines) == 2:
            return refuse_numbers(in_step(lines, self._shown), self._shown)
        if self._options.tags == SPANS:
            return ((line, "") for line in lines[0])
        if self._options.one_side:
            return ((line, "") for (line,) in refuse_numbers(zip(lines[0], strict=True), self._shown))
        split = SideSplitter()
        rows = refuse_numbers(zip(lines[0], strict=True), self._shown, KEEP_AS_SOURCE)
        return (self._split(line, number, split) for number, (line,) in enumerate(rows, 1))

    def _split(self, line: str, number: int, split: SideSplitter) -> tuple[str, str]:
        """Split a line into its two sides."""
        try:
            source, target = split(line)
        except ValueError as error:
            self.bad(LineError(str(error), file=self.name, line=number))
            return "", ""
        return source.strip(" \t"), target.strip(" \t")

    def _make(self, source: str | Labelled, target: str, number: int) -> Tagged:
        """Return a pair with its tags; without words for a line that cannot be read, if the policy allows it."""
        if isinstance(source, Labelled):
            return Tagged(Pair(source.words, split_words(target), number), source, target, {})
        tags = self._options.tags
        if tags == SPANS:
            return self._annotated(source, target, number)
        try:
            markup = read_markup(source, tags)
        except ValueError as error:
            self.bad(LineError(str(error), file=self._shown[0], line=number))
            markup, target = read_markup("", tags), ""
        return Tagged(
            Pair(markup.readable(), readable(split_words(target), markup.escaped), number), markup, target, {}
        )

    def _annotated(self, line: str, target: str, number: int) -> Tagged:
        """Return a pair with labels of character ranges."""
        try:
            source = read_annotated(line)
            if len(self._shown) == 1 and not self._options.one_side:
                if source.target is None:
                    raise ValueError(f'no "{TARGET}" beside the text')
                target = source.target
        except ValueError as error:
            raise LineError(str(error), file=self._shown[0], line=number) from None
        return Tagged(Pair(source.words, split_text(target), number), source, target, {})

    def blank(self, item: Tagged, why: str) -> Tagged:
        """Return the result of a sentence that the model could not take: a blank line, or words without labels."""
        self.bad(LineError(why, file=self._shown[0], line=item.pair.id))
        return self._make("", "", item.pair.id) if isinstance(item.source, Markup) else item


def _read_scores(line: str, pair: Pair, name: str, number: int) -> dict[tuple[int, int], float]:
    """Read the links of a pair with their scores.

    Raises:
        LinksError: the line does not hold links, or has one to a word that the pair does not have.
    """
    try:
        scores = parse_scored(line)
    except ValueError as error:
        raise LinksError(str(error), file=name, line=number) from None
    sizes = len(pair.source), len(pair.target)
    if wrong := [link for link in scores if link[0] >= sizes[0] or link[1] >= sizes[1]]:
        what = f"link {wrong[0][0]}-{wrong[0][1]}, and there are {sizes[0]:,} and {sizes[1]:,} words without the tags"
        raise LinksError(what, file=name, line=number, remedy=Remedy("links count from 0, source first"))
    return scores
