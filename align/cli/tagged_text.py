"""The input of `extract-align transfer`, line by line, and its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from align.cli.common import Progress
from align.cli.documents import Reports
from align.cli.transfer_args import Options
from align.core.errors import DataError, LineError, LinksError, plural
from align.core.text import LinePair, split_words
from align.core.types import THRESHOLD, Pair
from align.evaluation.link_formats import check_range, parse_scored
from align.io.reader import BadLines, in_step, name_shown, open_lines, read_bitext, read_lines, refuse_numbers
from align.models.divide import split_words_at
from align.transfer.columns import COLUMNS, LabelledLine, pair_sentences, read_labelled
from align.transfer.lines import Links, Placed, TaggedLine, read_tagged
from align.transfer.markup import PART, REPEATED
from align.transfer.pages import KEEP, Page
from align.transfer.segments import Document, Segment
from align.transfer.spans import Annotated, read_annotated
from align.transfer.tags import LOOKALIKES, Syntax, count_lookalikes

if TYPE_CHECKING:
    from align.transfer.standins import TranslatedPage

T = TypeVar("T")

Line = TaggedLine | LabelledLine | Annotated
"""A line with tags or labels, and its translation: the words for a model and, given scores, the target."""

REMARKS = {"extra": "in the target only", "removed": "removed", "rewritten": "rewritten", "unrepaired": "not repaired"}
"""Remarks on tags and placeholders of the target that are not as in the source, by their names in the report."""


class TaggedText:
    """The lines of the input, in order, with their links where these are given; iterators of it are to be closed."""

    def __init__(self, options: Options) -> None:
        self._options, self._tags = options, options.tags
        self._shown = [name_shown(name) for name in options.files]
        self.name = " and ".join(self._shown)
        self.bad = BadLines(options.blank, drop=not options.tags.html_file)  # lines unreadable or blank
        self.page = self._read_page() if options.tags.html_file else None  # the whole page, if it is one
        self._column = ""  # of a file in columns
        if options.tags.tags in COLUMNS:
            self._column = options.tags.column if options.tags.tags == "conll" else options.tags.tags

    def pages(self) -> Generator[tuple[int, Page], None, None]:
        """Read what is to be translated, with tags: a whole page, or lines with their numbers."""
        with ExitStack() as stack:
            yield from [(1, self.page)] if self.page else enumerate(self._items(stack, self._page), 1)

    def lines(self) -> Generator[tuple[Line, Links], None, None]:
        """Read lines with their links, which are empty if a model is to align."""
        links, words = self._tags.links, self._options.words
        with ExitStack() as stack:
            items = self._items(stack, self._line)
            if links is None:
                yield from ((item, {}) for item in items)
                return
            shown = name_shown(links)
            lines = read_lines(stack.enter_context(open_lines(links)), shown)
            for item, line in in_step((items, lines), (self._shown[-1], shown)):
                pair = item.pair
                if pair.blank and self.bad.blank:
                    yield item, {}
                    continue
                if words != "spaces":
                    source, target = (split_words_at(side, words) for side in (pair.source, pair.target))
                    pair = replace(pair, source=source, target=target)
                try:
                    scores = parse_scored(line)
                except ValueError as error:
                    raise LinksError(str(error), file=shown, line=pair.id) from None
                check_range(scores, pair, shown, pair.id, " without the tags")
                yield (item, scores) if pair is item.pair else item.divided(pair, scores)

    def document(self) -> Document:
        """Read the lines as segments."""
        tags: str | Syntax = self._options.syntax or ""
        with ExitStack() as stack:
            rows = self._items(stack, lambda *row: row)
            segments = [Segment(a, b or (None if a else ""), n, (n, 0), (0, 0), tags=tags) for a, b, n in rows]
        self.bad.warn()
        return Document(segments, "", str.encode)

    def skip(self, number: int, why: str) -> None:
        """Note that a line cannot be read, or is too long for the model."""
        self.bad(LineError(why, file=self._shown[0], line=number))
        self.bad.take()

    def without_links(self, item: Line, why: str) -> Line:
        """Return the result of a line that the model could not take: a blank line, or words without labels."""
        self.skip(item.pair.id, why)
        return item if self._options.syntax is None else self._line("", "", item.pair.id)

    def _items(self, stack: ExitStack, make: Callable[[Any, Any, int], T]) -> Iterator[T]:
        """Make an item of each line of the input; of a blank one in the place of one that cannot be read."""
        for number, (source, target) in enumerate(self._rows(stack), 1):
            if self.page and not (self._tags.strip or target.strip(" \t")):
                self.bad(LineError("the translation of a block is blank", file=self._shown[1], line=number))
            try:
                item = make(source, target, number)
            except ValueError as error:
                bad = LineError(str(error), file=self._shown[0], line=number)
                if self._options.syntax is None:
                    raise bad from None
                self.bad(bad)
                item = make("", "", number)
            self.bad.take()
            yield item

    def _rows(self, stack: ExitStack) -> Iterator[tuple[Any, ...]]:
        """Return the sources and targets, from files that the stack closes."""
        files = list(zip(self._options.files, self._shown, strict=True))[bool(self.page) :]
        lines = [read_lines(stack.enter_context(open_lines(name)), shown, self.bad) for name, shown in files]
        names = self._shown
        if self.page:
            lines.insert(0, (segment.text for segment in self.page.segments))
            names = [f"{names[0]} (blocks, as --strip writes them)", *names[1:]]
        if self._column:
            sentences = read_labelled(lines[0], names[0], self._column)
            targets = (line for (line,) in refuse_numbers(zip(lines[1], strict=True), names[1:]))
            return pair_sentences(sentences, targets, (f"{names[0]} (sentences)", names[1]))
        if len(lines) == 2:
            return refuse_numbers(in_step(lines, names), names)
        if self._options.syntax is None:
            return ((line, None) for line in lines[0])
        if self._options.one_side:
            return ((line, "") for (line,) in refuse_numbers(zip(lines[0], strict=True), names))
        rows = read_bitext(lines[0], self.name, on_bad=self.bad, make=LinePair.of)
        sides = map(attrgetter("source_line", "target_line"), rows)
        return ((source.strip(" \t"), target.strip(" \t")) for source, target in sides)

    def _line(self, source: Any, target: Any, number: int) -> Line:
        """Return a line; a ValueError says why its tags or labels cannot be read."""
        tags, syntax = self._tags, self._options.syntax
        if self._column:
            pair = Pair(source.words, split_words(target), number)
            return LabelledLine(source, pair, self._column, 0.0 if tags.links else THRESHOLD)
        if syntax is None:
            return read_annotated(source, "" if self._options.one_side else target, number)
        as_words = tags.links is None and not tags.strip  # a model reads them
        how = {"split": tags.split, "repair": tags.repair}
        return read_tagged(source, target, syntax, number, as_words=as_words, **how)

    def _page(self, text: str, _: object = None, line: int = 1) -> Page:
        """Return a text with tags, in segments."""
        syntax = self._options.syntax or "html"
        return Page(text, syntax, keep=self._tags.keep or KEEP, translated=self._tags.attributes, line=line)

    def _read_page(self) -> Page:
        """Read a whole page."""
        with open_lines(self._options.files[0]) as stream:
            data = stream.read()
        try:
            return self._page(data.decode())
        except UnicodeDecodeError as error:
            line, hint = data.count(b"\n", 0, error.start) + 1, "save it as UTF-8, in an editor or with iconv"
            raise LineError("the page is not UTF-8", file=self._shown[0], line=line, hint=hint) from None
        except ValueError as error:
            raise DataError(str(error), file=self._shown[0]) from None


class Results:
    """Writes targets with their tags, and counts what is odd."""

    def __init__(self, options: Options, files: Sequence[Any], reports: Reports, progress: Progress) -> None:
        (self._out, self._kept), self._options, self._reports, self._progress = files, options, reports, progress
        self._counts: Counter[str] = Counter()
        self.count = 0  # lines so far
        self.texts: list[str] = []  # the targets of a page's blocks, which are written together

    def write(self, item: Line, scores: Links, bad: bool = False) -> None:
        """Write a target with the tags of its source, or the source without its tags."""
        if self._options.tags.strip:
            self._write_line(item.pair.id, item.plain)
            self.count += 1
            return
        placed = item.place(scores)
        if self._options.tags.html_file:
            self.texts.append(placed.text)
        else:
            bad = bad or (isinstance(item, Annotated) and not item.target.strip())
            self._write_line(item.pair.id, placed.text, bad)
        self._add(item.pair.id, placed)

    def _write_line(self, number: int, text: str, bad: bool = False) -> None:
        """Write a line, unless it is to be dropped."""
        if self._kept and (bad or not text.strip(" \t")):
            self._counts["dropped"] += 1
        else:
            self._out.write(f"{text}\n".encode())
            if self._kept:
                self._kept.write(f"{number}\n".encode())

    def write_page(self, text: TaggedText, line: int, translation: TranslatedPage) -> None:
        """Write a translated line, or a whole page."""
        if translation.skipped:
            text.skip(line, translation.skipped)
        segments, content = translation.page.segments, "" if translation.skipped else translation.text
        self._counts[LOOKALIKES] += sum(count_lookalikes(segment.tokens) for segment in segments)
        if text.page is None:
            self._write_line(line, content)
            report = [placement for placements in translation.report for placement in placements]
            self._add(line, Placed(content, report, " ".join(segment.text for segment in segments)))
            return
        self._out.write(content.encode())
        done = zip(translation.texts, translation.report, segments, strict=not translation.skipped)
        for number, (target, placements, segment) in enumerate(done, 1):
            self._add(number, Placed(target, placements, segment.text))
        self._progress.add(len(translation.report) - 1)

    def _add(self, number: int, placed: Placed) -> None:
        """Count the tags of a line, and list them."""
        rows = [placement.to_dict() for placement in placed.report]
        lists = {name: [*texts] for name, texts in placed.lists.items() if texts}
        failed = REMARKS["unrepaired"] if "unrepaired" in lists else None
        doubts = [{"confidence": PART, "remarks": [REPEATED]}] if placed.unsure else []
        record = {"id": number, "tags": rows} | lists
        self._reports.add(record, (placed.source, placed.text), failed=failed, doubts=doubts)
        self._counts.update({REMARKS[name]: len(texts) for name, texts in lists.items()})
        self._counts[LOOKALIKES] += count_lookalikes(placed.tokens)
        self._counts["tag"] += len(rows)
        self._counts.update(remark for row in rows for remark in row["remarks"])
        self.count += 1
        if self.count % self._options.request.run.buffer == 0:
            self._out.flush()

    def summary(self) -> str:
        """Return the numbers of lines and tags, and of anything unusual."""
        remarks = sorted((remark, count) for remark, count in self._counts.items() if count and remark != "tag")
        odd = "".join(f", {count:,} {remark}" for remark, count in remarks)
        tags = "" if self._options.tags.strip else f", {plural(self._counts['tag'], 'tag')}{odd}"
        return f"{plural(self.count, 'line')}{tags}, {self._progress.speed}"
