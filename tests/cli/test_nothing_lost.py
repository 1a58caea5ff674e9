"""Lines, blocks, segments and rows of every door: as many come out as go in, in order, whatever stands between them.

Blank items, items without a word to translate, bad ones and too long ones stand at the start of a buffer, at its end,
and alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from align import Aligner, Alignment, load
from align.cli import main
from align.core.formats import OUTPUT_FORMATS
from align.service.work import work_of
from tests import toy
from tests.cli.conftest import Result, Run, failed
from tests.service.asked import asking
from tests.service.asked import run as run_coroutine

LONG = " ".join(["haus"] * 60)
"""More than the toy model takes."""

SOURCES = ("", "5", "%s", "https://x.org/a", "das haus ist alt .", "wir sehen", "haus", "<td>5</td>", LONG)
WORDLESS = ("", "5", "%s", "https://x.org/a", "<td>5</td>")
"""What `transfer --tags html,placeholders --translate` leaves as it is."""

some = st.lists(st.sampled_from(SOURCES), max_size=9)
buffers = st.sampled_from((1, 2, 3, 5, 50))
mixtures = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that has learned to translate word by word."""
    return str(toy.save_trained_model(tmp_path_factory.mktemp("toy")))


@pytest.fixture
def run(run_main: Run, model: str, tmp_path: Path, monkeypatch: Any) -> Run:
    monkeypatch.chdir(tmp_path)
    shared = ("-m", model, "--device", "cpu", "--threads", "1", "-q")
    return lambda *arguments, **more: run_main(main.main, *arguments, *shared, **more)


BLANK = ("--bad-lines", "blank")


def lines(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return result.out.decode().split("\n")[:-1]


def as_text(items: Iterable[str]) -> str:
    return "".join(f"{item}\n" for item in items)


@mixtures
@given(sources=some, buffer=buffers)
def test_extract(run: Run, sources: list[str], buffer: int) -> None:
    bad = ["no two fields" if n % 4 == 3 else f"{source} ||| the house" for n, source in enumerate(sources)]
    rows = [json.loads(row) for row in lines(run("-f", "jsonl", *BLANK, "--buffer", buffer, stdin=as_text(bad)))]
    assert [row["id"] for row in rows] == list(range(1, len(sources) + 1))
    words = [[] if n % 4 == 3 else source.split() for n, source in enumerate(sources)]
    assert [row["source"] for row in rows] == words
    for row, source in zip(rows, words, strict=True):
        assert row.get("skipped") == (
            "wrong fields" if row["id"] % 4 == 0 else "too long" if len(source) == 60 else None
        )
    cut = ("--words", "characters", "-f", "jsonl")
    rows = [json.loads(row) for row in lines(run(*cut, *BLANK, "--buffer", buffer, stdin=as_text(bad)))]
    assert ["".join(row["source"]) for row in rows] == ["".join(source) for source in words]


def dropping(run: Run, folder: Path, *arguments: object, stdin: str) -> tuple[list[int], list[str]]:
    """The numbers of the lines that are kept, and these lines."""
    assert lines(run(*arguments, "--bad-lines", "drop", "-o", "out", stdin=stdin)) == []
    kept, out = ((folder / name).read_text(encoding="utf-8").split("\n")[:-1] for name in ("out.kept", "out"))
    return [int(number) for number in kept], out


@mixtures
@given(sources=some, buffer=buffers, format=st.sampled_from(sorted(OUTPUT_FORMATS)))
def test_kept_and_dropped_lines_are_all_of_them(
    run: Run, sources: list[str], buffer: int, format: str, tmp_path: Path
) -> None:
    text = as_text("no two fields" if n % 4 == 3 else f"{source} ||| the house" for n, source in enumerate(sources))
    expected = [n for n, source in enumerate(sources, 1) if n % 4 and source not in ("", LONG)]
    for command in (("-f", format, "--buffer", buffer), ("score",), ("--words", "characters", "-f", format)):
        kept, out = dropping(run, tmp_path, *command, stdin=text)
        assert kept == expected
        whole, each = lines(run(*command, *BLANK, stdin=text)), 3 if "giza" in command else 1
        if "naacl" not in command:  # which has a line for each link
            whole = [line for number in kept for line in whole[each * (number - 1) : each * number]]
        assert out == whole
        assert "jsonl" not in command or [json.loads(line)["id"] for line in out] == kept


@mixtures
@given(sources=some, buffer=buffers)
def test_transfer_drops_what_would_be_blank(run: Run, sources: list[str], buffer: int, tmp_path: Path) -> None:
    alone = as_text(f"<b>{source}" if n % 4 == 3 else source for n, source in enumerate(sources))
    pairs = as_text(f"<b>{source}</b> ||| {'' if n % 4 == 3 else 'the house'}" for n, source in enumerate(sources))
    xml = ("transfer", "--tags", "xml", "--buffer", buffer)
    for arguments, text in (((*xml, "--translate"), alone), ((*xml, "--strip"), alone), (xml, pairs)):
        kept, out = dropping(run, tmp_path, *arguments, stdin=text)
        whole = lines(run(*arguments, *BLANK, stdin=text))
        assert kept == [n for n, line in enumerate(whole, 1) if line.strip(" \t")]
        assert out == [whole[n - 1] for n in kept]


@mixtures
@given(sources=some, buffer=buffers)
def test_extract_translates(run: Run, sources: list[str], buffer: int) -> None:
    rows = [
        json.loads(row)
        for row in lines(run("--translate", "-f", "jsonl", *BLANK, "--buffer", buffer, stdin=as_text(sources)))
    ]
    assert [row["source"] for row in rows] == [source.split() for source in sources]
    assert [bool(row["target"]) for row in rows] == [bool(source) and source != LONG for source in sources]


@mixtures
@given(sources=some)
def test_score(run: Run, sources: list[str]) -> None:
    rows = lines(run("score", *BLANK, stdin=as_text(f"{source} ||| the house" for source in sources)))
    assert [row != "" and float(row.split("\t")[0]) > 0 for row in rows] == [
        source not in ("", LONG) for source in sources
    ]


@mixtures
@given(sources=some, buffer=buffers, tags=st.sampled_from(["html", "html,placeholders"]))
def test_transfer_translates_lines(run: Run, sources: list[str], buffer: int, tags: str, tmp_path: Path) -> None:
    options = ("transfer", "--tags", tags, "--translate", *BLANK, "--buffer", buffer)
    out = lines(run(*options, stdin=as_text(sources)))
    assert len(out) == len(sources)
    for source, target in zip(sources, out, strict=True):
        if source in WORDLESS and (source != "%s" or tags != "html"):
            assert target == source
        else:
            assert bool(target) == (source != LONG)
    assert lines(run(*options, "-o", "out", "--report", "report", stdin=as_text(sources))) == []
    assert (tmp_path / "out").read_text(encoding="utf-8") == as_text(out)
    assert (tmp_path / "report").read_bytes().count(b"\n") == len(sources)


@mixtures
@given(sources=some, buffer=buffers)
def test_transfer_places_tags(run: Run, sources: list[str], buffer: int) -> None:
    pairs = as_text(
        f"<b>{source} ||| the house" if n % 4 == 3 else f"<i>{source}</i> ||| number {n}"
        for n, source in enumerate(sources)
    )
    for words in ("spaces", "characters"):
        out = lines(run("transfer", "--tags", "xml", *BLANK, "--buffer", buffer, "--words", words, stdin=pairs))
        assert len(out) == len(sources)
        for n, (source, target) in enumerate(zip(sources, out, strict=True)):
            expected = "" if n % 4 == 3 or source == LONG else f"number {n}"
            assert re.sub("<[^>]*>", "", target).strip() == expected


@mixtures
@given(sources=some, buffer=buffers)
def test_transfer_translates_pages(run: Run, sources: list[str], buffer: int, tmp_path: Path) -> None:
    blocks = [source for source in sources if source != LONG]
    (tmp_path / "page.html").write_text(as_text(f"<p>{block}</p>" for block in blocks), encoding="utf-8")
    result = run("transfer", "--html-file", "page.html", "--translate", *BLANK, "--buffer", buffer)
    assert result.code == 0
    assert result.out.count(b"<p>") == result.out.count(b"</p>") == len(blocks)
    assert result.out.count(b"house") == sum(block.count("haus") for block in blocks)


@mixtures
@given(sources=some, buffer=buffers)
def test_transfer_translates_documents(run: Run, sources: list[str], buffer: int, tmp_path: Path) -> None:
    plain = [source for source in sources if not source.startswith("<") and source != LONG]
    units = "".join(f'<trans-unit id="{n}"><source>{source}</source></trans-unit>' for n, source in enumerate(plain))
    document = f'<xliff version="1.2"><file><body>{units}</body></file></xliff>'
    (tmp_path / "a.xlf").write_text(document, encoding="utf-8")
    result = run("transfer", "a.xlf", "--translate", "--buffer", buffer, "-o", "b.xlf", "--report", "report")
    assert result.code == 0
    root = etree.fromstring((tmp_path / "b.xlf").read_bytes())
    targets = [unit.findtext("target") for unit in root.iter("trans-unit")]
    assert len(targets) == len(plain)
    for source, target in zip(plain, targets, strict=True):
        assert bool(target) == bool(source)
        assert source not in ("", "5", "https://x.org/a") or (target or "") == source
    done = [json.loads(row)["id"] for row in (tmp_path / "report").read_text(encoding="utf-8").splitlines()]
    assert done == [*range(1, len(plain) + 1)]

    variants = "".join(
        f'<tu><tuv xml:lang="de"><seg><hi>{source}</hi></seg></tuv><tuv xml:lang="en"><seg>the {n}</seg></tuv></tu>'
        for n, source in enumerate(plain)
        if source
    )
    memory = f'<tmx version="1.4"><header srclang="de"/><body>{variants}</body></tmx>'
    (tmp_path / "a.tmx").write_text(memory, encoding="utf-8")
    result = run("transfer", "a.tmx", "--buffer", buffer, "-o", "b.tmx")
    assert result.code == 0
    targets = ["".join(seg.itertext()) for seg in etree.fromstring((tmp_path / "b.tmx").read_bytes()).iter("seg")][1::2]
    assert targets == [f"the {n}" for n, source in enumerate(plain) if source]


@mixtures
@given(sources=some, buffer=buffers)
def test_transfer_translates_catalogs(run: Run, sources: list[str], buffer: int, tmp_path: Path) -> None:
    plain = dict.fromkeys(source for source in sources if source and source != LONG)
    messages = "".join(f'\nmsgid "{source}"\nmsgstr ""\n' for source in plain)
    (tmp_path / "a.po").write_text(f'msgid ""\nmsgstr "Language: en\\n"\n{messages}', encoding="utf-8")
    result = run("transfer", "a.po", "--translate", "--buffer", buffer, "-o", "b.po", "--report", "report")
    assert result.code == 0
    done = [json.loads(row)["id"] for row in (tmp_path / "report").read_text(encoding="utf-8").splitlines()]
    assert done == [*range(1, len(plain) + 1)]


@mixtures
@given(sources=some, buffer=buffers)
def test_transfer_projects_labels(run: Run, sources: list[str], buffer: int) -> None:
    rows = as_text(
        json.dumps({"text": source, "labels": [[0, 1, "X"]] if source else [], "target": f"the {n}"})
        for n, source in enumerate(sources)
        if source != LONG
    )
    out = lines(run("transfer", "--tags", "spans", "--buffer", buffer, stdin=rows))
    assert [json.loads(row)["text"] for row in out] == [
        f"the {n}" for n, source in enumerate(sources) if source != LONG
    ]


@mixtures
@given(texts=st.lists(some, min_size=1, max_size=3), buffer=buffers)
def test_jobs(run_main: Run, model: str, texts: list[list[str]], buffer: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("job")
    (folder / "in").mkdir()
    for n, sources in enumerate(texts):
        rows = (f"{source}\tthe house" if k % 4 < 3 else "one field" for k, source in enumerate(sources))
        (folder / "in" / f"{n}.tsv").write_text(as_text(rows), encoding="utf-8")
    options = ("-m", model, "--device", "cpu", "--threads", "1", "--bad-lines", "blank", "-q")
    assert run_main(main.main, "jobs", folder / "in" / "*.tsv", "-o", folder / "out", *options).code == 0
    for n, sources in enumerate(texts):
        out = (folder / "out" / f"{n}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        assert len(out) == len(sources)
        for k, (source, row) in enumerate(zip(sources, out, strict=True)):
            assert k % 4 < 3 or not row.split("\t")[-1], source


@mixtures
@given(sources=some)
def test_service(model: str, sources: list[str]) -> None:
    work = work_of(load(model, device="cpu", too_long="blank").fixed(), "signature")

    async def requests() -> None:
        async with asking(work) as client:
            for path, sides, tags in (
                ("/align", ("source", "target"), {}),
                ("/transfer", ("source", "target"), {"tags": "html"}),
                ("/translate", ("source",), {"tags": "html"}),
            ):
                pairs = [{"id": n, **dict.fromkeys(sides, source)} for n, source in enumerate(sources)]
                replies = (await client.post(path, json={"pairs": pairs, **tags})).json()["pairs"]
                assert [reply["id"] for reply in replies] == list(range(len(sources)))
                for source, reply in zip(sources, replies, strict=True):
                    assert (reply["status"] == "too long") == (source == LONG)
                    if path == "/translate" and source in ("", "5", "https://x.org/a", "<td>5</td>"):
                        assert reply["target"] == source

    run_coroutine(requests)


@pytest.mark.parametrize("command", [(), ("score",), ("transfer", "--tags", "xml")])
def test_a_lost_line_is_an_error(
    run: Run, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Aligner.__call__

    def losing(self: Aligner, *arguments: Any) -> Generator[Alignment, None, None]:
        return (alignment for alignment in whole(self, *arguments) if alignment.pair.id != 3)

    monkeypatch.setattr(Aligner, "__call__", losing)
    text = as_text(["das haus ||| the house"] * 3)
    result = run(*command, "-o", "out", stdin=text)
    failed(result, "after 2 items; what is written ends there")
    assert not (tmp_path / "out").exists()
    result = run(*command, stdin=text)
    failed(result, "the results of 1 more are missing after 2 items")
    assert result.out.count(b"\n") == 2
