"""`extract-align --ensemble` from the outside: files, tools, and refusals."""

from __future__ import annotations

from functools import partial

import pytest

from align.cli import baseline, combine, extract
from tests.cli.conftest import Run, Write, failed
from tests.conftest import needs_fast_align

TEXT = "Das Haus ist alt . ||| The house is old .\n\nDer Hund schläft . ||| The dog sleeps .\n"
LINKS = "0-4 1-1\n\n0-0:0.2 1-1:1 2-2:0.9\n"


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command, in a folder with a text and links of it."""
    write(text=TEXT, links=LINKS, more=TEXT * 40)
    return partial(run_main, extract.main)


def test_a_file_is_averaged_with_soft_scores(run: Run, run_main: Run, write: Write) -> None:
    result = run("text", "--ensemble", "links")
    assert result.code == 0
    assert result.out == b"1-1\n\n0-0 1-1 2-2\n"
    assert result.err.splitlines()[-1].endswith("|ensemble:links|mean:0.5")
    write(soft=run("-q", "text", "--threshold", "0.01", "--print-scores").out.decode())
    assert run_main(combine.main, "-q", "soft", "links", "--symmetrize", "mean").out == result.out
    assert run("-q", "text", "--ensemble", "links", "--workers", "2", "--buffer", "1000").out == result.out
    assert run("-q", "--ensemble", "links", stdin=TEXT).out == result.out
    assert run("-q", "text", "--ensemble", "-", stdin=LINKS).out == result.out
    both = run("-q", "text", "--ensemble", "links", "--reverse-model", "en-de", "--threshold", "0.4", "--print-scores")
    assert both.out.startswith(b"0-0:0.50 0-4:0.50 1-1:1.00")


@needs_fast_align
def test_a_tool_is_run_on_the_text(run: Run, run_main: Run) -> None:
    result = run("more", "--ensemble", "fast_align")
    assert result.code == 0
    assert "|ensemble:fast_align:systran-align-" in result.err.splitlines()[-1]
    tool = run_main(baseline.main, "-q", "fast_align", "more", "--pieces", "de-en", "--symmetrize", "mean")
    assert set(tool.out.replace(b"\n", b" ").split()) <= {
        f"{i}-{j}:{score}".encode() for i in range(5) for j in range(5) for score in ("0.50", "1.00")
    }
    with open("tool", "wb") as stream:
        stream.write(tool.out)
    assert run("-q", "more", "--ensemble", "tool").out == result.out
    assert len(result.out.splitlines()) == 120


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-0\n\n0-9\n", "bad, line 3: link 0-9, and there are 4 and 4 words"),
        ("0-0\n\n", "bad"),
        ("0-0\n\n0-0:2\n", "bad, line 3: a score above 1"),
    ],
)
def test_links_of_another_text(run: Run, write: Write, links: str, message: str) -> None:
    write(bad=links)
    result = run("-q", "text", "--ensemble", "bad", "-o", "out")
    failed(result, message)
