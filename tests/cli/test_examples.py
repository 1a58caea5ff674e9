"""What the demo shows a newcomer runs, and shows what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

UTF_8 = os.environ | {"PYTHONUTF8": "1"}


def check_terms(glossary: Path, *pairs: dict[str, object]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "examples/check_terms.py", str(glossary)]
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    return subprocess.run(command, cwd=ROOT, input=lines, capture_output=True, encoding="utf-8", env=UTF_8)


def test_terms_of_a_glossary_are_checked_by_links(tmp_path: Path) -> None:
    lines = (
        *("Haus\thouse", "haus\thome", "Haus am See\tlake house", "EU\tEuropean Union", "C\tC", "C#\tC-sharp"),
        *("Tu\u0308r\tdo\xador", "Stra\u00dfe \u200b\troad \ufeff"),
    )
    glossary = tmp_path / "glossary"
    glossary.write_text("\n".join(lines), encoding="utf-8")

    def checked(source: str, target: str, *links: tuple[int, int]) -> list[list[str]]:
        pair = {"id": 7, "source": source.split(" "), "target": target.split(" "), "links": links}
        result = check_terms(glossary, pair)
        assert (result.returncode, result.stderr) == (0, "")
        return [line.split("\t") for line in result.stdout.splitlines()]

    house, union = "house | home", "European Union"
    source, target = "Das \u00bbHaus\u00ab der eu", "The building of the European Union."
    assert checked(source, target, (1, 1), (3, 4), (3, 5)) == [
        ["7", "no", "\u00bbHaus\u00ab", "building", house],
        ["7", "yes", "eu", "European Union.", union],
    ]
    assert checked(source, target, (1, 0), (1, 3), (3, 5)) == [
        ["7", "no", "\u00bbHaus\u00ab", "The building of the", house],  # all between the first and the last
        ["7", "yes", "eu", "Union.", union],  # one linked word of the translation is enough
    ]
    assert checked(source, target, (0, 0), (3, 3)) == [
        ["7", "unlinked", "\u00bbHaus\u00ab", "", house],
        ["7", "no", "eu", "the", union],  # the translation is there, but not linked
    ]
    assert checked("(Haus am See) Haus", "lake HOUSE home", (0, 1), (2, 0), (3, 2)) == [
        ["7", "yes", "(Haus am See)", "lake HOUSE", "lake house"],  # the longest term
        ["7", "yes", "Haus", "home", house],
    ]
    assert checked("C# C,", "c-sharp c", (0, 0), (1, 1)) == [
        ["7", "yes", "C#", "c-sharp", "C-sharp"],  # a word as it is, before the same without punctuation
        ["7", "yes", "C,", "c", "C"],
    ]
    assert checked("\u00bbT\u00fc\xadr\u00ab Stra\u00dfe", "d\u200boor ROAD,", (0, 0), (1, 1)) == [
        ["7", "yes", "\u00bbT\u00fc\xadr\u00ab", "d\u200boor", "do\xador"],
        ["7", "yes", "Stra\u00dfe", "ROAD,", "road \ufeff"],
    ]
    assert checked("", "") == []
