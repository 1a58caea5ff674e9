"""How the results of two trees differ: exit codes, output, files, and how many warnings and errors there are."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

SAME_TEXT: list[tuple[str, str]] = [
    (r"\bv:\d[\w.+]*", "v:VERSION"),
    (r"extract-align \d[\w.+]*", "extract-align VERSION"),
    (r'("version": ?|version = )"\d[\w.+]*"', r'\1"VERSION"'),
]
"""What is written in another way on purpose: a regular expression and what takes its place, in both results."""

NEW_ARGUMENTS: dict[str, str] = {}
"""Options of the old tree that are named otherwise in the new one, as `"--old": "--new"`."""

NEAR = 1e-4
"""Numbers with a point that differ by less are near: the last digit that is printed."""

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def new_arguments(words: Sequence[str]) -> list[str]:
    """Return a case's words for the new tree."""
    return [NEW_ARGUMENTS.get(word, word) for word in words]


def _is_near(old: str, new: str) -> bool:
    """Tell whether two lines differ in numbers with a point only, and little."""
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(abs(float(a) - float(b)) < NEAR * 1.01 for a, b in pairs)


def _lines(name: str, text: str) -> list[str]:
    """Return the lines of a file to compare; those of a table are its rows."""
    if name.endswith(".parquet"):
        import pyarrow.parquet as pq

        rows = pq.read_table(io.BytesIO(text.encode("latin-1"))).to_pylist()
        return [json.dumps(row, default=str) for row in rows]
    for pattern, place in SAME_TEXT:
        text = re.sub(pattern, place, text)
    return text.split("\n")


def _compare_text(name: str, old: str, new: str) -> tuple[str, bool]:
    """Return the first difference, "" for none, and whether all are near."""
    first, near = "", True
    for number, (a, b) in enumerate(zip_longest(_lines(name, old), _lines(name, new)), 1):
        if a != b:
            if not (is_near := a is not None and b is not None and _is_near(a, b)) or not first:
                shown = [repr(line if line is None else _around(line, a or "", b or "")) for line in (a, b)]
                first = f"{name}, line {number}:\n    old {shown[0]}\n    new {shown[1]}"
            if not is_near:
                return first, False
    return first, near


def _around(line: str, old: str, new: str, width: int = 160) -> str:
    """Return the part of a line where two lines begin to differ."""
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return line if len(line) <= width else f"…{line[max(0, at - 40) : at + width - 40]}…"


def reports(text: str) -> dict[str, int]:
    """Count the lines of stderr that warn, and that name an error, in whatever words."""
    lines = text.split("\n")
    return {word: sum(word in line.lower() for line in lines) for word in ("warning", "error", "traceback")}


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what differs between two results, and what differs in the last digits of numbers only."""
    differences, near = list[str](), list[str]()
    if old["codes"] != new["codes"]:
        differences.append(f"exit codes: old {old['codes']}, new {new['codes']}")
    if (a := reports(old["err"])) != (b := reports(new["err"])):
        last = [repr(result["err"][-300:]) for result in (old, new)]
        differences.append(f"on stderr: old {a}, new {b}\n    old {last[0]}\n    new {last[1]}")
    for name in sorted({*old["files"], *new["files"]}):
        if name not in new["files"] or name not in old["files"]:
            differences.append(f"{name}: only written by the {'old' if name in old['files'] else 'new'} tree")
    sides = [{"stdout": result["out"], **result["files"]} for result in (old, new)]
    for name in sides[0]:
        if name in sides[1] and sides[0][name] != sides[1][name]:
            first, is_near = _compare_text(name, sides[0][name], sides[1][name])
            if first:
                (near if is_near else differences).append(first)
    return differences, near
