"""`extract-align train scorer` from the outside: it learns links, which `extract-align` then finds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from align.cli import extract, train_scorer
from align.models.folder import GENERAL_SCORER, SCORER_FILE
from align.models.link_scorer import read_scorer
from tests import toy
from tests.cli.conftest import Run, Write, failed
from tests.corpora import with_gaps

PAIRS = with_gaps(40)
TEXT = "".join(f"{' '.join(pair.source)} ||| {' '.join(pair.target)}\n" for pair in PAIRS)
LINKS = "".join(
    " ".join(f"{n}-{n}:0.9" for n in range(min(len(pair.source), len(pair.target)))) + "\n" for pair in PAIRS
)  # the diagonal


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path) -> Run:
    """The command, in a folder with two models, a text and links."""
    write(text=TEXT, links=LINKS)
    toy.save_model(tmp_path / "model")
    toy.save_reverse_model(tmp_path / "back")
    for name, languages in (("model", ("de", "en")), ("back", ("en", "de"))):
        toy.store_cells(tmp_path / name, languages)
    return partial(run_main, train_scorer.main)


def test_what_it_learns_is_what_is_found(run: Run, run_main: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_scorer, "EPOCHS", 120)
    before = run_main(extract.main, "text", "-m", "model")
    assert f"|scorer:{read_scorer().digest}|" in before.err
    result = run("-m", "model", "--reverse-model", "back", "text", "--links", "links", "-q")
    assert (result.code, result.out, result.err) == (0, b"", "")
    scorer = read_scorer(Path("model", SCORER_FILE))
    assert (scorer.about["pairs"], scorer.about["epochs"], scorer.about["seed"]) == ("34", "120", "1")
    assert scorer.about["reverse"].startswith("fairseq:en-de@")
    aligned = partial(run_main, extract.main, "text", "-m", "model")
    diagonal = LINKS.replace(":0.9", "").splitlines()
    for more in ([], ["--reverse-model", "back"]):
        links, soft = aligned(*more), aligned(*more, "--scorer", "none")
        assert f"|scorer:{scorer.digest}|" in links.err
        assert "scorer" not in soft.err
        assert links.out.count(b"\n") == soft.out.count(b"\n") == len(PAIRS)
        lines = links.out.decode().splitlines()
        right = sum(len({*line.split()} & {*expected.split()}) for line, expected in zip(lines, diagonal, strict=True))
        assert right > 0.7 * len(" ".join(diagonal).split())
        assert len(" ".join(lines).split()) < 1.2 * right
        assert soft.out != links.out
    again = run_main(extract.main, "text", "-m", "model", "--scorer", f"model/{SCORER_FILE}", "--workers", "2")
    assert again.out == aligned().out
    assert aligned("--scorer", GENERAL_SCORER).out == before.out
    refused = aligned("--scorer", f"model/{SCORER_FILE}", "--position", "input")
    failed(refused, f"model/{SCORER_FILE}: the scorer was trained with position both, not input")
