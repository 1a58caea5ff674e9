"""`transfer-align`: tags and labels of source sentences in, their translations with them out, a line for a line."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from html import escape
from typing import Any, BinaryIO

from align.cli.common import Progress, open_output, run, show_warnings
from align.cli.directions import load_aligner, names_of, sign
from align.cli.options import BATCH_ADVICE
from align.cli.tagged import Tagged, TaggedText
from align.cli.transfer_options import PROGRAM, Options, build_parser, read_options
from align.core.errors import PairError, plural
from align.core.formats import to_json
from align.core.types import Alignment, Choice, Pair, TextWarning
from align.io.process import keep_freed_memory
from align.transfer.columns import Labelled, format_labelled
from align.transfer.labels import Span, project_labels, read_bio, write_bio
from align.transfer.markup import UNLINKED, Placement, place_markup
from align.transfer.spans import Annotated, write_annotated
from align.transfer.tree import Markup


def transfer(options: Options) -> None:
    """Put the tags of all of the input into its targets, and say on stderr what was done."""
    keep_freed_memory()
    text = TaggedText(options)
    with closing(Progress(PROGRAM, options.quiet)) as progress, ExitStack() as stack:
        out = stack.enter_context(open_output(options.output))
        report = stack.enter_context(open_output(options.report)) if options.report else None
        items = stack.enter_context(closing(iter(text)))
        results = Results(options, out, report, progress)
        if options.strip:
            for item in items:
                out.write(f"{item.source.plain}\n".encode())  # type: ignore[union-attr]
                progress.add()
        elif options.links is not None:
            progress.begin(0, 1, lambda: None, "working …")
            for item in items:
                results.write(item, item.scores)
        else:
            results.signature = _align(text, items, options, results, progress)
        text.bad.warn()
    progress.write(f"{PROGRAM}: {results.summary()}")
    if results.signature:
        progress.write(results.signature)


def _align(text: TaggedText, items: Iterator[Tagged], options: Options, results: Results, progress: Progress) -> str:
    """Align or translate the input with the models, write it, and return the signature."""
    aligner = load_aligner(PROGRAM, options)
    kept: deque[Tagged] = deque()
    choices: list[Choice] = []

    def pairs() -> Iterator[Pair]:
        for item in items:
            kept.append(item)
            yield item.pair

    def announce(chosen: Sequence[Choice]) -> None:
        choices[:] = chosen
        for direction, choice in zip(names_of(aligner), chosen, strict=True):
            progress.write(f"{PROGRAM}: {direction}{choice}")
        progress.start()

    progress.begin(0, len(aligner.directions) + bool(options.search), lambda: None, "choosing layer and head …")
    try:
        if options.search:
            from align.models.translate import translate

            found = translate(aligner, pairs(), options.search, announce, progress.batch)
        else:
            found = aligner(pairs(), announce, progress.batch)
        with closing(found):
            for alignment in found:
                item = kept.popleft()
                if alignment.skipped:
                    results.write(text.blank(item, alignment.skipped), {})
                    continue
                results.write(_translated(item, alignment) if options.search else item, alignment.scores)
    except PairError as error:
        raise error.in_file(text.name) from None
    return sign(aligner, options, choices)


def _translated(item: Tagged, alignment: Alignment) -> Tagged:
    """A sentence with its translation for a target, written as text between tags is."""
    text = " ".join(alignment.pair.target)
    escaped = isinstance(item.source, Markup) and item.source.escaped
    return item._replace(pair=alignment.pair, target=escape(text, quote=False) if escaped else text)


class Results:
    """Writes targets with their tags.

    Args:
        options: which tags, and how.
        out: where to.
        report: where to say where each was put.
        progress: counts the lines.

    Attributes:
        signature: of the models, if there are any.
    """

    def __init__(self, options: Options, out: BinaryIO, report: BinaryIO | None, progress: Progress) -> None:
        self._options, self._out, self._report, self._progress = options, out, report, progress
        self._counts: Counter[str] = Counter()
        self.signature = ""

    def write(self, item: Tagged, scores: Mapping[tuple[int, int], float]) -> None:
        """Write a target with the tags of its source."""
        if isinstance(item.source, Markup):
            placed = place_markup(item.source, item.target, scores, split=self._options.split)
            text = placed.text + "\n"
            rows = [one.to_dict() for one in placed.report]
        else:
            text, rows = _labels(item, item.source, scores, self._options)
        self._out.write(text.encode())
        if self._report:
            self._report.write(f"{to_json({'id': item.pair.id, 'tags': rows})}\n".encode())
        self._counts["tag"] += len(rows)
        self._counts.update(remark for row in rows for remark in row["remarks"])
        self._progress.add()
        if self._progress.lines % self._options.models.buffer == 0:
            self._out.flush()

    def summary(self) -> str:
        """How many lines and tags there were, and what was odd about how many of them."""
        odd = "".join(f", {count:,} {remark}" for remark, count in sorted(self._counts.items()) if remark != "tag")
        tags = "" if self._options.strip else f", {plural(self._counts['tag'], 'tag')}{odd}"
        return f"{plural(self._progress.lines, 'line')}{tags}, {self._progress.rate:,.0f} lines/s"


def _labels(
    item: Tagged, source: Labelled | Annotated, scores: Mapping[tuple[int, int], float], options: Options
) -> tuple[str, list[dict[str, Any]]]:
    """The target with the labels of the source, as that has them; and where each span is."""
    words = item.pair.target
    spans = read_bio(source.labels) if isinstance(source, Labelled) else source.spans
    found = project_labels(spans, scores, len(item.pair.source), len(words))
    rows = [
        Placement(
            one.label,
            one.source,
            (one.target,) if one.target else (),
            one.confidence,
            () if one.target else (UNLINKED,),
        ).to_dict()
        for one in found
    ]
    if isinstance(source, Annotated):
        return write_annotated(source, item.target, found) + "\n", rows
    labels = write_bio([Span(one.label, one.target) for one in found if one.target], len(words))
    return format_labelled(Labelled(words, tuple(labels)), options.tags), rows


def main() -> int:
    """Entry point of `transfer-align`."""
    options = read_options(build_parser())
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: transfer(options), BATCH_ADVICE)


if __name__ == "__main__":
    sys.exit(main())
