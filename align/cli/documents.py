"""Put tags into the translations of a document, or translate its segments."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from align.cli.common import Progress, direction, open_output
from align.cli.loading import Request, begin_session, load_aligner
from align.core.errors import DataError, plural
from align.core.formats import to_json
from align.core.types import Origin, Pair, TextWarning
from align.io.reader import name_shown
from align.io.session import Session
from align.models.languages import base_language, is_group, named_language, same_language
from align.transfer.documents import LARGEST, read_document
from align.transfer.inline import Inline
from align.transfer.markup import Placement, review_line
from align.transfer.pages import Page
from align.transfer.segments import Segment

Languages = tuple[str, str]
"""Codes of source and target; "" for one that is unknown."""


class _Run:
    """Fills the segments of a document."""

    def __init__(self, segments: Sequence[Segment], file: str) -> None:
        self._segments, self._file = segments, file
        self.targets: list[str | None] = [None] * len(segments)
        self.rows: dict[int, dict[str, Any]] = {}
        self.failures: dict[int, str] = {}
        self.lacking: list[int] = []
        self.empty: list[int] = []
        for n, segment in enumerate(segments):
            if segment.target is None:
                self.empty.append(n)
            elif self._read(n, segment.target):
                self.lacking.append(n)

    def _read(self, n: int, target: str) -> Inline | None:
        """Return a segment that lacks tags; None if it has all, or cannot be read, which is noted."""
        segment = self._segments[n]
        try:
            inline = Inline(segment.source, target, segment.tags)
        except ValueError as error:
            self._leave(n, str(error))
            return None
        return inline if inline.missing else None

    def complete(self, session: Session) -> None:
        """Align the segments whose translations lack tags, and place these."""

        def pairs_of(item: tuple[int, Inline]) -> list[Pair]:
            n, inline = item
            line = self._segments[n].line
            return [Pair(inline.source_words, inline.target_words, line, origin=Origin(self._file, line))]

        read = ((n, self._read(n, self._segments[n].target or "")) for n in self.lacking)
        items = ((n, inline) for n, inline in read if inline)
        with closing(session.results(items, pairs_of)) as results:
            for (n, inline), (alignment,) in results:
                if alignment.skipped:
                    self._leave(n, alignment.skipped)
                else:
                    target, placements = inline.place(alignment.scores)
                    self._note(n, target, placements)

    def translate(self, session: Session) -> None:
        """Translate the segments without a translation."""
        from align.transfer.standins import translate_pages

        def pages() -> Iterator[tuple[int, Page]]:
            for n in self.empty:
                segment = self._segments[n]
                try:
                    page = Page(segment.source, segment.tags, keep=(), line=segment.line)
                except ValueError as error:
                    self._leave(n, str(error))
                    continue
                yield n, page

        with closing(translate_pages(session, pages(), file=self._file)) as translations:
            for n, translation in translations:
                if translation.skipped:
                    self._leave(n, translation.skipped)
                else:
                    placements = [row for rows in translation.report for row in rows]
                    self._note(n, translation.text, placements)

    def _leave(self, n: int, why: str) -> None:
        """Leave a segment as it is, and note why."""
        self.failures[n] = f"left as it is: {why}"

    def leave_refused(self, reasons: Mapping[int, str]) -> None:
        """Leave segments as they are whose new translations the file cannot have."""
        for n, why in reasons.items():
            self.targets[n] = None
            del self.rows[n]
            self._leave(n, why)

    def doubtful(self) -> Iterator[str]:
        """Yield the lines of a list of segments that are left, or have a tag whose place is doubtful."""
        for n, segment in enumerate(self._segments):
            sides = segment.source, self.targets[n] or segment.target or ""
            tags = self.rows[n]["tags"] if n in self.rows else ()
            if line := review_line(n + 1, tags, sides, self.failures.get(n)):
                yield line

    def _note(self, n: int, target: str, placements: Sequence[Placement]) -> None:
        """Keep the translation of a segment, and list its tags."""
        self.targets[n] = target
        tags = [placement.to_dict() for placement in placements]
        self.rows[n] = {"id": n + 1, "line": self._segments[n].line, "tags": tags}

    def summary(self, *, translates: bool) -> str:
        """Return the numbers of segments and tags, and of anything unusual."""
        counts = Counter(self.failures.values())
        if not translates:
            counts["without a translation"] = len(self.empty)
        for n, row in self.rows.items():
            counts["translated" if self._segments[n].target is None else "completed"] += 1
            counts.update(remark for tag in row["tags"] for remark in tag["remarks"])
        tags = sum(len(row["tags"]) for row in self.rows.values())
        listed = "".join(f", {count:,} {name}" for name, count in sorted(counts.items()) if count)
        return f"{plural(len(self.targets), 'segment')}, {plural(tags, 'tag')} placed{listed}"


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


def transfer_document(
    program: str,
    request: Request,
    file: str,
    tags: str | None,
    outputs: tuple[str | None, str | None, str | None],
) -> None:
    """Put the tags of a document's sources into its translations, and write it.

    Args:
        request: the models; with a search, segments without a translation are translated.
        tags: one of `align.transfer.tags.KINDS`; None for those of the kind of document.
        outputs: file to write, None for stdout; file for the places of tags, as JSON lines, if any; file for doubtful
            segments, if any.
    """
    shown = name_shown(file)
    output, report, review = outputs
    if os.stat(file).st_size > LARGEST:
        raise DataError(f"more than {LARGEST >> 20} MiB", file=shown)
    with open(file, "rb") as stream:
        data = stream.read(LARGEST + 1)
    model, search = request.model, request.search
    document = read_document(data, shown, tags, (model.source_lang, model.target_lang))
    run = _Run(document.segments, shown)
    signature = ""
    with closing(Progress(program, request.run.quiet)) as progress:
        if run.lacking or (run.empty and search):
            read = [*run.lacking, *(run.empty if search else ())]
            named = dict.fromkeys(document.segments[n].languages for n in read)
            languages = [*dict.fromkeys((named_language(source), named_language(target)) for source, target in named)]
            request = for_languages(request, languages, shown)
            aligner = load_aligner(program, request)
            if not (model.source_lang or model.target_lang):
                warn_of_languages(aligner.forward.recorder.languages, languages, shown)
            for wanted, do in ((run.lacking, run.complete), (run.empty if search else (), run.translate)):
                if wanted:
                    translating = replace(request, search=search if do == run.translate else None)
                    session = begin_session(translating, aligner, progress)
                    do(session)
            session.search = search
            signature = session.signature()
        run.leave_refused(document.refused(run.targets))
        content = document.fill(run.targets)
        with open_output(output) as out:
            out.write(content)
        if report:
            with open_output(report) as out:
                for _, row in sorted(run.rows.items()):
                    out.write(f"{to_json(row)}\n".encode())
        if review:
            with open_output(review) as out:
                out.writelines(line.encode() for line in run.doubtful())
    progress.write(f"{program}: {run.summary(translates=search is not None)}")
    if signature:
        progress.write(signature)
