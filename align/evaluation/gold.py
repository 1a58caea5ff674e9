"""Read files of gold links and hypotheses without guessing, and check them against their text."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from align.core.errors import LinksError, plural
from align.core.types import Gold, Pair, TextWarning
from align.evaluation.link_files import LINK_FORMATS, LinkFile, find_base, read_links, renumber_file
from align.evaluation.link_formats import number
from align.io.reader import open_lines, read_lines

Role = Literal["gold", "hyp"]
OutOfRange = Literal["stop", "ignore"]

EMPTY = Gold(frozenset(), frozenset())


class LinksWarning(TextWarning):
    """Links that seem to be of another text, or read the wrong way, as the error that it warns of."""

    def __init__(self, error: LinksError) -> None:
        super().__init__(error.told(str))
        self.error = error


@dataclass(frozen=True)
class LinkOptions:
    """Options that a file of links may leave open.

    Attributes:
        format: a key of LINK_FORMATS; None to detect it.
        base: lowest index, 0 or 1; None to infer it from the indices or the format.
        swapped: whether it has the target side first.
        out_of_range: policy for a link to a word that its sentence does not have: "stop", or "ignore", which removes it
            from gold, and keeps it in a hypothesis as a wrong link.

    Raises:
        ValueError: a value is unknown.
    """

    format: str | None = None
    base: int | None = None
    swapped: bool = False
    out_of_range: OutOfRange = "stop"

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in LINK_FORMATS:
            raise ValueError(f"format must be one of {', '.join(LINK_FORMATS)}, or None; got {self.format!r}")
        if self.base not in (None, 0, 1):
            raise ValueError(f"base must be 0, 1 or None; got {self.base!r}")
        if self.out_of_range not in get_args(OutOfRange):
            raise ValueError(f"out_of_range must be {' or '.join(get_args(OutOfRange))}; got {self.out_of_range!r}")


def read_gold(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    base: int | None = None,
    swapped: bool = False,
    out_of_range: OutOfRange = "stop",
    text: Sequence[Pair] | None = None,
) -> LinkFile:
    """Read gold links; raise an error where the file is ambiguous.

    Args:
        path: the file; `.gz`, `.xz` and `.zst` are decompressed, `-` is stdin.
        format: "pharaoh", "talp", "question", "naacl", "giza" or "jsonl"; None to detect it.
        base: lowest index of the file, 0 or 1; None to infer it from the indices or the format.
        swapped: whether it has the target side first.
        out_of_range: policy for a link to a word that its sentence does not have: "stop", or "ignore" to remove it.
        text: the sentence pairs, to check the links against; with them the result has as many pairs.

    Raises:
        OSError: the file cannot be opened.
        LinksError: the file is ambiguous or contradicts the text or itself; the hint names the argument to set.
        DataError: the file is not text.
    """
    return read_as("gold", os.fspath(path), LinkOptions(format, base, swapped, out_of_range), text)


def read_hypotheses(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    base: int | None = None,
    swapped: bool = False,
    out_of_range: OutOfRange = "stop",
    text: Sequence[Pair] | None = None,
) -> LinkFile:
    """Read links to be scored, as `read_gold` does; "ignore" keeps a link out of range as a wrong one.

    Raises:
        OSError, LinksError, DataError: as `read_gold`.
    """
    return read_as("hyp", os.fspath(path), LinkOptions(format, base, swapped, out_of_range), text)


def read_as(
    role: Role,
    path: str,
    options: LinkOptions,
    text: Sequence[Pair] | None = None,
    name: str | None = None,
    scored: bool = False,
) -> LinkFile:
    """Read a file of links, find its index base, and check it against the text."""
    name = name or ("stdin" if path == "-" else path)
    with open_lines(path) as stream:
        file = read_links(read_lines(stream, name), name, options.format, scored)
    lengths = None
    if text is not None:
        _check_number(file, len(text), "the text", True)
        lengths = [(len(pair.source), len(pair.target)) for pair in text]
    base = find_base(file, lengths, options.swapped, role) if options.base is None else options.base
    file = renumber_file(file, base, options.swapped)
    if lengths is None:
        return file
    return _pad(_check_range(file, lengths, role, options.out_of_range == "ignore"), len(lengths))


def match_lengths(files: Sequence[LinkFile]) -> list[LinkFile]:
    """Bring files of one text to the same number of pairs: NAACL files may omit their last sentences."""
    longest = max(files, key=lambda file: len(file.pairs))
    for file in files:
        _check_number(file, len(longest.pairs), longest.name, False)
    return [_pad(file, len(longest.pairs)) for file in files]


def warn_if_exchanged(gold: LinkFile, hypotheses: Sequence[LinkFile]) -> None:
    """Warn if a hypothesis distinguishes sure from possible links and the gold does not."""
    exact = all(pair.sure == pair.possible for pair in gold.pairs)
    for file in hypotheses if exact else ():
        if any(pair.sure != pair.possible for pair in file.pairs):
            message = f"{file.name} tells sure from possible links, and the gold does not: are they exchanged?"
            warnings.warn(message, TextWarning, stacklevel=2)


def _pad(file: LinkFile, length: int) -> LinkFile:
    """Add the empty pairs at the end that the format omits, and warn of all that have no link."""
    if not file.open_ended:
        return file
    if silent := length - sum(1 for line in file.lines if line):
        message = f"{file.name} names no link in {silent:,} of {length:,} sentences: they are taken to have none"
        warnings.warn(message, TextWarning, stacklevel=4)
    return replace(file, pairs=[*file.pairs, *[EMPTY] * (length - len(file.pairs))])


def _check_number(file: LinkFile, length: int, longest: str, is_text: bool) -> None:
    """Refuse another number of sentence pairs than the text or the longest file has; name both numbers.

    A format that omits sentences without links may end early, but only the text itself proves that it does.
    """
    missing = length - len(file.pairs)
    if not missing or (file.open_ended and missing > 0 and is_text):
        return
    hint = "check for a missing or an extra line, such as a blank one at the end"
    if file.open_ended and missing > 0:
        hint += f"; if the last sentences have no links in {file.name}, give ‹text›"
    raise LinksError(f"{file.name} has {plural(len(file.pairs), 'sentence pair')}, {longest} {length:,}", hint=hint)


def _check_range(file: LinkFile, lengths: Sequence[tuple[int, int]], role: Role, ignore: bool) -> LinkFile:
    """Stop at a link to a word that does not exist; or remove it from gold, and keep it as wrong in a hypothesis."""
    in_range, dropped = [], 0
    for n, (pair, (source, target)) in enumerate(zip(file.pairs, lengths, strict=False)):
        outside = {(i, j) for i, j in pair.possible if i >= source or j >= target}
        if outside and not ignore:
            (first, second), *_ = sorted(number(outside, file.base or 0, file.swapped))
            description = f"link {first}-{second} (counted from {file.base})"
            description += f", where the sentences have {source} and {target} words"
            hint = 'check the text and the index base, or ignore such links with ‹out_of_range="ignore"›'
            both = zip(file.pairs, lengths, strict=False)
            if all(i < size[1] and j < size[0] for other, size in both for i, j in other.possible):
                swapped = f"with{'out' if file.swapped else ''} ‹{role}.swapped=True›"
                hint = f"{swapped}, or with ‹source› and ‹target› exchanged, all links would be in range"
            raise LinksError(description, file=file.name, line=file.lines[n], hint=hint)
        dropped += len(outside)
        in_range.append(Gold(pair.sure - outside, pair.possible - outside))
    if not dropped:
        return file
    fate = "left out" if role == "gold" else "counted as wrong"
    message = f"{file.name}: {plural(dropped, 'link')} outside their sentences, {fate}"
    warnings.warn(message, TextWarning, stacklevel=4)
    return replace(file, pairs=in_range, dropped=dropped) if role == "gold" else file
