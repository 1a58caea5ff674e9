"""Formats of links that other programs write and that are not read: recognised by a line, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINKS = r"[0-9]+-[0-9]+(?:[ \t]+[0-9]+-[0-9]+)*"
_TO_PAIRS = r"`sed -E 's/[^0-9]+/ /g; s/([0-9]+) ([0-9]+)/\1-\2/g'` writes them as 0-0 1-1"
_WITHOUT_NONE = r"`sed -E 's/[[(]([0-9]+|None), ?None[])]|[[(]None, ?[0-9]+[])]//g'` removes these"
_WITHOUT_NULL = "leave them out (`sed -E 's/NULL-[0-9]+|[0-9]+-NULL//g'`)"

_KNOWN = tuple(
    (re.compile(pattern), name, advice)
    for pattern, name, advice in (
        (r"[STHDPA]-[0-9]+\t", "fairseq's output (A-0 TAB links)", "`grep ^A- | sort -V | cut -f 2` leaves the links"),
        (rf"[0-9]+\t(?:{_LINKS})?$", "a running number and a TAB before the links", "`cut -f 2` leaves the links"),
        (r"\[?[(\[].*None", "pairs of numbers in brackets, some of them None", _WITHOUT_NONE),
        (r"\[?[(\[][0-9]+, ?[0-9]+[)\]]", "pairs of numbers in brackets", _TO_PAIRS),
        (r"(?:[0-9]+ [0-9]+(?: |$))+$", "pairs of numbers between spaces", _TO_PAIRS),
        (rf"{_LINKS}, ?[0-9]", "links between commas", "`tr , ' '` replaces these"),
        (r"(?:.* )?(?:NULL-[0-9]+|[0-9]+-NULL)(?: |$)", "links to NULL", _WITHOUT_NULL),
        (r"[SP] [0-9]+ [0-9]+$", "no number of a sentence before the link", "write `1 1 1 S`, the mark last"),
        (r"[0-9]+-[0-9]+/[0-9.]+(?: |$)", "scores after a slash", "`tr / :` writes them as 0-0:0.5"),
        (r"<?[0-9]*\.[0-9]+[ ,]", "soft alignments", "write links, as Marian does for hard alignments"),
        (r"<[/?!a-zA-Z]", "XML", "write a line such as 0-0 1-1 for each sentence pair"),
    )
)


def recognise_links(line: str) -> str:
    """Return the format of a line that cannot be read as links, and what to do; nothing if the format is unknown."""
    line = line.strip(" ")
    if "|||" in line:
        return _between_bars([field.strip(" \t") for field in line.split("|||")])
    return next((f"{name}: {advice}" for pattern, name, advice in _KNOWN if pattern.match(line)), "")


def _between_bars(fields: Sequence[str]) -> str:
    """Tell links with their score, translations with links, and text from one another by their fields between bars."""
    if len(fields) == 2 and re.fullmatch(r"-?[0-9.]+(?:e-?[0-9]+)?|-?inf|nan", fields[1]):
        name, field = "links and their score between |||", 1
    else:
        field = next((n for n, text in enumerate(fields, 1) if re.fullmatch(_LINKS, text)), 0)
        name = "links among fields between |||"
    if not field:
        return "text with |||, not links: give the file of its links"
    best = "!n[$1]++ " if fields[0].isdigit() else ""  # of the translations of a sentence the first
    return f"{name}: `awk -F ' *[|][|][|] *' '{best}{{print ${field}}}'` leaves the links"
