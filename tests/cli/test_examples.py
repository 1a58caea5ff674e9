"""What the demo shows a newcomer runs, and shows what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

GLOSSARY = (
    *("Haus\thouse", "haus\thome", "Haus am See\tlake house", "EU\tEuropean Union", "C\tC", "C#\tC-sharp"),
    *("Tu\u0308r\tdo\xador", "Stra\u00dfe \u200b\troad \ufeff"),
)
HOUSE, UNION = "house | home", "European Union"
SIDES = "Das \u00bbHaus\u00ab der eu", "The building of the European Union."
PAIRS: list[tuple[tuple[str, str], list[tuple[int, int]], list[list[str]]]] = [
    (
        SIDES,
        [(1, 1), (3, 4), (3, 5)],
        [["no", "\u00bbHaus\u00ab", "building", HOUSE], ["yes", "eu", "European Union.", UNION]],
    ),
    (  # all between the first and the last; one linked word of the translation is enough
        SIDES,
        [(1, 0), (1, 3), (3, 5)],
        [["no", "\u00bbHaus\u00ab", "The building of the", HOUSE], ["yes", "eu", "Union.", UNION]],
    ),
    (  # the translation is there, but not linked
        SIDES,
        [(0, 0), (3, 3)],
        [["unlinked", "\u00bbHaus\u00ab", "", HOUSE], ["no", "eu", "the", UNION]],
    ),
    (  # the longest term
        ("(Haus am See) Haus", "lake HOUSE home"),
        [(0, 1), (2, 0), (3, 2)],
        [["yes", "(Haus am See)", "lake HOUSE", "lake house"], ["yes", "Haus", "home", HOUSE]],
    ),
    (  # a word as it is, before the same without punctuation
        ("C# C,", "c-sharp c"),
        [(0, 0), (1, 1)],
        [["yes", "C#", "c-sharp", "C-sharp"], ["yes", "C,", "c", "C"]],
    ),
    (
        ("\u00bbT\u00fc\xadr\u00ab Stra\u00dfe", "d\u200boor ROAD,"),
        [(0, 0), (1, 1)],
        [["yes", "\u00bbT\u00fc\xadr\u00ab", "d\u200boor", "do\xador"], ["yes", "Stra\u00dfe", "ROAD,", "road \ufeff"]],
    ),
    (("", ""), [], []),
]
"""Sides, links, and what is said of each term."""


def test_terms_of_a_glossary_are_checked_by_links(tmp_path: Path) -> None:
    (tmp_path / "glossary").write_text("\n".join(GLOSSARY), encoding="utf-8")
    lines, expected = "", []
    for number, ((source, target), links, rows) in enumerate(PAIRS):
        pair = {"id": number, "source": source.split(" "), "target": target.split(" "), "links": links}
        lines += f"{json.dumps(pair)}\n"
        expected += [[str(number), *row] for row in rows]
    command = [sys.executable, "examples/check_terms.py", str(tmp_path / "glossary")]
    environment = os.environ | {"PYTHONUTF8": "1"}
    result = subprocess.run(command, cwd=ROOT, input=lines, capture_output=True, encoding="utf-8", env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert [line.split("\t") for line in result.stdout.splitlines()] == expected
