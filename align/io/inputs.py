"""Sentences on the command line: files of both sides, a file for each, stdin, or files of one side."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import warnings
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import BinaryIO, NamedTuple, TextIO

from align.core.errors import LineError, PairError, Remedy, plural, printable
from align.core.formats import WITH_LINES
from align.core.text import LinePair, MakePair, make_pair
from align.core.types import Pair, TextWarning
from align.io.reader import open_lines, read_bitext, read_lines, read_parallel, read_sources


@dataclass(frozen=True)
class Input:
    """What is to be read.

    Attributes:
        files: their names, one text after the other; "-" is stdin.
        parallel: whether there are two, one for each side.
        one_side: whether they hold source sentences only.
        columns: of source and target, or of the source alone, from 1, between TABs; none for lines of nothing else.
        blank: whether lines that cannot be read are blank ones.
        make: makes a pair of the lines of both sides.
    """

    files: tuple[str, ...]
    parallel: bool = False
    one_side: bool = False
    columns: tuple[int, ...] = ()
    blank: bool = False
    make: MakePair = make_pair


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Where the sentences come from, and what to do with lines that are none."""
    group = parser.add_argument_group("input (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument(
        "input",
        nargs="*",
        metavar="FILE",
        help="lines `source ||| target` or `source TAB target`; several are one text (default: stdin)",
    )
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; goes with -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; goes with -s")
    group.add_argument(
        "--columns",
        type=column_numbers,
        default=(),
        metavar="N,N",
        help="which columns of a FILE of TABs are source and target, from 1, where there are more of them",
    )
    group.add_argument(
        "--bad-lines",
        choices=("stop", "blank"),
        default="stop",
        help="at a line that has not two fields, is not UTF-8, or is longer than the model takes: stop, or take it for "
        "a blank line",
    )
    group.add_argument("--too-long", type=_gone, help=argparse.SUPPRESS)


def column_numbers(text: str) -> tuple[int, ...]:
    """An argument of one or two numbers from 1."""
    numbers = text.split(",")
    if len(numbers) > 2 or not all(n.isascii() and n.isdigit() and 1 <= len(n) <= 4 and int(n) for n in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers from 1, such as 2,3")
    return tuple(map(int, numbers))


def _gone(text: str) -> str:
    raise argparse.ArgumentTypeError(f"is --bad-lines now: --bad-lines {text}")


def read_input(
    parser: argparse.ArgumentParser, args: argparse.Namespace, *others: str | None, one_side: bool = False
) -> Input:
    """What the options above ask for.

    Half a pair of files, both ways at once, stdin for two files, and output over input are refused, with exit code 2.

    Args:
        parser: who refuses.
        args: the options.
        others: further files to read.
        one_side: whether there are source sentences only, and a target is what is refused.
    """
    if one_side and args.target is not None:
        parser.error("--translate writes the target side itself: leave out -t/--target")
    if not one_side and (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input:
        parser.error("either FILEs of both sides, or -s and -t" if not one_side else "either FILE or -s FILE")
    parallel = args.target is not None
    if args.columns and parallel:
        parser.error("--columns goes with FILE, not with -s and -t")
    if args.columns and len(args.columns) != 2 - one_side:
        parser.error(f"--columns takes {'one number with --translate' if one_side else 'two numbers: source,target'}")
    if len(set(args.columns)) < len(args.columns):
        parser.error("--columns takes two columns: source and target cannot be the same")
    files = tuple(args.input) or ("-",)
    if args.source is not None:
        files = (args.source, args.target) if parallel else (args.source,)
    check_files(parser, (*files, *others), args.output)
    return Input(files, parallel, one_side, args.columns, args.bad_lines == "blank")


def with_lines(wanted: Input, format: str, words: str = "spaces") -> Input:
    """The same input, whose pairs keep their lines if a format of links, or what a word is, needs them."""
    return replace(wanted, make=LinePair.of) if format in WITH_LINES or words != "spaces" else wanted


def check_files(
    parser: argparse.ArgumentParser, names: Iterable[str | None], output: str | None, option: str = "-o"
) -> None:
    """Refuse, with exit code 2, stdin for two files, and output over input.

    Args:
        parser: who refuses.
        names: all files to read; `-` is stdin.
        output: the file to write; None or `-` for stdout.
        option: that names it.
    """
    files = [name for name in names if name is not None]
    if files.count("-") > 1:
        parser.error("only one of the files can be stdin")
    if output == "":
        parser.error(f"{option} needs the name of a file")
    to_stdout = output in (None, "-")
    written = _regular_file(sys.stdout if to_stdout else output)
    for name in files:
        file = _regular_file(sys.stdin if name == "-" else name)
        if written and file and os.path.samestat(file, written):
            shown = "on stdin" if name == "-" else name
            parser.error("stdout is the input file" if to_stdout else f"{option} would replace the input {shown}")


def _regular_file(file: str | TextIO | None) -> os.stat_result | None:
    """The status of an ordinary file, by its name or open; None for anything else."""
    try:
        about = os.stat(file) if isinstance(file, str) else os.fstat(file.fileno()) if file else None
    except (OSError, ValueError):  # as for a stream without a file descriptor
        return None
    return about if about and stat.S_ISREG(about.st_mode) else None


def name_shown(name: str) -> str:
    """What messages call a file: no line may be broken by its name."""
    return "stdin" if name == "-" else printable(name)


class Line(NamedTuple):
    """Where a pair was read: the number of its file, from 0, what messages call that, and the line in it, from 1."""

    file: int
    name: str
    number: int


class Text(Iterator[Pair]):
    """The sentence pairs of the input as they are read, numbered through all of its files.

    Args:
        wanted: what to read.

    Attributes:
        name: what messages call all of it.
        lines: how many have been read.
        bad: those that were read as blank ones, by number, until whoever writes takes them out.

    Raises:
        OSError: a file cannot be opened.
        DataError: while it is read: a line cannot be, or packed data is damaged; names file and line.
    """

    def __init__(self, wanted: Input) -> None:
        shown = list(map(name_shown, wanted.files))
        self.name = "the input" if len(shown) > 1 and not wanted.parallel else " and ".join(shown)
        self.lines, self.bad = 0, dict[int, LineError]()
        self._bad_count, self._first_bad = 0, ""
        self._wanted = wanted
        self._texts = [tuple(wanted.files)] if wanted.parallel else [(name,) for name in wanted.files]
        self._names = [" and ".join(map(name_shown, text)) for text in self._texts]
        self._starts: list[int] = []  # lines before each file
        for name in wanted.files:
            _check_readable(name)
        self._sizes = [_size(text[0]) for text in self._texts]
        self._raw: BinaryIO | None = None  # the file that is being read, or the first of two
        self._pairs = self._read()

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """Close the file that is being read."""
        self._pairs.close()

    def place(self, number: int) -> Line:
        """Where the pair of this number was read."""
        file = bisect_left(self._starts, number) - 1
        return Line(file, self._names[file], number - self._starts[file])

    def placed(self, error: PairError) -> PairError:
        """The same error of a pair, with its file and its line there."""
        _, name, number = self.place(error.line)
        placed = error.in_file(name)
        placed.line = number
        return placed

    def warn_of_bad(self) -> None:
        """Warn of lines that were read as blank ones, if there are any."""
        if self._bad_count:
            message = f"{plural(self._bad_count, 'line')} cannot be read and became blank; the first: {self._first_bad}"
            warnings.warn(message, TextWarning, stacklevel=2)

    @property
    def expected(self) -> int | None:
        """How many lines there will be, by those read and their share of all bytes; None where that is not known."""
        sizes = [size for size in self._sizes if size is not None]
        if not self.lines or len(sizes) < len(self._sizes):
            return None
        done = sum(sizes[: len(self._starts) - 1]) + (self._raw.tell() if self._raw else sizes[len(self._starts) - 1])
        return max(self.lines, round(self.lines * sum(sizes) / max(1, done)))

    def _read(self) -> Generator[Pair, None, None]:
        wanted = self._wanted
        for files, name in zip(self._texts, self._names, strict=True):
            self._starts.append(self.lines)
            with ExitStack() as stack:
                stack.callback(self._closed)
                shown = list(map(name_shown, files))
                lines = [
                    read_lines(
                        stack.enter_context(open_lines(file, self._opened)), show, self._refuse, json_lines=False
                    )
                    for file, show in zip(files, shown, strict=True)
                ]
                pairs: Iterator[Pair]
                if wanted.parallel:
                    pairs = read_parallel(lines[0], lines[1], (shown[0], shown[1]), wanted.make)
                elif wanted.one_side:
                    pairs = read_sources(lines[0], name, next(iter(wanted.columns), None), self._refuse, wanted.make)
                else:
                    pairs = read_bitext(lines[0], name, wanted.columns, self._refuse, wanted.make)
                for pair in pairs:
                    self.lines += 1
                    yield pair if pair.id == self.lines else replace(pair, id=self.lines)

    def _opened(self, raw: BinaryIO) -> None:
        self._raw = self._raw or raw

    def _closed(self) -> None:
        self._raw = None

    def _refuse(self, error: LineError) -> None:
        """Stop at a line that cannot be read, or take it for a blank one."""
        if self._wanted.blank:
            number = self._starts[-1] + error.line
            if number not in self.bad:
                self.bad[number] = error
                self._bad_count += 1
                self._first_bad = self._first_bad or str(error)
            return
        advice = "--bad-lines blank leaves such lines blank"
        if error.reason == "not UTF-8":
            advice = f"convert the file, for example with iconv; {advice}"
        elif len(self._texts) == 2 and error.line == 1 and not self._wanted.columns:
            advice = f"is each file one side of the text? -s {self._names[0]} -t {self._names[1]}"
        elif error.what.startswith("no |||") and error.line == 1 and len(self._texts) == 1:
            advice = "is each file one side of the text? -s FILE -t FILE"
        elif error.what.startswith("both ||| and TAB"):
            advice = f"--columns 1,2 reads two columns between TABs; {advice}"
        elif error.what.startswith("a TAB in it"):
            advice = f"`tr '\\t' ' '` makes it a space; {advice}"
        elif "fields between TAB" in error.what:
            advice = f"--columns reads two of them, for example --columns 2,3; {advice}"
        error.remedy = Remedy(advice.replace("{", "{{").replace("}", "}}"))
        raise error


def open_text(wanted: Input) -> closing[Text]:
    """The pairs of the input, which are closed at the end; see `Text`."""
    return closing(Text(wanted))


def _check_readable(name: str) -> None:
    """Open a file and close it again, unless opening is more than that, as it is for a pipe."""
    if name != "-" and not stat.S_ISFIFO(os.stat(name).st_mode):
        open(name, "rb").close()


def _size(name: str) -> int | None:
    """How many bytes an ordinary file has."""
    about = _regular_file(sys.stdin if name == "-" else name)
    return about.st_size if about else None
