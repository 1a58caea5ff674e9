"""Where `extract-align` writes: one file or stdout, or a folder; and beside that a list of the lines that are bad."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import BinaryIO

from align.cli.common import open_output, say, write_links
from align.cli.extract_options import PROGRAM, Options
from align.cli.terms import open_glossary, write_checked
from align.cli.translate import write_translation
from align.core.types import Alignment
from align.io.inputs import Text
from align.io.record import Stamp
from align.io.resume import Part, open_part

UNLINKED = "without a link"
"""What there is to say of a line of words that has none."""


class Folder:
    """Files of results that are written one after the other, each of them whole or not at all.

    Args:
        paths: of all of them.

    Attributes:
        complete: how many have their names.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths, self.complete = paths, 0
        self._file = self._begin()

    def out(self, number: int) -> BinaryIO:
        """The file of this number, from 0; those before it are completed."""
        while self.complete < number:
            self._end()
            self._file = self._begin()
        return self._out

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind:
            self._file.__exit__(kind, error, where)
            return
        self.out(len(self._paths) - 1)
        self._end()

    def _begin(self) -> AbstractContextManager[BinaryIO]:
        file = open_output(self._paths[self.complete])
        self._out = file.__enter__()
        return file

    def _end(self) -> None:
        self._file.__exit__(None, None, None)
        self.complete += 1


class Results:
    """What becomes of each alignment.

    Args:
        text: where they come from.
        out: what to write to.
        listing: where bad lines are listed, if they are.
        options: which format, and whether with scores.

    Attributes:
        part: with --resume, what keeps the result for the next run.
    """

    def __init__(
        self, text: Text, out: BinaryIO | Folder, listing: BinaryIO | None, options: Options, part: Part | None = None
    ) -> None:
        self.part = part
        self._terms = open_glossary(options.terms) if options.terms else None
        self._text, self._out, self._listing, self._options = text, out, listing, options
        self._write = write_translation if options.search else write_links

    def write(self, alignment: Alignment) -> str:
        """Write an alignment, and list its line if that is bad; returns why there are no links, or UNLINKED."""
        file, name, line = self._text.place(alignment.pair.id)
        error = self._text.bad.pop(alignment.pair.id, None)
        if error:
            alignment = replace(alignment, skipped=error.reason)
        if alignment.skipped and self._options.keyboard:
            say(f"{PROGRAM}: {error.what if error else alignment.skipped}")
        out = self._out
        if isinstance(out, Folder):
            alignment, out = replace(alignment, pair=replace(alignment.pair, id=line)), out.out(file)
        if self._terms:
            write_checked(out, alignment, self._terms)
        else:
            self._write(out, alignment, self._options.format, self._options.scores)
        if alignment.skipped and self._listing:
            row = (error.file, str(line), error.what) if error else (name, str(line), alignment.skipped)
            self._listing.write("\t".join(row).encode() + b"\n")
        return "" if alignment.scores else alignment.skipped or ("blank" if alignment.pair.blank else UNLINKED)

    def flush(self) -> None:
        """Let out what is written, for whoever waits for it."""
        if not isinstance(self._out, Folder):
            self._out.flush()

    @property
    def complete(self) -> int:
        """How many files of a folder are complete."""
        return self._out.complete if isinstance(self._out, Folder) else 0


@contextmanager
def open_results(text: Text, inputs: Sequence[Stamp], options: Options) -> Iterator[Results]:
    """Where to write to; all of it is written whole or not at all.

    Args:
        text: what is read.
        inputs: stamps of its files.
        options: where to write.

    Raises:
        OSError: a file cannot be written; names it.
    """
    with ExitStack() as stack:
        if options.resume and options.output:
            part = stack.enter_context(open_part(options.output, inputs, options.bad_list))
            yield Results(text, part.out, part.listing, options, part)
            return
        listing = stack.enter_context(open_output(options.bad_list)) if options.bad_list else None
        if options.outputs and options.output:
            os.makedirs(options.output, exist_ok=True)
            yield Results(text, stack.enter_context(Folder(options.outputs)), listing, options)
        else:
            yield Results(text, stack.enter_context(open_output(options.output)), listing, options)
