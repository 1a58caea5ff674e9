"""Repair the tags and placeholders of a translation whose translator has lost, damaged or doubled some."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from align.models.punctuation import closes
from align.transfer.tags import Syntax, Token, halves

_QUOTES = "\"'“”„‟‘’‚«»"


class Repaired(NamedTuple):
    """A translation with only those tags and placeholders that its source has.

    Attributes:
        text: the translation.
        removed: tags and placeholders that were removed: extra ones, doubled ones, and halves of elements.
        rewritten: those that were damaged, and are as in the source now.
    """

    text: str
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()


class _Edit(NamedTuple):
    """Characters of the target, and the text that takes their place."""

    start: int
    end: int
    text: str


def repair_target(source: str, target: str, tags: str | Syntax) -> Repaired:
    """Remove or rewrite the tags and placeholders of a translation that are not as in its source.

    Those that differ in case, spaces, quotes or the width of characters, such as `% S`, `{ Name }` or `</ b>`, are
    rewritten. Missing ones are left to `align.transfer.markup`.

    Args:
        source: the source with its tags.
        target: its translation, in which tags need not be balanced.
        tags: one of `align.transfer.tags.KINDS`, or a syntax.

    Raises:
        ValueError: the source, or the target's declarations, cannot be parsed.
    """
    syntax = Syntax.of(tags)
    lenient = replace(syntax, tags="html") if syntax.tags else syntax
    units = [unit for _, unit in _units(syntax.parse(source))]
    tokens = lenient.parse(target)
    ends = list(accumulate(len(token.text) for token in tokens))
    edits: list[_Edit] = []
    for numbers, unit in _units(tokens):
        if unit in units:
            units.remove(unit)
            edits += [_Edit(ends[n] - len(tokens[n].text), ends[n], tokens[n].text) for n in numbers]
    for unit in units:
        edits += _find_damaged(unit, target, sorted(edits))
    for token, end in zip(tokens, ends, strict=True):
        start = end - len(token.text)
        if token.kind != "text" and not any(edit.start < end and start < edit.end for edit in edits):
            edits.append(_Edit(start, end, ""))
    return _apply(sorted(edits), target)


def _units(tokens: Sequence[Token]) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Yield elements, as two tags, and tags and placeholders without content: their numbers and identities."""
    pairs = halves(tokens)
    for n, token in enumerate(tokens):
        if token.kind == "point" or n in pairs:
            numbers = (n, pairs[n]) if n in pairs else (n,)
            yield numbers, tuple(tokens[k].identity for k in numbers)


def _tolerant(text: str) -> re.Pattern[str]:
    """Return a pattern of a tag or placeholder that may be damaged."""
    parts = []
    for character in "".join(text.split()):
        wide = chr(ord(character) + 0xFEE0) if "!" <= character <= "~" else ""
        parts.append(f"[{re.escape(_QUOTES if character in _QUOTES else character + wide)}]")
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    return re.compile(before + r"[ \t]*".join(parts) + after, re.IGNORECASE)


def _find_damaged(unit: Sequence[str], target: str, edits: Sequence[_Edit]) -> list[_Edit]:
    """Return the edits that write a unit as it is in the source; those that remove the half that is there."""
    starts = [edit.start for edit in edits]
    found: list[_Edit] = []
    at = 0
    for text in unit:
        for match in _tolerant(text).finditer(target, at):
            n = bisect_right(starts, match.start())
            if (n and edits[n - 1].end > match.start()) or (n < len(edits) and starts[n] < match.end()):
                continue
            found.append(_Edit(*match.span(), text))
            at = match.end()
            break
    return found if len(found) == len(unit) else [edit._replace(text="") for edit in found]


def _apply(edits: Sequence[_Edit], target: str) -> Repaired:
    """Make the edits; remove a space before something removed if a space, a closing mark or nothing follows."""
    done, at = "", 0
    for start, end, text in edits:
        done += target[at:start] + text
        at = end
        if not text and (not done or done[-1] in " \t"):
            following = target[end : end + 1]
            if following in (" ", "\t"):
                at += 1
            elif not following or closes(following):
                done = done[:-1]
    changed = [(target[start:end], text) for start, end, text in edits]
    return Repaired(
        done + target[at:],
        tuple(before for before, text in changed if not text),
        tuple(before for before, text in changed if text and text != before),
    )
