"""Write the results of `extract-align` to a file or stdout, and list bad lines in another file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import BinaryIO, NamedTuple, cast

from align.cli.common import open_output, say, write_links
from align.cli.extract_options import PROGRAM, Options
from align.cli.translate import write_translation
from align.core.types import Alignment, Skipped
from align.io.manifest import Stamp
from align.io.reader import Text
from align.io.resume import Blocks, open_blocks

UNLINKED = "without a link"
"""What there is to say of a line of words that has none."""


class Files(NamedTuple):
    """The file of results, and the list of bad lines, if there is one."""

    out: BinaryIO
    listing: BinaryIO | None


class Results:
    """Writes alignments, and lists bad lines.

    Args:
        text: the input.
        files: to write to.
        options: the format, and whether it has scores.

    Attributes:
        blocks: with --resume, the finished parts of the result.
    """

    def __init__(self, text: Text, files: Files | Blocks, options: Options) -> None:
        self.blocks = files if isinstance(files, Blocks) else None
        self._text, self._files, self._options = text, files, options
        self._write = write_translation if options.search else write_links

    def write(self, alignment: Alignment) -> str:
        """Write an alignment, and list its line if that is bad; returns why there are no links, or UNLINKED."""
        name, line = self._text.place(alignment.pair.id)
        error = self._text.bad.errors.pop(alignment.pair.id, None)
        if error:
            alignment = replace(alignment, skipped=cast(Skipped, error.reason))
        if alignment.skipped and self._options.keyboard:
            say(f"{PROGRAM}: {error.what if error else alignment.skipped}")
        self._write(self._files.out, alignment, self._options.format, self._options.scores)
        if alignment.skipped and self._files.listing:
            row = (error.file, str(line), error.what) if error else (name, str(line), alignment.skipped)
            self._files.listing.write("\t".join(row).encode() + b"\n")
        return "" if alignment.scores else alignment.skipped or ("blank" if alignment.pair.blank else UNLINKED)

    def flush(self) -> None:
        """Let out what is written, for whoever waits for it."""
        self._files.out.flush()


@contextmanager
def open_results(text: Text, inputs: Sequence[Stamp], options: Options) -> Iterator[Results]:
    """Open the output, which is written completely or not at all.

    Args:
        text: what is read.
        inputs: stamps of its files.
        options: where to write.

    Raises:
        OSError: a file cannot be written; names it.
    """
    with ExitStack() as stack:
        if options.resume and options.output:
            yield Results(text, stack.enter_context(open_blocks(options.output, inputs, options.bad_list)), options)
            return
        listing = stack.enter_context(open_output(options.bad_list)) if options.bad_list else None
        yield Results(text, Files(stack.enter_context(open_output(options.output)), listing), options)
