"""`extract-align score`: the two numbers of a pair are from 0 to 1, and the same, wherever they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Alignment, Pair, load, two_way
from align.cli import extract, main, score
from align.core.formats import format_tsv
from tests.cli.conftest import Run, Write

pytestmark = pytest.mark.filterwarnings("ignore:the source looks like Japanese")

LINES = [
    ("ja", "yes yes yes yes yes yes yes yes"),
    ("Geschwindigkeitsbegrenzung", "speed limit"),
    ("この文には空白がありません。", "this sentence has no spaces ."),
    ("das haus ist alt .", "the house is old ."),
    ("das haus ist alt .", "wir haben keine zeit"),
    ("ja ja ja ja ja ja", "yes"),
    ("", ""),
]
"""Pairs of one word and many, of a language that the model does not know, a good one, a bad one, and a blank one."""

TEXT = "".join(f"{source}\t{target}\n" for source, target in LINES)
ONE = ("-m", "de-en", "--device", "cpu")
BOTH = (*ONE, "--reverse-model", "en-de")

Numbers = list[tuple[float, ...]]


@pytest.fixture(scope="module")
def aligners() -> dict[tuple[str, ...], Aligner]:
    """Aligners with one model and with two, by the options that choose them."""
    forward, reverse = load("de-en", device="cpu"), load("en-de", device="cpu")
    return {ONE: forward, BOTH: two_way(forward, reverse)}


def expected(aligner: Aligner) -> Numbers:
    """The numbers of `LINES` by Python, without those of the blank pair."""
    found = [alignment.agreement for alignment in aligner(LINES)]
    assert found.pop() is None
    assert all(found)
    return [numbers or () for numbers in found]


def check(found: Numbers, aligner: Aligner) -> None:
    """Fail unless the numbers are from 0 to 1, those of the aligner, and the good pair's the highest."""
    assert all(len(pair) == 2 and 0 < value <= 1 for pair in found for value in pair)
    assert found == [pytest.approx(pair, abs=1.01e-4) for pair in expected(aligner)]
    assert max(range(len(found)), key=lambda n: min(found[n])) == 3


@pytest.mark.parametrize("models", [ONE, BOTH], ids=["one", "both"])
def test_commands(
    models: tuple[str, ...], aligners: dict[tuple[str, ...], Aligner], run_main: Run, write: Write
) -> None:
    rows = run_main(score.main, "-q", *models, stdin=TEXT).out.decode().splitlines()
    assert rows[-1] == "0.0000\t0.0000"
    check([tuple(map(float, row.split("\t"))) for row in rows[:-1]], aligners[models])
    lines = run_main(extract.main, "-q", *models, "-f", "jsonl", stdin=TEXT).out.splitlines()
    check([tuple(json.loads(line)["agreement"]) for line in lines[:-1]], aligners[models])
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sources, targets = zip(*LINES, strict=True)
    write(**{"in.jsonl": "".join(json.dumps({"de": source, "en": target}) + "\n" for source, target in LINES)})
    parquet.write_table(pa.table({"de": sources, "en": targets}), "in.parquet")
    columns = ("--columns", "de,en")
    result = run_main(main.main, "jobs", "-q", "in.jsonl", "in.parquet", *columns, "-o", "out", *models, "--workers", 1)
    assert result.code == 0, result.err
    for records in (
        [json.loads(line) for line in Path("out/in.jsonl").read_text(encoding="utf-8").splitlines()],
        parquet.read_table("out/in.parquet").to_pylist(),
    ):
        assert records[-1].get("agreement") is None
        check([tuple(record["agreement"]) for record in records[:-1]], aligners[models])


@pytest.mark.parametrize("models", [ONE, BOTH], ids=["one", "both"])
def test_service(models: tuple[str, ...], aligners: dict[tuple[str, ...], Aligner]) -> None:
    pytest.importorskip("fastapi", reason="needs the extra [serve]")
    from align.service.work import work_of
    from tests.service.asked import asking, pairs, run

    async def ask() -> Any:
        async with asking(work_of(aligners[models].fixed(), "signature")) as client:
            return (await client.post("/align", json=pairs(*LINES, scores=True))).json()["pairs"]

    *replies, blank = run(ask)
    assert "agreement" not in blank
    check([tuple(reply["agreement"]) for reply in replies], aligners[models])


def test_a_line_alone_has_the_same_numbers_and_a_run_can_be_resumed(run_main: Run, write: Write) -> None:
    write(text=TEXT)
    rows = run_main(score.main, "-q", *BOTH, "text").out.splitlines(keepends=True)
    assert [run_main(score.main, "-q", *BOTH, stdin=line + "\n").out for line in TEXT.splitlines()[:3]] == rows[:3]
    result = run_main(score.main, *BOTH, "text", "-o", "scores", "--resume")
    assert Path("scores").read_bytes() == b"".join(rows)
    assert "|scorer:" not in result.err  # with which they were not measured


def test_lines_with_source_and_target(run_main: Run, write: Write) -> None:
    write(text="das  haus\tthe house\n\t\nwir\t\n", sides="das haus ||| the house\n")
    result = run_main(extract.main, "-q", *ONE, "text", "-f", "tsv", "--print-scores")
    lines = result.out.decode().splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["das haus", "the house"], ["", ""], ["wir", ""]]
    assert lines[0].split("\t")[2].startswith("0-0:1.00 ")
    Path("out").write_bytes(run_main(extract.main, "-q", *ONE, "text", "-f", "tsv").out)
    again = run_main(extract.main, "-q", *ONE, "out", "--columns", "1,2", "-f", "tsv")
    assert again.out == Path("out").read_bytes()
    odd = Alignment(Pair(("a\tb",), ("c",), 3), {})
    with pytest.raises(ValueError, match="pair 3 has a word with a TAB or a line feed in it"):
        format_tsv(odd)
