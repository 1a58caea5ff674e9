"""Put tags into the translations of a document, or translate its segments."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

from align.cli.common import Progress, direction, open_output
from align.cli.loading import Request, begin_session, load_aligner
from align.cli.transfer_args import TransferArgs
from align.core.backend import StateRecorder
from align.core.errors import DataError, plural, printable, shorten
from align.core.formats import to_json
from align.core.types import Origin, Pair, TextWarning
from align.io.reader import name_shown
from align.io.session import Session
from align.models.languages import base_language, is_group, named_language, same_language
from align.transfer.documents import LARGEST, read_document
from align.transfer.inline import Inline, without_comments
from align.transfer.lines import find_faults
from align.transfer.markup import Placement, review_line
from align.transfer.pages import Page
from align.transfer.segments import Document, Segment
from align.transfer.tags import CDATA, LOOKALIKES, Syntax, count_lookalikes, parse_html

Row = Mapping[str, Any]
Languages = tuple[str, str]  # codes of source and target; "" for one that is unknown


class Reports:
    """Lists of where tags are, as JSON lines, and of doubtful lines; each if it has a name."""

    def __init__(self, stack: ExitStack, report: str | None, review: str | None) -> None:
        names = report, review
        self._report, self._review = (stack.enter_context(open_output(name)) if name else None for name in names)

    def add(self, row: Row, sides: tuple[str, str], *, failed: str | None = None, doubts: Sequence[Row] = ()) -> None:
        """Add a line.

        Args:
            row: its number and its tags, without which it is no line of the report.
            sides: its source and its target.
            failed: why it is left as it is.
            doubts: more that is doubtful, as if they were tags.
        """
        if self._review and (line := review_line(row["id"], [*row.get("tags", ()), *doubts], sides, failed)):
            self._review.write(line.encode())
        if self._report and "tags" in row:
            self._report.write(f"{to_json(row)}\n".encode())


class _Run:
    """Fills the segments of a document."""

    def __init__(self, segments: Sequence[Segment], file: str) -> None:
        self._segments, self._file = segments, file
        self.targets: list[str | None] = [None] * len(segments)
        self.placed: dict[int, list[dict[str, Any]]] = {}  # where the tags of new translations are
        self.failures: dict[int, str] = {}  # why segments are left as they are
        self.empty = [n for n, segment in enumerate(segments) if segment.target is None]
        self.lacking = [n for n, segment in enumerate(segments) if segment.target is not None and self._read(n)]

    def _read(self, n: int) -> Inline | None:
        """Return a segment that lacks tags; None if it has all, or cannot be read, which is noted."""
        segment = self._segments[n]
        try:
            inline = Inline.of_segment(segment.source, segment.target or "", segment.tags)
        except ValueError as error:
            self.leave(n, str(error))
            return None
        return inline if inline.missing else None

    def complete(self, session: Session) -> None:
        """Align the segments whose translations lack tags, and place these."""

        def pairs_of(item: tuple[int, Inline]) -> list[Pair]:
            line = self._segments[item[0]].line
            return [Pair(item[1].source_words, item[1].target_words, line, origin=Origin(self._file, line))]

        items = ((n, inline) for n in self.lacking if (inline := self._read(n)))
        with closing(session.results(items, pairs_of)) as results:
            for (n, inline), (alignment,) in results:
                if alignment.skipped:
                    self.leave(n, alignment.skipped)
                else:
                    self._keep(n, *inline.place(alignment.scores))

    def translate(self, session: Session) -> None:
        """Translate the segments without a translation."""
        from align.transfer.standins import translate_pages

        def pages() -> Iterator[tuple[int, Page]]:
            for n in self.empty:
                segment, syntax = self._segments[n], Syntax.of(self._segments[n].tags)
                try:
                    tokens = without_comments(syntax.parse(segment.source), syntax)
                    texts = [token.text.removeprefix("<![CDATA[") for token in tokens if token.name == CDATA]
                    if any(part.kind != "text" for text in texts for part in parse_html(text)):
                        raise ValueError("tags in a CDATA section")
                    source = "".join(token.text for token in tokens)
                    page = Page(source, syntax, keep=(), line=segment.line)
                except ValueError as error:
                    self.leave(n, str(error))
                    continue
                yield n, page

        with closing(translate_pages(session, pages(), file=self._file)) as translations:
            for n, translation in translations:
                if translation.skipped:
                    self.leave(n, translation.skipped)
                else:
                    self._keep(n, translation.text, [*chain(*translation.report)])

    def leave(self, n: int, why: str) -> None:
        """Leave a segment as it is, and note why."""
        self.targets[n] = None
        self.placed.pop(n, None)
        self.failures[n] = f"left as it is: {why}"

    def _keep(self, n: int, target: str, placements: Sequence[Placement]) -> None:
        self.targets[n] = target
        self.placed[n] = [placement.to_dict() for placement in placements]

    def list_segments(self, reports: Reports) -> None:
        """List all segments with their tags."""
        for n, segment in enumerate(self._segments):
            record: dict[str, Any] = {"id": n + 1, "line": segment.line}
            record |= {"tags": self.placed[n]} if n in self.placed else {}
            reports.add(record, (segment.source, self.targets[n] or segment.target or ""), failed=self.failures.get(n))

    def summary(self, *, translates: bool) -> str:
        """Return the numbers of segments and tags, and of anything unusual."""
        counts = Counter(self.failures.values())
        if not translates:
            counts["without a translation"] = len(self.empty)
        for n, tags in self.placed.items():
            segment = self._segments[n]
            counts["translated" if segment.target is None else "completed"] += 1
            counts[LOOKALIKES] += count_lookalikes(Syntax.of(segment.tags).parse(segment.source))
            counts.update(remark for tag in tags for remark in tag["remarks"])
        listed = "".join(f", {count:,} {name}" for name, count in sorted(counts.items()) if count)
        tag_count = plural(sum(map(len, self.placed.values())), "tag")
        return f"{plural(len(self.targets), 'segment')}, {tag_count} placed{listed}"


def for_languages(request: Request, languages: Sequence[Languages], file: str) -> Request:
    """Return the request for a document's languages, which choose the bundled model.

    They do not if a model or a language is requested.
    """
    model = request.model
    if model.model or model.reverse_model or model.source_lang or model.target_lang:
        return request
    chosen: list[str | None] = []
    for side, codes in zip(("sources", "translations"), zip(*languages, strict=True), strict=True):
        distinct = {base_language(code): code for code in codes if code}
        if len(distinct) > 1:
            listed = ", ".join(distinct)
            raise DataError(f"{side} in {len(distinct)} languages: {listed}", file=file, hint="name a model: ‹model›")
        chosen.append(next(iter(distinct.values()), None))
    return replace(request, model=replace(model, source_lang=chosen[0], target_lang=chosen[1]))


def warn_of_languages(model: Languages, languages: Sequence[Languages], file: str) -> None:
    """Warn of segments in other languages than the model's."""
    for pair in languages:
        sides = zip(pair, model, strict=True)
        if any(code and own and not is_group(own) and not same_language(code, own) for code, own in sides):
            names = (base_language(code) if code else "any language" for code in pair)
            message = f"{file}: the model translates {direction(*model)}, and segments are from {direction(*names)}"
            warnings.warn(message, TextWarning, stacklevel=2)
            return


def list_faults(program: str, document: Document, file: str, quiet: bool) -> None:
    """List what is wrong in finished translations on stdout, a line for each fault; any of them is an error."""
    fault_count, verbs = 0, {"not be": "is not", "have": "has"}
    with open_output(None) as out:
        for _, group in groupby(document.segments, key=lambda segment: segment.unit):
            unit = [*group]
            rows = [(s, fault) for s in unit if s.target for fault in find_faults(s.source, s.target, s.tags)]
            for error in document.check(unit, [segment.target for segment in unit]):
                if not rows or "\\n" in error or "plural" in error:  # others are faults of placeholders
                    fault = re.sub("would (not be|[a-z]+)", lambda would: verbs.get(would[1], f"{would[1]}s"), error)
                    rows.append((unit[0], fault))
            for segment, fault in rows:
                text = f"{file}:{segment.line}: {shorten(fault)}: {shorten(' '.join((segment.target or '').split()))}"
                out.write(f"{printable(text)}\n".encode())
            fault_count += len(rows)
    blank = sum(segment.target is None for segment in document.segments)
    sizes = f"{plural(len(document.segments), 'segment')}, {blank:,} without a translation{document.remark}"
    if fault_count:
        raise DataError(f"{plural(fault_count, 'fault')} in {sizes}", file=file)
    Progress(program, quiet).write(f"{program}: no fault in {sizes}")


def transfer_document(program: str, request: Request, file: str, tags: TransferArgs, output: str | None) -> None:
    """Put the tags of a document's sources into its translations, translate others with a search, and write it."""
    shown, model, search = name_shown(file), request.model, request.search
    with open(file, "rb") as stream:
        data = stream.read(LARGEST + 1)
    document = read_document(data, shown, tags.tags, (model.source_lang, model.target_lang), tags.use_fuzzy)
    if tags.check:
        return list_faults(program, document, shown, request.run.quiet)
    run = _Run(document.segments, shown)
    signature = ""
    with closing(Progress(program, request.run.quiet)) as progress, ExitStack() as stack:
        empty = run.empty if search else []
        if run.lacking or empty:
            named = dict.fromkeys(document.segments[n].languages for n in (*run.lacking, *empty))
            languages = [*dict.fromkeys((named_language(source), named_language(target)) for source, target in named)]
            request = for_languages(request, languages, shown)
            aligner = load_aligner(program, request)
            recorder = aligner.forward.recorder
            if not (model.source_lang or model.target_lang or isinstance(recorder, StateRecorder)):
                warn_of_languages(recorder.languages, languages, shown)
            if run.lacking:
                session = begin_session(replace(request, search=None), aligner, progress)
                run.complete(session)
            if empty:
                session = begin_session(request, aligner, progress)
                run.translate(session)
            session.search = search
            signature = session.signature()
        for n, why in document.refused(run.targets).items():
            run.leave(n, why)
        content = document.fill(run.targets)
        stack.enter_context(open_output(output)).write(content)
        run.list_segments(Reports(stack, tags.report, tags.review))
    progress.write(f"{program}: {run.summary(translates=search is not None)}{document.remark}")
    if signature:
        progress.write(signature)
